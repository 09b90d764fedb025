"""A transformer over the cells of tables in PyTorch: a training step of what the recipe `tables-cells` trains.

A block attends among the cells of each row, then among the rows of each column, and has a feed-forward part, each with
a layer norm behind its residual sum, as nanoTabPFN has it. Rows see labelled rows alone.

    masked    tables of a batch have different numbers of labelled rows, as in iclab, and a mask over keys; in the last
              block label cells alone ask, and behind it only they are carried, as in iclab
    split     as nanoTabPFN is written: all tables of a batch have the same number of labelled rows, which alone are
              projected to keys and values, and the last block is as the others

Heads are views, so that neither columns nor heads are copied before attention. A step draws numbers at random, and
iclab tables of its prior.
"""
import settings
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))

    def among_cells(self, asked, x):
        """asked [B, T, A, width], x [B, T, C, width]"""
        split = lambda part: part.unflatten(-1, (self.heads, -1)).flatten(0, 1).transpose(1, 2)
        q, k, v = split(self.query(asked)), split(self.key(x)), split(self.value(x))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.output(mixed.transpose(1, 2).reshape(asked.shape))

    def among_rows(self, asked, x, mask):
        """asked [B, A, C, width], x [B, T, C, width]: a column's heads are heads of their own"""
        split = lambda part: part.unflatten(-1, (self.heads, -1)).flatten(2, 3).transpose(1, 2)
        q, k, v = split(self.query(asked)), split(self.key(x)), split(self.value(x))
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.output(mixed.transpose(1, 2).reshape(asked.shape))


class Block(nn.Module):
    def __init__(self, heads, width, hidden):
        super().__init__()
        self.row, self.mixer = Attention(heads, width), Attention(heads, width)
        self.row_norm, self.mixer_norm, self.feed_forward_norm = (nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, z, cells, rows, keys, mask):
        """cells, rows: which are carried on; keys: which rows can be seen."""
        z = self.row_norm(z[:, :, cells] + self.row.among_cells(z[:, :, cells], z))
        z = self.mixer_norm(z[:, rows] + self.mixer.among_rows(z[:, rows], z[:, keys], mask))
        return self.feed_forward_norm(z + self.down(functional.gelu(self.up(z), approximate="tanh")))


class Model(nn.Module):
    def __init__(self, layers, heads, width, hidden, outputs):
        super().__init__()
        self.embedding, self.label = nn.Linear(1, width), nn.Linear(2, width)
        self.blocks = nn.ModuleList(Block(heads, width, hidden) for _ in range(layers))
        self.readout = nn.Linear(width, outputs)

    def forward(self, x, label, labelled, first_scored):
        """x [B, T, features], label [B, T, 2]; labelled: a mask [B, 1, 1, T], or their number. Returns outputs from
        first_scored on."""
        z = torch.cat((self.embedding(x.unsqueeze(-1)), self.label(label).unsqueeze(2)), 2)
        every, scored = slice(None), slice(first_scored, None)
        if isinstance(labelled, int):
            for block in self.blocks:
                z = block(z, every, every, slice(labelled), None)
            return self.readout(z[:, scored, -1])
        for block in self.blocks[:-1]:
            z = block(z, every, every, every, labelled)
        return self.readout(self.blocks[-1](z, slice(-1, None), scored, every, labelled)[:, :, 0])


def mask_of(counts, rows):
    return (torch.arange(rows, device=counts.device) < counts[:, None])[:, None, None]


# ---- Agreement ----


def pieces_of(model):
    """Each parameter by iclab's name, whose matrices act from the right."""
    linears = {"embedding": model.embedding, "embedding.label": model.label, "readout": model.readout}
    pieces = {f"{name}.{kind}": getattr(part, kind) for name, part in linears.items() for kind in ("weight", "bias")}
    for number, block in enumerate(model.blocks):
        for part in ("row", "mixer"):
            for matrix in ("query", "key", "value", "output"):
                pieces[f"block.{number}.{part}.{matrix}"] = getattr(getattr(block, part), matrix).weight
        for norm in ("row_norm", "mixer_norm", "feed_forward_norm"):
            for kind, own in (("gain", "weight"), ("shift", "bias")):
                pieces[f"block.{number}.{norm}.{kind}"] = getattr(getattr(block, norm), own)
        for direction in ("up", "down"):
            pieces[f"block.{number}.feed_forward.{direction}"] = getattr(block, direction).weight
            pieces[f"block.{number}.feed_forward.{direction}_bias"] = getattr(block, direction).bias
    return pieces


def check(formulation, heads, arrays, inputs, labelled, d_out):
    """Outputs [B, S, q] in double precision, and the gradients of sum(outputs d_out) by iclab's names."""
    layers = len({name.split(".")[1] for name in arrays if name.startswith("block.")})
    width, hidden = arrays["block.0.feed_forward.up"].shape
    model = Model(layers, heads, width, hidden, d_out.shape[2]).double()
    pieces = pieces_of(model)
    if pieces.keys() != arrays.keys():
        raise ValueError(f"parameters differ: {sorted(pieces.keys() ^ arrays.keys())}")
    with torch.no_grad():
        for name, parameter in pieces.items():
            parameter.copy_(torch.tensor(arrays[name].T))
    tables = torch.tensor(inputs)
    counts = torch.full((len(inputs),), labelled)
    known = labelled if formulation == "split" else mask_of(counts, inputs.shape[1])
    outputs = model(tables[..., :-2], tables[..., -2:], known, inputs.shape[1] - d_out.shape[1])
    (outputs * torch.tensor(d_out)).sum().backward()
    gradients = {name: parameter.grad.numpy().T for name, parameter in pieces.items()}
    return outputs.detach().numpy(), gradients


# ---- A step ----


def count_labelled(batch):
    """As iclab draws them: more tables with few labelled rows than with many."""
    u = torch.rand(batch)
    return settings.TABLE_LEAST + ((settings.TABLE_MOST + 1 - settings.TABLE_LEAST) * u * u).long()


def make_step(options):
    """A function that takes `count` steps and returns when they are done."""
    torch.manual_seed(1)
    layers, heads, width, hidden, outputs = settings.TABLE_MODEL
    batch, rows, features = settings.TABLE_BATCH
    model = Model(layers, heads, width, hidden, outputs).to(options.torch_device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=options.fused_adam or None)
    predict = torch.compile(model) if options.compile else model
    is_split = options.formulation == "split"
    mean = settings.TABLE_LEAST + (settings.TABLE_MOST - settings.TABLE_LEAST) // 3
    first = mean if is_split else settings.TABLE_LEAST

    def run(count):
        for _ in range(count):
            counts = torch.full((batch,), mean) if is_split else count_labelled(batch)
            counts = counts.to(options.torch_device)
            known = torch.arange(rows, device=options.torch_device) < counts[:, None]
            x = torch.randn(batch, rows, features, device=options.torch_device)
            label = torch.stack((torch.randn_like(x[..., 0]), torch.ones_like(x[..., 0])), 2) * known[..., None]
            classes = torch.randint(outputs, (batch, rows - first), device=options.torch_device)
            weights = (~known[:, first:]).float()
            weights = weights / weights.sum(1, keepdim=True) / batch
            optimizer.zero_grad(set_to_none=True)
            logits = predict(x, label, mean if is_split else mask_of(counts, rows), first)
            losses = functional.cross_entropy(logits.flatten(0, 1), classes.flatten(), reduction="none")
            (losses * weights.flatten()).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()

    return run

"""The training step of a GPT-style model in PyTorch: what `model.family = sequence` with softmax attention, learned
positions, layer norms before each part and a GELU computes.

    fused    scaled_dot_product_attention
    plain    softmax(q k^T / sqrt(m) + mask) v

With --bf16 the forward pass is under autocast: products take bfloat16, and weights and Adam stay float.

A step draws fresh sequences of linear regression, rows (x_i, y_i) with the query (x, 0) last, whose label is learned by
the mean squared error. Behind the last mixer both it and iclab carry the query alone; within it, iclab has the query
alone attend, and this model all tokens, as such models do that are written for training on every token.
"""
import numpy
import settings
import torch
from torch import nn
from torch.nn import functional


def fused(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def plain(q, k, v):
    tokens = q.shape[-2]
    mask = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v


ATTEND = {"fused": fused, "plain": plain}


class Block(nn.Module):
    def __init__(self, heads, width, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.before_mixer, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, wanted):
        """wanted: positions behind the mixer that are carried on."""
        batch, tokens, width = x.shape
        projected = self.project(self.before_mixer(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = projected.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = self.attend(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x[:, wanted] + self.output(mixed[:, wanted])
        return x + self.down(functional.gelu(self.up(self.before_feed_forward(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, layers, heads, width, tokens, inputs, attend):
        super().__init__()
        self.embedding, self.positions = nn.Linear(inputs, width), nn.Parameter(0.02 * torch.randn(tokens, width))
        self.blocks = nn.ModuleList(Block(heads, width, attend) for _ in range(layers))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, inputs):
        x = self.embedding(inputs) + self.positions
        for block in self.blocks[:-1]:
            x = block(x, slice(None))
        return self.readout(self.norm(self.blocks[-1](x, slice(-1, None))))[:, 0, 0]


def sample(batch, tokens, d, device):
    x, w = torch.randn(batch, tokens, d, device=device), torch.randn(batch, d, 1, device=device)
    y = torch.bmm(x, w)
    targets = y[:, -1, 0].clone()
    y[:, -1] = 0
    return torch.cat((x, y), 2), targets


def pieces_of(model):
    """Each parameter, or its gradient, and the names in iclab of what it is made of; iclab's matrices act from the
    right, and biases and gains have the same shape."""
    named = {
        "embedding.weight": model.embedding.weight, "embedding.bias": model.embedding.bias,
        "positions.table": model.positions, "norm.gain": model.norm.weight, "norm.shift": model.norm.bias,
        "readout.weight": model.readout.weight, "readout.bias": model.readout.bias,
    }
    pieces = {(name,): parameter for name, parameter in named.items()}
    for number, block in enumerate(model.blocks):
        name = f"block.{number}"
        for norm, part in (("mixer", block.before_mixer), ("feed_forward", block.before_feed_forward)):
            pieces[f"{name}.{norm}_norm.gain",], pieces[f"{name}.{norm}_norm.shift",] = part.weight, part.bias
        pieces[tuple(f"{name}.mixer.{part}" for part in ("query", "key", "value"))] = block.project.weight
        pieces[f"{name}.mixer.output",] = block.output.weight
        for direction in ("up", "down"):
            part = getattr(block, direction)
            pieces[f"{name}.feed_forward.{direction}",] = part.weight
            pieces[f"{name}.feed_forward.{direction}_bias",] = part.bias
    return pieces


def arranged(names, arrays):
    """The arrays of iclab with these names, as PyTorch has them."""
    parts = [arrays[name] for name in names]
    return parts[0] if names == ("positions.table",) else numpy.concatenate([part.T for part in parts])


def check(formulation, heads, arrays, inputs, targets):
    """Loss in double precision, and pairs of each gradient and the names of iclab's parts of it."""
    layers = len({name.split(".")[1] for name in arrays if name.startswith("block.")})
    tokens, width = arrays["positions.table"].shape
    model = Decoder(layers, heads, width, tokens, inputs.shape[2], ATTEND[formulation]).double()
    pieces = pieces_of(model)
    with torch.no_grad():
        for names, parameter in pieces.items():
            parameter.copy_(torch.tensor(arranged(names, arrays)))
    loss = ((model(torch.tensor(inputs)) - torch.tensor(targets)) ** 2).mean()
    loss.backward()
    return loss.item(), {names: parameter.grad.numpy() for names, parameter in pieces.items()}


def make_step(options):
    """A function that takes `count` steps and returns when they are done."""
    torch.manual_seed(1)
    layers, heads, width, tokens, batch = settings.DECODERS[options.decoder]
    d = settings.COORDINATES
    device = options.torch_device
    model = Decoder(layers, heads, width, tokens, d + 1, ATTEND[options.formulation]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=options.fused_adam or None)
    predict = torch.compile(model) if options.compile else model

    def run(count):
        for _ in range(count):
            inputs, targets = sample(batch, tokens, d, device)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=options.bf16):
                predictions = predict(inputs)
            ((predictions.float() - targets) ** 2).mean().backward()
            optimizer.step()

    return run

"""A language model of bytes in PyTorch: a training step of what the recipe `text` trains, with AdamW; and the bytes
that it writes, one after the other, each the most likely one.

    gated-delta   gated delta rules by chunks of 16 or 32 (recurrence_torch.py), queries and keys of length 1, an RMS
                  norm of each head's output
    softmax       attention to the last positions alone, by scaled_dot_product_attention: a block of queries sees its
                  own block of keys and the one before it, which takes less time than a mask over all keys

Both have short convolutions with SiLU before queries, keys and values. Around them: RMS norms before each part, a
SwiGLU, the norm of the whole gradient cut to 1. A step draws fresh windows of the text, from memory here, from the file
in iclab. Writing keeps the last inputs of the convolutions, and the states of the rules or the last keys and values, so
that a byte costs the same wherever it stands.
"""
import pathlib

import recurrence_torch
import settings
import torch
from torch import nn
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, x.shape[-1:], self.gain, 1e-5)


class Mixer(nn.Module):
    """Projections, convolutions and the output; what is between them is `mix`, and for one position `mix_step`."""

    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.project, self.output = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.filters = nn.Conv1d(
            3 * width, 3 * width, settings.TEXT_CONVOLUTION, groups=3 * width, bias=False,
            padding=settings.TEXT_CONVOLUTION - 1
        )

    def forward(self, x):
        filtered = self.filters(self.project(x).transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
        q, k, v = functional.silu(filtered).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.output(self.mix(x, q, k, v).transpose(1, 2).flatten(2))

    def begin(self):
        """The state before the first position: the last inputs of the filters [3 width, 3], and the mixer's own."""
        return torch.zeros(len(self.filters.weight), settings.TEXT_CONVOLUTION - 1), *self.begin_mix()

    def step(self, x, before, *state):
        """x [1, width]: one position of forward(). Returns its output and the state after it."""
        window = torch.cat((before, self.project(x).view(-1, 1)), 1)
        q, k, v = functional.silu((window * self.filters.weight[:, 0]).sum(1)).view(3, self.heads, 1, -1)
        mixed, state = self.mix_step(x, q, k, v, *state)
        return self.output(mixed.view(1, -1)), (window[:, 1:], *state)


class Attention(Mixer):
    def __init__(self, heads, width, formulation):
        super().__init__(heads, width)
        size = settings.TEXT_WINDOW
        ages = torch.arange(size, 2 * size)[:, None] - torch.arange(2 * size)
        self.register_buffer("mask", (ages >= 0) & (ages < size), persistent=False)

    def mix(self, x, q, k, v):
        q, k, v = (part.unflatten(2, (-1, settings.TEXT_WINDOW)) for part in (q, k, v))
        with_previous = lambda part: torch.cat((functional.pad(part[:, :, :-1], (0, 0, 0, 0, 1, 0)), part), 3)
        mask = self.mask.expand(q.shape[2], -1, -1).clone()
        mask[0, :, :settings.TEXT_WINDOW] = False  # nothing stands before the first block
        mixed = functional.scaled_dot_product_attention(q, with_previous(k), with_previous(v), attn_mask=mask)
        return mixed.flatten(2, 3)

    def begin_mix(self):
        size, m = settings.TEXT_WINDOW, self.output.weight.shape[1] // self.heads
        empty = torch.zeros(self.heads, size, m)
        return empty, empty, torch.full((size,), -torch.inf)

    def mix_step(self, x, q, k, v, keys, values, bias):
        """bias: 0 for positions that were there."""
        keys, values = torch.cat((keys[:, 1:], k), 1), torch.cat((values[:, 1:], v), 1)
        bias = torch.cat((bias[1:], torch.zeros(1)))
        weights = torch.softmax(q @ keys.transpose(1, 2) * k.shape[-1] ** -0.5 + bias, -1)
        return weights @ values, (keys, values, bias)


class GatedDelta(Mixer):
    def __init__(self, heads, width, formulation):
        super().__init__(heads, width)
        self.recur = recurrence_torch.evaluator(formulation, "gated-delta", 1)
        self.write, self.gate = nn.Linear(width, heads), nn.Linear(width, heads)
        self.rate, self.norm = nn.Parameter(torch.zeros(heads)), Norm(width // heads)

    def mix(self, x, q, k, v):
        beta = torch.sigmoid(self.write(x)).transpose(1, 2)
        decay = (-self.rate.exp() * functional.softplus(self.gate(x))).transpose(1, 2)
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        return self.norm(self.recur(q, k, v, beta, decay))

    def begin_mix(self):
        m = self.norm.gain.shape[0]
        return (torch.zeros(self.heads, m, m),)

    def mix_step(self, x, q, k, v, matrix):
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        beta = torch.sigmoid(self.write(x)).view(-1, 1, 1)
        matrix = matrix * torch.exp(-self.rate.exp() * functional.softplus(self.gate(x))).view(-1, 1, 1)
        matrix = matrix + k.transpose(1, 2) * (beta * (v - k @ matrix))
        return self.norm(q @ matrix), (matrix,)


MIXERS = {"gated-delta": GatedDelta, "softmax": Attention}


class Block(nn.Module):
    def __init__(self, mixer, heads, width, formulation):
        super().__init__()
        self.before_mixer, self.before_feed_forward = Norm(width), Norm(width)
        self.mixer = MIXERS[mixer](heads, width, formulation)
        hidden = settings.TEXT_FACTOR * width
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.feed(x + self.mixer(self.before_mixer(x)))

    def feed(self, x):
        y = self.before_feed_forward(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def step(self, x, *state):
        mixed, state = self.mixer.step(self.before_mixer(x), *state)
        return self.feed(x + mixed), state


class Model(nn.Module):
    def __init__(self, mixers, formulation):
        super().__init__()
        heads, width, _, _ = settings.TEXT_MODEL
        self.table = nn.Embedding(settings.BYTES, width)
        self.blocks = nn.ModuleList(Block(mixer, heads, width, formulation) for mixer in mixers)
        self.norm, self.readout = Norm(width), nn.Linear(width, settings.BYTES)

    def forward(self, symbols):
        x = self.table(symbols)
        for block in self.blocks:
            x = block(x)
        return self.readout(self.norm(x))

    def step(self, symbol, states):
        """Returns the next symbol [1], the most likely one, and the states of the layers after `symbol`."""
        x, after = self.table(symbol), []
        for block, state in zip(self.blocks, states):
            x, state = block.step(x, *state)
            after.append(state)
        return self.readout(self.norm(x)).argmax(1), after


def read_text(name):
    path = pathlib.Path(name)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)), dtype=torch.uint8).long()


def make_step(options):
    """A function that takes `count` steps and returns when they are done."""
    torch.manual_seed(1)
    _, _, length, batch = settings.TEXT_MODEL
    text = read_text(options.text).to(options.torch_device)
    model = Model(settings.TEXT_MIXERS[options.mixers], options.formulation).to(options.torch_device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=options.fused_adam or None)
    predict = torch.compile(model) if options.compile else model
    places = torch.arange(length + 1, device=text.device)

    def run(count):
        for _ in range(count):
            windows = text[torch.randint(len(text) - length, (batch, 1), device=text.device) + places]
            optimizer.zero_grad(set_to_none=True)
            logits = predict(windows[:, :-1])
            functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()

    return run


def make_run(options):
    """A function that writes `count` texts of options.generate bytes and returns when they are done."""
    torch.manual_seed(1)
    model = Model(settings.TEXT_MIXERS[options.mixers], options.formulation)
    step = torch.compile(model.step) if options.compile else model.step

    def run(count):
        with torch.inference_mode():
            for _ in range(count):
                symbol, states = torch.zeros(1, dtype=torch.long), [block.mixer.begin() for block in model.blocks]
                for _ in range(options.generate):
                    symbol, states = step(symbol, states)
                    int(symbol)  # the byte is shown before the next one

    return run

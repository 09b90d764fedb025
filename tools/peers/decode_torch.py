"""Decoding with a stack of delta rules in PyTorch, a token at a time: what icl_decoder_step does for `model.family =
sequence` with mixer = delta. The state has a fixed size, so that a token costs the same wherever it stands."""
import settings
import torch
from torch.nn import functional


def rms(x, gain):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain


class Layer:
    def __init__(self, heads, width):
        normal = lambda *shape: torch.randn(*shape) * shape[0] ** -0.5
        self.heads = heads
        self.gains = torch.ones(width), torch.ones(width), torch.ones(width // heads)
        self.project, self.output = normal(width, 3 * width), normal(width, width)
        self.write, self.write_bias = normal(width, heads), torch.zeros(heads)
        self.up, self.up_bias = normal(width, 4 * width), torch.zeros(4 * width)
        self.down, self.down_bias = normal(4 * width, width), torch.zeros(width)

    def step(self, z, state):
        """z [B, width], state [B, H, m, m]."""
        x = rms(z, self.gains[0])
        q, k, v = (x @ self.project).view(len(z), 3, self.heads, -1).unbind(1)
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        beta = torch.sigmoid(torch.addmm(self.write_bias, x, self.write))[..., None]
        change = beta * (v - (k[:, :, None] @ state)[:, :, 0])
        state = state + k[..., None] * change[:, :, None]
        o = rms((q[:, :, None] @ state)[:, :, 0], self.gains[2])
        z = z + o.reshape(z.shape) @ self.output
        hidden = functional.gelu(torch.addmm(self.up_bias, rms(z, self.gains[1]), self.up), approximate="tanh")
        return z + torch.addmm(self.down_bias, hidden, self.down), state


def make_run(options):
    """A function that decodes the tokens of `count` sequences and returns when they are done."""
    torch.manual_seed(1)
    layers, heads, width, batch = settings.DECODE_MODEL
    inputs = settings.COORDINATES + 1
    stack = [Layer(heads, width) for _ in range(layers)]
    embedding, readout = torch.randn(inputs, width) * inputs**-0.5, torch.randn(width, 1) / width
    gain, bias = torch.ones(width), torch.zeros(width)
    tokens = torch.randn(options.decode, batch, inputs)

    def step(token, states):
        z, after = torch.addmm(bias, token, embedding), []
        for layer, state in zip(stack, states):
            z, state = layer.step(z, state)
            after.append(state)
        return rms(z, gain) @ readout, after

    step = torch.compile(step) if options.compile else step

    def run(count):
        with torch.inference_mode():
            for _ in range(count):
                states = [torch.zeros(batch, heads, width // heads, width // heads) for _ in stack]
                for token in tokens:
                    _, states = step(token, states)

    return run

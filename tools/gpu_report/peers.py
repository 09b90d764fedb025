"""iclab beside PyTorch on one card: the same inputs, taking turns; arguments: iclab's device, seconds for all.

One JSON object a line: {"case", "contender", "on", "ms", "times_iclab", "error"}, or {"unavailable": why}. `error` is
the largest difference from PyTorch in double precision, relative to its largest element."""

import ctypes
import json
import statistics
import sys
import time

import numpy
import torch
from iclab import _devices, _library as library, _tensors

CARD = "cuda" if torch.cuda.is_available() else "cpu"
TURN, ROUNDS, MOST_CALLS = 0.03, 7, 1000


def say(**row):
    print(json.dumps(row), flush=True)


def synchronize():
    if CARD == "cuda":
        torch.cuda.synchronize()


class Iclab:
    """Ops of the library on tensors of a device; `make` and `upload` keep what they return alive."""

    def __init__(self, spec):
        self.device = _devices.Device(spec)
        self.name = f"iclab {self.device.spec}"

    def make(self, *shape):
        tensor = library.struct("icl_tensor")
        extents = (ctypes.c_size_t * len(shape))(*shape)
        library.call("icl_tensor_create", self.device, len(shape), extents, ctypes.byref(tensor))
        return tensor

    def upload(self, array):
        tensor = self.make(*array.shape)
        _tensors.write(tensor, numpy.ascontiguousarray(array, numpy.float32))
        return tensor

    def call(self, name, *arguments):
        library.call(name, self.device, *arguments)

    def synchronize(self):
        library.call("icl_backend_sync", self.device)


class Contender:
    """`run` computes once; `results` gives arrays of the last call; tf32: whether tensor cores may round products."""

    def __init__(self, name, on, run, results, wait, tf32=False):
        self.name, self.on, self.run, self.results, self.wait, self.tf32 = name, on, run, results, wait, tf32
        self.calls, self.times = 1, []

    def turn(self):
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        start = time.perf_counter()
        for _ in range(self.calls):
            self.run()
        self.wait()
        return (time.perf_counter() - start) / self.calls


def torch_contender(name, function, inputs, tf32=False, dtype=torch.float32, cotangent=None):
    """FUNCTION of tensors; with a COTANGENT also its gradients by all inputs."""
    tensors = [torch.tensor(array, dtype=dtype, device=CARD, requires_grad=cotangent is not None) for array in inputs]
    seed = None if cotangent is None else torch.tensor(cotangent, dtype=dtype, device=CARD)
    last = []

    def run():
        out = function(*tensors)
        last[:] = [out] if seed is None else [out, *torch.autograd.grad(out, tensors, seed)]

    def results():
        return [tensor.detach().double().cpu().numpy() for tensor in last]

    card = torch.cuda.get_device_name() if CARD == "cuda" else "cpu"
    return Contender(name, card, run, results, synchronize, tf32)


def plain_attention(q, k, v):
    return torch.softmax(0.125 * (q @ k.transpose(-1, -2)), dim=-1) @ v


def fused_attention(q, k, v):  # with PyTorch's default scale, 1 / sqrt(64)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def gated_delta(q, k, v, beta, decay):
    """S <- e^decay S; S <- S + beta k (v - k S); the output is q S / 8, token by token."""
    state, outs = torch.zeros(*q.shape[:2], q.shape[3], v.shape[3], dtype=q.dtype, device=q.device), []
    for t in range(q.shape[2]):
        state = decay[:, :, t, :, None].exp() * state
        key = k[:, :, t, :, None]
        state = state + key * (beta[:, :, t] * (v[:, :, t] - (key * state).sum(-2)))[..., None, :]
        outs.append((q[:, :, t, None, :] @ state)[..., 0, :])
    return 0.125 * torch.stack(outs, 2)


def attention(iclab, draw, tokens, is_backward):
    """16 sequences, one head of width 64."""
    inputs, cotangent = [draw(16, 1, tokens, 64) for _ in range(3)], draw(16, 1, tokens, 64)
    params = library.struct("icl_attention_params", kind=library.constants["ICL_ATTENTION_SOFTMAX"], scale=0.125)
    own, d_out = [iclab.upload(array) for array in inputs], iclab.upload(cotangent)
    outs = [iclab.make(16, 1, tokens, 64) for _ in range(4 if is_backward else 1)]
    sums = iclab.make(16, 1, tokens, 1)

    def run():
        iclab.call("icl_attention_forward", ctypes.byref(params), outs[0], sums, *own)
        if is_backward:
            iclab.call("icl_attention_backward", ctypes.byref(params), *outs[1:], d_out, outs[0], sums, *own)

    def results():
        return [_tensors.read(out, False) for out in outs]

    yield Contender(iclab.name, iclab.device.name, run, results, iclab.synchronize)
    seed = cotangent if is_backward else None
    for tf32 in (False, True) if CARD == "cuda" else (False,):
        rounding = ", TF32" if tf32 else ""
        if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            yield torch_contender(f"torch SDPA{rounding}", fused_attention, inputs, tf32, cotangent=seed)
        yield torch_contender(f"torch plain{rounding}", plain_attention, inputs, tf32, cotangent=seed)
    if CARD == "cuda" and hasattr(torch, "compile"):
        yield torch_contender("torch.compile plain (Triton)", torch.compile(plain_attention), inputs, cotangent=seed)
    yield torch_contender("", plain_attention, inputs, dtype=torch.float64, cotangent=seed)


def product(iclab, draw, m, n, k):
    inputs = [draw(m, k), draw(k, n)]
    own, out = [iclab.upload(array) for array in inputs], iclab.make(m, n)

    def run():
        iclab.call("icl_matmul", out, 1.0, *own, 0.0)

    yield Contender(iclab.name, iclab.device.name, run, lambda: [_tensors.read(out, False)], iclab.synchronize)
    for tf32 in (False, True) if CARD == "cuda" else (False,):
        yield torch_contender(f"torch{', TF32' if tf32 else ''}", torch.matmul, inputs, tf32)
    yield torch_contender("", torch.matmul, inputs, dtype=torch.float64)


def recurrence(iclab, draw, batch, heads, tokens, width):
    """The gated delta rule with keys of length 1, forward."""
    q, k, v = (draw(batch, heads, tokens, width) for _ in range(3))
    k = rounded(k / numpy.linalg.norm(k, axis=-1, keepdims=True))
    beta, gate = (1 / (1 + numpy.exp(-draw(batch, heads, tokens, 1))) for _ in range(2))
    inputs = (q, k, v, rounded(beta), rounded(numpy.log(0.9 + 0.1 * gate)))
    own = dict(zip(("q", "k", "v", "beta", "decay"), map(iclab.upload, inputs)))
    given, params = library.struct("icl_recurrence_inputs", **own), library.struct("icl_recurrence_params")
    params.delta, params.scale, out = True, 0.125, iclab.make(*v.shape)

    def run():
        absent = library.struct("icl_tensor")
        iclab.call("icl_recurrence_forward", ctypes.byref(params), out, absent, None, ctypes.byref(given))

    yield Contender(iclab.name, iclab.device.name, run, lambda: [_tensors.read(out, False)], iclab.synchronize)
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    except Exception as error:  # a Triton that does not fit the card fails in its own ways
        say(unavailable=f"{tokens} tokens, fla: {error}")
    else:

        def chunks(q, k, v, beta, decay):  # [B, T, H, width], bfloat16, as fla's models call it
            q, k, v, beta, decay = (x.transpose(1, 2) for x in (q, k, v, beta, decay))
            out, _ = chunk_gated_delta_rule(q, k, v, decay[..., 0].float(), beta[..., 0], scale=0.125)
            return out.transpose(1, 2)

        yield torch_contender("fla chunks, bfloat16 (Triton)", chunks, inputs, dtype=torch.bfloat16)
    yield torch_contender("torch, token by token", gated_delta, inputs)
    yield torch_contender("", gated_delta, inputs, dtype=torch.float64)


# Title, the contenders' generator, its arguments.
CASES = (
    ("softmax attention forward n 1024 d 64 (16)", attention, (1024, False)),
    ("recurrence forward gated delta T 256 d 32 (32 x 4)", recurrence, (32, 4, 256, 32)),
    ("matmul (1024x1024)(1024x1024)", product, (1024, 1024, 1024)),
    ("softmax attention forward and backward n 1024 d 64 (16)", attention, (1024, True)),
    ("recurrence forward gated delta T 1024 d 64 (8 x 8)", recurrence, (8, 8, 1024, 64)),
    ("matmul (43008x21)(21x21)", product, (43008, 21, 21)),
)


def rounded(array):
    """The same in single precision: every contender, the truth too, gets these numbers."""
    return array.astype(numpy.float32).astype(numpy.float64)


def difference(results, expected):
    ratios = (abs(a - b).max() / abs(b).max() for a, b in zip(results, expected))
    return float(max(ratios))


def measure(title, contenders):
    """Those that run take turns; the last contender is the truth. Times are compared round by round."""
    *runners, truth = contenders
    truth.run()
    expected, rows, ready = truth.results(), [], []
    for one in runners:
        try:
            one.turn()
            error, seconds = difference(one.results(), expected), one.turn()
        except Exception as failure:  # a library that cannot compile or run here is no contender; the others go on
            say(unavailable=f"{title}, {one.name}: {type(failure).__name__}: {str(failure).splitlines()[0]}")
            continue
        one.calls = max(1, min(MOST_CALLS, int(TURN / max(seconds, 1e-9))))
        ready.append(one)
        rows.append({"case": title, "contender": one.name, "on": one.on, "error": error})
    for _ in range(ROUNDS):
        for one in ready:
            one.times.append(one.turn())
    for one, row in zip(ready, rows):
        ratio = statistics.median(own / base for own, base in zip(one.times, ready[0].times))
        say(**row, ms=1e3 * statistics.median(one.times), times_iclab=ratio)


def main():
    end = time.monotonic() + float(sys.argv[2])
    iclab, random = Iclab(sys.argv[1]), numpy.random.default_rng(1)
    for title, make, arguments in CASES:
        if time.monotonic() < end:
            measure(title, make(iclab, lambda *shape: rounded(random.standard_normal(shape)), *arguments))


main()

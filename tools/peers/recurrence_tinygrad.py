"""A recurrence with a matrix state in tinygrad, by chunks: see recurrence_torch.py. It has no triangular solve; with A
strictly lower triangular of C rows, C a power of two, (I + A)^(-1) = (I - A)(I + A^2)(I + A^4) ... (I + A^(C/2)).
Each pass is one TinyJit."""
import recurrence_data
from tinygrad import Tensor, TinyJit, dtypes


def inverse(strictly_lower):
    size = strictly_lower.shape[-1]
    eye, power = Tensor.eye(size, dtype=strictly_lower.dtype), strictly_lower @ strictly_lower
    product, degree = eye - strictly_lower, 2
    while degree < size:
        product = product @ (eye + power)
        power, degree = power @ power, 2 * degree
    return product


def chunks(size, rule, scale, q, k, v, *gates):
    split = lambda tensor: tensor.reshape(*tensor.shape[:2], -1, size, *tensor.shape[3:])
    q, k, v, sums = split(scale * q), split(k), split(v), split(gates[-1]).cumsum(-1)
    lower = Tensor.ones(size, size, dtype=q.dtype).tril()
    # Above the diagonal the difference is replaced before exp, which would overflow there.
    between = ((sums.unsqueeze(-1) - sums.unsqueeze(-2)) * lower).exp() * lower
    scores = (q @ k.transpose(-1, -2)) * between
    carried, last = sums.exp().unsqueeze(-1), sums[..., -1:]
    read, write = carried * q, ((last - sums).exp().unsqueeze(-1) * k).transpose(-1, -2)
    factor = last.exp().unsqueeze(-1)
    if rule == "gated-delta":
        beta, width = split(gates[0]).unsqueeze(-1), v.shape[-1]
        solve = inverse((beta * (k @ k.transpose(-1, -2)) * between).tril(-1))
        both = solve @ (beta * Tensor.cat(v, carried * k, dim=-1))
        v, keys = both[..., :width], both[..., width:]
    state = Tensor.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=q.dtype)
    outs = []
    for number in range(q.shape[2]):
        x = v[:, :, number]
        if rule == "gated-delta":
            x = x - keys[:, :, number] @ state
        outs.append(read[:, :, number] @ state + scores[:, :, number] @ x)
        state = factor[:, :, number] * state + write[:, :, number] @ x
    return Tensor.cat(*outs, dim=2)


def evaluator(formulation, rule, scale):
    return lambda *inputs: chunks(int(formulation[5:]), rule, scale, *inputs)


def both_passes(evaluate, inputs, d_out):
    out = evaluate(*inputs)
    return out, *(out * d_out).sum().gradient(*inputs)


def check(formulation, rule, inputs, d_out):
    """The output and the gradients in double precision, as numpy arrays."""
    tensors = [Tensor(array, dtype=dtypes.double) for array in inputs]
    evaluate = evaluator(formulation, rule, recurrence_data.scale_of(d_out.shape))
    return [tensor.numpy() for tensor in both_passes(evaluate, tensors, Tensor(d_out, dtype=dtypes.double))]


class Run:
    def __init__(self, options):
        arrays, d_out = recurrence_data.make(options.rule, options.shape)
        evaluate = evaluator(options.formulation, options.rule, recurrence_data.scale_of(options.shape))
        self.inputs = [Tensor(array, dtype=dtypes.float).realize() for array in arrays]
        self.d_out = Tensor(d_out, dtype=dtypes.float).realize()

        @TinyJit
        def call(d_out, *inputs):
            outs = both_passes(evaluate, inputs, d_out) if options.backward else [evaluate(*inputs)]
            return Tensor.realize(*outs) if len(outs) == 1 else outs[0].realize(*outs[1:]), outs

        self.call, self.outs = call, None

    def __call__(self, count):
        for _ in range(count):
            self.outs = self.call(self.d_out, *self.inputs)[1]
        self.outs[0][0, 0, 0, 0].item()  # waits for the device

    def arrays(self):
        return [tensor.numpy() for tensor in self.outs]

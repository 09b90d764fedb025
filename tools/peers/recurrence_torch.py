"""A recurrence with a matrix state in PyTorch (recurrence_data.py has the formulas), written two ways.

    tokens   one token after the other
    chunk    chunks of C tokens as matrix products: what depends on the inputs alone for all chunks at once, then a loop
             over chunks that carries the state

In a chunk b_i is the running sum of the decay, L_ij = exp(b_i - b_j) for i >= j, else 0, and

    A = (I + tril(diag(beta) (K K^T o L), -1))^(-1) diag(beta),   X = A V - A diag(e^b) K S   (sum: X = V)
    O = diag(e^b) Q S + (Q K^T o L) X,   S <- e^(b_C) S + (diag(e^(b_C - b)) K)^T X

Loops take tokens and chunks by `unbind`: the backward pass of each slice x[:, t] would fill a gradient of x's size.
"""
import recurrence_data
import torch


def tokens(rule, scale, q, k, v, *gates):
    beta, decay = gates if rule == "gated-delta" else (None, gates[0])
    state = torch.zeros(*q.shape[:2], q.shape[3], v.shape[3], dtype=q.dtype)
    factors = decay.exp()[..., None, None].unbind(2)
    strengths = beta[..., None].unbind(2) if rule == "gated-delta" else factors
    outs = []
    for q_t, k_t, v_t, factor, strength in zip(q.unbind(2), k.unbind(2), v.unbind(2), factors, strengths):
        state = factor * state
        if rule == "gated-delta":
            v_t = strength * (v_t - (k_t[..., None, :] @ state)[..., 0, :])
        state = state + k_t[..., :, None] * v_t[..., None, :]
        outs.append((q_t[..., None, :] @ state)[..., 0, :])
    return scale * torch.stack(outs, 2)


def chunks(size, rule, scale, q, k, v, *gates):
    split = lambda tensor: tensor.unflatten(2, (-1, size))
    q, k, v, sums = split(scale * q), split(k), split(v), split(gates[-1]).cumsum(-1)
    lower = torch.ones(size, size, dtype=torch.bool).tril()
    between = (sums[..., :, None] - sums[..., None, :]).masked_fill(~lower, float("-inf")).exp()
    scores = (q @ k.transpose(-1, -2)) * between
    carried, last = sums.exp()[..., None], sums[..., -1:]
    read, write, factor = carried * q, ((last - sums).exp()[..., None] * k).transpose(-1, -2), last.exp()[..., None]
    if rule == "gated-delta":
        beta = split(gates[0])[..., None]
        system = (beta * (k @ k.transpose(-1, -2)) * between).tril(-1)
        width = v.shape[-1]
        both = torch.linalg.solve_triangular(
            system, beta * torch.cat((v, carried * k), -1), upper=False, unitriangular=True
        )
        v, keys = both[..., :width], both[..., width:].unbind(2)
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=q.dtype)
    outs = []
    parts = zip(*(tensor.unbind(2) for tensor in (v, scores, read, write, factor)))
    for number, (x, scores_c, read_c, write_c, factor_c) in enumerate(parts):
        if rule == "gated-delta":
            x = x - keys[number] @ state
        outs.append(read_c @ state + scores_c @ x)
        state = factor_c * state + write_c @ x
    return torch.stack(outs, 2).flatten(2, 3)


def evaluator(formulation, rule, scale):
    """formulation: "tokens", or "chunk16" for chunks of 16."""
    if formulation == "tokens":
        return lambda *inputs: tokens(rule, scale, *inputs)
    return lambda *inputs: chunks(int(formulation[5:]), rule, scale, *inputs)


def check(formulation, rule, inputs, d_out):
    """The output and the gradients in double precision, as numpy arrays."""
    tensors = [torch.tensor(array, requires_grad=True) for array in inputs]
    out = evaluator(formulation, rule, recurrence_data.scale_of(d_out.shape))(*tensors)
    out.backward(torch.tensor(d_out))
    return [out.detach().numpy(), *(tensor.grad.numpy() for tensor in tensors)]


class Run:
    def __init__(self, options):
        arrays, d_out = recurrence_data.make(options.rule, options.shape)
        self.inputs = [torch.tensor(array, dtype=torch.float32) for array in arrays]
        self.d_out = torch.tensor(d_out, dtype=torch.float32)
        evaluate = evaluator(options.formulation, options.rule, recurrence_data.scale_of(options.shape))
        self.evaluate = torch.compile(evaluate) if options.compile else evaluate
        self.backward, self.out = options.backward, None

    def __call__(self, count):
        for _ in range(count):
            for tensor in self.inputs:
                tensor.requires_grad_(self.backward)
                tensor.grad = None
            with torch.inference_mode(not self.backward):
                self.out = self.evaluate(*self.inputs)
            if self.backward:
                self.out.backward(self.d_out)

    def arrays(self):
        return [self.out.detach().numpy(), *(tensor.grad.numpy() for tensor in self.inputs if self.backward)]

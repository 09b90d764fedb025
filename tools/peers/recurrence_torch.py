"""A recurrence with a matrix state in PyTorch (recurrence_data.py has the formulas), written two ways.

    tokens   one token after the other
    chunk    chunks of C tokens as matrix products: what depends on the inputs alone for all chunks at once, then a loop
             over chunks that carries the state

In a chunk b_i is the running sum of the decay, L_ij = exp(b_i - b_j) for i >= j, else 0, and

    A = (I + tril(diag(beta) (K K^T o L), -1))^(-1) diag(beta),   X = A V - A diag(e^b) K S   (sum: X = V)
    O = diag(e^b) Q S + (Q K^T o L) X,   S <- e^(b_C) S + (diag(e^(b_C - b)) K)^T X

With a decay for each channel, b has a number for each, and the factors go into keys: with Q+ = Q o e^b, R+ = R o e^b,
K- = K o e^(-b), K> = K o e^(b_C - b), and likewise W- and W>,

    P = (I + tril(R+ K-^T, -1))^(-1) (tril(R+ W-^T, -1) V + R+ S) = U + Y S
    O = (Q+ - tril(Q+ K-^T) Y) S + tril(Q+ W-^T) V - tril(Q+ K-^T) U
    S <- e^(b_C) S + W>^T V - K>^T U - K>^T Y S

where only the last line carries the state. With kda R = W = K, and U and Y are those of X = diag(beta) (V - P). Written
so, a chunk's decays may add up to -80 in single precision; here they stay above -20.

Loops take tokens and chunks by `unbind`: the backward pass of each slice x[:, t] would fill a gradient of x's size.
"""
import recurrence_data
import settings
import torch


def channel_step(rule, state, q_t, k_t, v_t, factor, *rest):
    """Rows [B, H, 1, d], and keys that write [B, H, d, 1]; rest: the strength with kda, both other keys with rwkv7."""
    state = factor * state
    if rule == "kda":
        strength, read = rest
        state = state + k_t * (strength * (v_t - read @ state))
    else:
        read, write = rest
        state = state - k_t * (read @ state) + write * v_t
    return state, q_t @ state


def channel_tokens(step, rule, scale, q, k, v, *rest):
    state = torch.zeros(*q.shape[:2], q.shape[3], v.shape[3], dtype=q.dtype, device=q.device)
    row, column = (lambda tensor: tensor[..., None, :]), (lambda tensor: tensor[..., None])
    if rule == "kda":
        decay, others = rest[1], (rest[0][..., None, None], row(k))
    else:
        decay, others = rest[0], (row(rest[1]), column(rest[2]))
    every = (row(q), column(k), row(v), column(decay.exp()), *others)
    outs = []
    for token in zip(*(tensor.unbind(2) for tensor in every)):
        state, out = step(rule, state, *token)
        outs.append(out)
    return scale * torch.cat(outs, 2)


def channel_chunks(size, rule, scale, q, k, v, *rest):
    split = lambda tensor: tensor.unflatten(2, (-1, size))
    transposed = lambda tensor: tensor.transpose(-1, -2)
    solve = lambda system, right: torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    q, k, v = split(scale * q), split(k), split(v)
    sums = split(rest[1] if rule == "kda" else rest[0]).cumsum(-2)
    grown, shrunk, last = sums.exp(), (-sums).exp(), sums[..., -1:, :]
    behind = (last - sums).exp()
    q, k_inverse, k_last, width = grown * q, transposed(shrunk * k), transposed(behind * k), v.shape[-1]
    scores = (q @ k_inverse).tril()
    if rule == "kda":
        beta, reads = split(rest[0])[..., None], grown * k
        both = solve((beta * (reads @ k_inverse)).tril(-1), beta * torch.cat((v, reads), -1))
        x, keys = both[..., :width], both[..., width:]
        within, add = scores @ x, k_last @ x
    else:
        reads, write = grown * split(rest[1]), split(rest[2])
        w_inverse = transposed(shrunk * write)
        both = solve((reads @ k_inverse).tril(-1), torch.cat(((reads @ w_inverse).tril(-1) @ v, reads), -1))
        x, keys = both[..., :width], both[..., width:]
        within = (q @ w_inverse).tril() @ v - scores @ x
        add = transposed(behind * write) @ v - k_last @ x
    state = torch.zeros(*q.shape[:2], q.shape[-1], width, dtype=q.dtype, device=q.device)
    states = []
    for keys_c, erase, add_c, factor in zip(*(part.unbind(2) for part in (keys, k_last, add, transposed(last.exp())))):
        states.append(state)
        state = factor * state + add_c - erase @ (keys_c @ state)
    return ((q - scores @ keys) @ torch.stack(states, 2) + within).flatten(2, 3)


def tokens(rule, scale, q, k, v, *gates):
    beta, decay = gates if rule == "gated-delta" else (None, gates[0])
    state = torch.zeros(*q.shape[:2], q.shape[3], v.shape[3], dtype=q.dtype, device=q.device)
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
    lower = torch.ones(size, size, dtype=torch.bool, device=q.device).tril()
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
    state = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], dtype=q.dtype, device=q.device)
    outs = []
    parts = zip(*(tensor.unbind(2) for tensor in (v, scores, read, write, factor)))
    for number, (x, scores_c, read_c, write_c, factor_c) in enumerate(parts):
        if rule == "gated-delta":
            x = x - keys[number] @ state
        outs.append(read_c @ state + scores_c @ x)
        state = factor_c * state + write_c @ x
    return torch.stack(outs, 2).flatten(2, 3)


def evaluator(formulation, rule, scale, compiled=False):
    """formulation: "tokens", or "chunk16" for chunks of 16. Of channel rules' tokens the step alone is compiled."""
    as_asked = torch.compile if compiled else lambda function: function
    by_channel = rule in settings.CHANNEL_RULES
    if formulation == "tokens" and by_channel:
        step = as_asked(channel_step)
        return lambda *inputs: channel_tokens(step, rule, scale, *inputs)
    if formulation == "tokens":
        return as_asked(lambda *inputs: tokens(rule, scale, *inputs))
    form = channel_chunks if by_channel else chunks
    return as_asked(lambda *inputs: form(int(formulation[5:]), rule, scale, *inputs))


def check(formulation, rule, inputs, d_out):
    """The output and the gradients in double precision, as numpy arrays."""
    tensors = [torch.tensor(array, requires_grad=True) for array in inputs]
    out = evaluator(formulation, rule, recurrence_data.scale_of(d_out.shape))(*tensors)
    out.backward(torch.tensor(d_out))
    return [out.detach().numpy(), *(tensor.grad.numpy() for tensor in tensors)]


class Run:
    def __init__(self, options):
        arrays, d_out = recurrence_data.make(options.rule, options.shape)
        like = {"dtype": torch.float32, "device": options.torch_device}
        self.inputs, self.d_out = [torch.tensor(array, **like) for array in arrays], torch.tensor(d_out, **like)
        scale = recurrence_data.scale_of(options.shape)
        self.evaluate = evaluator(options.formulation, options.rule, scale, options.compile)
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
        gradients = [tensor.grad for tensor in self.inputs if self.backward]
        return [tensor.detach().cpu().numpy() for tensor in (self.out, *gradients)]

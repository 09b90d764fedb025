"""A recurrence with a matrix state in JAX, by lax.scan over tokens or over chunks: see recurrence_torch.py.

jax.scipy.linalg.solve_triangular of a batch now and then waits for itself forever on a CPU. Instead, with A strictly
lower triangular of C rows, C a power of two, (I + A)^(-1) = (I - A)(I + A^2)(I + A^4) ... (I + A^(C/2)).
"""
import functools

import jax
import jax.numpy as jnp
import recurrence_data


def tokens(rule, scale, q, k, v, *gates):
    def step(state, token):
        q_t, k_t, v_t, *gates_t = token
        state = jnp.exp(gates_t[-1])[..., None, None] * state
        if rule == "gated-delta":
            v_t = gates_t[0][..., None] * (v_t - jnp.einsum("bhm,bhmn->bhn", k_t, state))
        state = state + k_t[..., :, None] * v_t[..., None, :]
        return state, jnp.einsum("bhm,bhmn->bhn", q_t, state)

    state = jnp.zeros((*q.shape[:2], q.shape[3], v.shape[3]), q.dtype)
    rows = [jnp.moveaxis(array, 2, 0) for array in (q, k, v, *gates)]
    return scale * jnp.moveaxis(jax.lax.scan(step, state, tuple(rows))[1], 0, 2)


def inverse(strictly_lower):
    size = strictly_lower.shape[-1]
    eye, power, degree = jnp.eye(size, dtype=strictly_lower.dtype), strictly_lower @ strictly_lower, 2
    product = eye - strictly_lower
    while degree < size:
        product = product @ (eye + power)
        power, degree = power @ power, 2 * degree
    return product


def chunks(size, rule, scale, q, k, v, *gates):
    split = lambda array: array.reshape(*array.shape[:2], -1, size, *array.shape[3:])
    q, k, v, sums = split(scale * q), split(k), split(v), jnp.cumsum(split(gates[-1]), -1)
    lower = jnp.tril(jnp.ones((size, size), bool))
    between = jnp.exp(jnp.where(lower, sums[..., :, None] - sums[..., None, :], -jnp.inf))
    scores = (q @ jnp.swapaxes(k, -1, -2)) * between
    carried, last = jnp.exp(sums)[..., None], sums[..., -1:]
    write = jnp.swapaxes(jnp.exp(last - sums)[..., None] * k, -1, -2)
    keys = jnp.zeros_like(k)
    if rule == "gated-delta":
        beta, width = split(gates[0])[..., None], v.shape[-1]
        solve = inverse(jnp.tril(beta * (k @ jnp.swapaxes(k, -1, -2)) * between, -1))
        both = solve @ (beta * jnp.concatenate((v, carried * k), -1))
        v, keys = both[..., :width], both[..., width:]

    def step(state, part):
        x, keys_c, scores_c, read_c, write_c, factor_c = part
        if rule == "gated-delta":
            x = x - keys_c @ state
        return factor_c * state + write_c @ x, read_c @ state + scores_c @ x

    state = jnp.zeros((*q.shape[:2], q.shape[-1], v.shape[-1]), q.dtype)
    parts = (v, keys, scores, carried * q, write, jnp.exp(last)[..., None])
    out = jax.lax.scan(step, state, tuple(jnp.moveaxis(array, 2, 0) for array in parts))[1]
    return jnp.moveaxis(out, 0, 2).reshape(*q.shape[:2], -1, v.shape[-1])


def evaluator(formulation, rule, scale):
    if formulation == "tokens":
        return functools.partial(tokens, rule, scale)
    return functools.partial(chunks, int(formulation[5:]), rule, scale)


def with_gradients(evaluate):
    def both(inputs, d_out):
        out, pull = jax.vjp(evaluate, *inputs)
        return (out, *pull(d_out))

    return both


def check(formulation, rule, inputs, d_out):
    """The output and the gradients in double precision, as numpy arrays."""
    jax.config.update("jax_enable_x64", True)
    both = with_gradients(evaluator(formulation, rule, recurrence_data.scale_of(d_out.shape)))
    return jax.device_get(jax.jit(both)(inputs, d_out))


class Run:
    def __init__(self, options):
        inputs, d_out = recurrence_data.make(options.rule, options.shape)
        evaluate = evaluator(options.formulation, options.rule, recurrence_data.scale_of(options.shape))
        self.inputs = [jnp.asarray(array, jnp.float32) for array in inputs], jnp.asarray(d_out, jnp.float32)
        self.call = jax.jit(with_gradients(evaluate) if options.backward else lambda inputs, _: [evaluate(*inputs)])
        self.outputs = None

    def __call__(self, count):
        for _ in range(count):
            self.outputs = self.call(*self.inputs)
            jax.block_until_ready(self.outputs)

    def arrays(self):
        return jax.device_get(list(self.outputs))

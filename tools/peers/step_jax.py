"""The training step of a linear transformer in JAX, written three ways: see step_torch.py for the formulations. The
whole step, random numbers and Adam included, is one jitted function."""
import functools

import jax
import jax.numpy as jnp
from objective import loss_of


def expand(parameters, form, d):
    if form == "full":
        return parameters
    diagonals = jnp.concatenate((jnp.repeat(parameters[:, :1], d, axis=1), parameters[:, 1:]), axis=1)
    return jax.vmap(jnp.diag)(diagonals)


def predict_literal(big_p, big_q, tokens, factor):
    mask = jnp.ones(tokens.shape[1], tokens.dtype).at[-1].set(0)
    for p, q in zip(big_p, big_q):
        scores = jnp.einsum("bje,bie->bij", jnp.einsum("bjd,de->bje", tokens, q), tokens) * mask
        values = jnp.einsum("de,bje->bjd", p, tokens)
        tokens = tokens + factor * jnp.einsum("bij,bjd->bid", scores, values)
    return -tokens[:, -1, -1]


def last_layer(p, q, gram, query, factor):
    attended = jnp.einsum("bde,be->bd", gram, query @ q.T)
    return -(query[:, -1] + factor * (attended @ p[-1]))


def gram_of(tokens):
    return jnp.einsum("bid,bie->bde", tokens[:, :-1], tokens[:, :-1])


def predict_linear(big_p, big_q, tokens, factor):
    for p, q in zip(big_p[:-1], big_q[:-1]):
        tokens = tokens + factor * tokens @ jnp.swapaxes(p @ gram_of(tokens) @ q, 1, 2)
    return last_layer(big_p[-1], big_q[-1], gram_of(tokens), tokens[:, -1], factor)


def predict_gram(big_p, big_q, tokens, factor):
    gram, query = gram_of(tokens), tokens[:, -1]
    for p, q in zip(big_p[:-1], big_q[:-1]):
        update = factor * (p @ gram @ q)
        query = query + jnp.einsum("bde,be->bd", update, query)
        half = gram + update @ gram
        gram = half + half @ jnp.swapaxes(update, 1, 2)
    return last_layer(big_p[-1], big_q[-1], gram, query, factor)


PREDICT = {"literal": predict_literal, "linear": predict_linear, "gram": predict_gram}


def check(formulation, form, p, q, tokens, targets, factor):
    """Loss and gradients in double precision, as numpy arrays."""
    jax.config.update("jax_enable_x64", True)
    value, (p_gradient, q_gradient) = jax.jit(
        jax.value_and_grad(loss_of(PREDICT[formulation], expand, form), argnums=(0, 1)), static_argnums=4
    )(p, q, tokens, targets, factor)
    return float(value), jax.device_get(p_gradient), jax.device_get(q_gradient)


def sample(key, batch, n, d):
    x_key, w_key, level_key, noise_key = jax.random.split(key, 4)
    x, w = jax.random.normal(x_key, (batch, n + 1, d)), jax.random.normal(w_key, (batch, d))
    y = jnp.einsum("bid,bd->bi", x, w)
    targets = y[:, -1]
    y = y + jax.random.uniform(level_key, (batch, 1)) * jax.random.normal(noise_key, (batch, n + 1))
    return jnp.concatenate((x, y.at[:, -1].set(0)[:, :, None]), axis=2), targets


def adam(parameters, gradient, first, second, step, rate=1e-12, beta1=0.9, beta2=0.999, epsilon=1e-8):
    first = beta1 * first + (1 - beta1) * gradient
    second = beta2 * second + (1 - beta2) * gradient**2
    mean, square = first / (1 - beta1**step), second / (1 - beta2**step)
    return parameters - rate * mean / (jnp.sqrt(square) + epsilon), first, second


def make_step(options, shape):
    """A function that takes `count` steps and returns when they are done."""
    loss = loss_of(PREDICT[options.formulation], expand, options.form)

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(parameters, first, second, key, number):
        tokens, targets = sample(jax.random.fold_in(key, number), options.batch, options.n, options.d)
        gradient = jax.grad(lambda both: loss(both[0], both[1], tokens, targets, 1 / options.n))(parameters)
        return adam(parameters, gradient, first, second, number.astype(jnp.float32))

    key = jax.random.PRNGKey(1)
    state = [0.02 * jax.random.normal(key, (2, *shape)), jnp.zeros((2, *shape)), jnp.zeros((2, *shape))]
    number = 0

    def run(count):
        nonlocal state, number
        for _ in range(count):
            number += 1
            state = step(*state, key, jnp.int32(number))
        jax.block_until_ready(state)

    return run

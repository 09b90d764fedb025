"""What every contender's recurrence is fed, and what it returns.

q, k [B, H, T, d] of unit length, v, d_out [B, H, T, d], write strengths beta [B, H, T] and natural logarithms of the
decay, [B, H, T] or with channel rules [B, H, T, d], from a fixed seed. With S_0 = 0 and P = exp(decay_t) S_(t-1), row i
by the factor of channel i where each has its own,

    gated-delta   S_t = P + beta_t k_t (v_t - P^T k_t)^T
    sum           S_t = P + k_t v_t^T
    kda           as gated-delta, with a decay for each channel
    rwkv7         S_t = P - k_t (P^T r_t)^T + w_t v_t^T, with a decay for each channel
    all           o_t = d^(-1/2) S_t^T q_t

In rwkv7 what is taken out stands under a unit key c before the decay: r = c exp(-decay), k = a o c with a in (0, 1), w
is a key of its own, and decays are above -exp(-1/2), as in src/model/sequence/mixer_rwkv7.c.
"""
import numpy

NAMES = {
    "gated-delta": ("q", "k", "v", "beta", "decay"), "sum": ("q", "k", "v", "decay"),
    "kda": ("q", "k", "v", "beta", "decay"), "rwkv7": ("q", "k", "v", "decay", "read_key", "write_key"),
}


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def make(rule, shape):
    """The inputs of a rule in their order, and d_out, in double precision."""
    generator = numpy.random.default_rng(3)
    q, k, v, d_out = (generator.standard_normal(shape) for _ in range(4))
    q, k = (array / numpy.linalg.norm(array, axis=-1, keepdims=True) for array in (q, k))
    beta = sigmoid(generator.standard_normal(shape[:3]))
    decay = -numpy.logaddexp(0, generator.standard_normal(shape if rule == "kda" else shape[:3]) - 3)
    every = {"q": q, "k": k, "v": v, "beta": beta, "decay": decay}
    if rule == "rwkv7":
        share, write, gate = (generator.standard_normal(shape) for _ in range(3))
        decay = -numpy.exp(-0.5) * sigmoid(gate - 3)
        every.update(k=sigmoid(share) * k, decay=decay, read_key=k * numpy.exp(-decay))
        every["write_key"] = write / numpy.linalg.norm(write, axis=-1, keepdims=True)
    return [every[name] for name in NAMES[rule]], d_out


def scale_of(shape):
    return shape[-1] ** -0.5

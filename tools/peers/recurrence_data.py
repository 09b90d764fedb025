"""What every contender's recurrence is fed, and what it returns.

q, k [B, H, T, d] of unit length, v, d_out [B, H, T, d], write strengths beta and natural logarithms of the decay
[B, H, T], from a fixed seed. With S_0 = 0 and P = exp(decay_t) S_(t-1),

    gated-delta   S_t = P + beta_t k_t (v_t - P^T k_t)^T
    sum           S_t = P + k_t v_t^T
    both          o_t = d^(-1/2) S_t^T q_t
"""
import numpy

NAMES = {"gated-delta": ("q", "k", "v", "beta", "decay"), "sum": ("q", "k", "v", "decay")}


def make(rule, shape):
    """The inputs of a rule in their order, and d_out, in double precision."""
    generator = numpy.random.default_rng(3)
    q, k, v, d_out = (generator.standard_normal(shape) for _ in range(4))
    q, k = (array / numpy.linalg.norm(array, axis=-1, keepdims=True) for array in (q, k))
    beta = 1 / (1 + numpy.exp(-generator.standard_normal(shape[:3])))
    decay = -numpy.logaddexp(0, generator.standard_normal(shape[:3]) - 3)
    every = {"q": q, "k": k, "v": v, "beta": beta, "decay": decay}
    return [every[name] for name in NAMES[rule]], d_out


def scale_of(shape):
    return shape[-1] ** -0.5

"""See tools/peers/check."""
import importlib.util
import os
import pathlib
import sys

import attention_torch
import iclab_library
import numpy
import recurrence_data
import recurrence_jax
import recurrence_torch
import settings
import step_jax
import step_torch

os.environ.setdefault("DEV", "CPU")  # of tinygrad
HAS_TINYGRAD = importlib.util.find_spec("tinygrad") is not None
if HAS_TINYGRAD:
    import recurrence_tinygrad
    import step_tinygrad

TOLERANCE = 1e-10  # of the largest element; double precision leaves 1e-13 or so


def difference(left, right):
    """The largest difference of a list of arrays, relative to the largest element of each."""
    return max(float(numpy.max(numpy.abs(a - b)) / numpy.max(numpy.abs(b))) for a, b in zip(left, right))


def judge(name, seen, reference):
    off = difference(seen, reference)
    print(f"{'ok' if off <= TOLERANCE else 'DIFFERS':8} {name:48} {off:.1e}")
    return off <= TOLERANCE


def make_sequences(generator, batch, n, d):
    x, w = generator.standard_normal((batch, n + 1, d)), generator.standard_normal((batch, d, 1))
    y = (x @ w)[:, :, 0]
    targets = y[:, -1].copy()
    y += 0.5 * generator.standard_normal(y.shape)
    y[:, -1] = 0
    return numpy.concatenate((x, y[:, :, None]), axis=2), targets


def check_steps(library, form):
    generator = numpy.random.default_rng(1)
    d, n, layers = 5, 8, 4
    shape = (layers, d + 1, d + 1) if form == "full" else (layers, 2)
    p, q = (0.4 * generator.standard_normal(shape) for _ in range(2))
    tokens, targets = make_sequences(generator, 16, n, d)
    reference = step_torch.check("literal", form, p, q, tokens, targets, 1 / n)
    right = True
    for formulation in settings.FORMULATIONS:
        modules = [("torch", step_torch), ("jax", step_jax)]
        modules += [("tinygrad", step_tinygrad)] if HAS_TINYGRAD else []
        for name, module in modules:
            seen = module.check(formulation, form, p, q, tokens, targets, 1 / n)
            right &= judge(f"step, {form}: {name} {formulation}", seen, reference)
    for space, name in enumerate(("auto", "gram", "tokens")):
        seen = library.step(form, space, p, q, tokens, targets, 1 / n)
        right &= judge(f"step, {form}: iclab ref {name}", seen, reference)
    return right


def check_attention(library):
    generator = numpy.random.default_rng(2)
    q, k, v, d_out = (generator.standard_normal((3, 37, attention_torch.WIDTH)) for _ in range(4))
    reference = attention_torch.check("plain", q, k, v, d_out)
    right = judge("softmax attention: torch fused", attention_torch.check("fused", q, k, v, d_out), reference)
    ours = library.attention(q, k, v, d_out, attention_torch.SCALE)
    return right & judge("softmax attention: iclab ref", ours, reference)


def check_recurrences(library, rule):
    inputs, d_out = recurrence_data.make(rule, (2, 3, 64, 8))
    reference = recurrence_torch.check("tokens", rule, inputs, d_out)
    peers = [("torch", recurrence_torch, "chunk16")]
    if rule not in settings.CHANNEL_RULES:
        peers += [("jax", recurrence_jax, formulation) for formulation in ("tokens", "chunk16")]
        peers += [("tinygrad", recurrence_tinygrad, "chunk16")] if HAS_TINYGRAD else []
    right = True
    for name, module, formulation in peers:
        seen = module.check(formulation, rule, inputs, d_out)
        right &= judge(f"recurrence, {rule}: {name} {formulation}", seen, reference)
    named = dict(zip(recurrence_data.NAMES[rule], inputs))
    ours = iclab_library.Recurrence(library, rule, recurrence_data.scale_of(d_out.shape), named, d_out)
    ours.forward(True)
    ours.backward()
    return right & judge(f"recurrence, {rule}: iclab ref", ours.arrays(True), reference)


def main():
    build = pathlib.Path(sys.argv[1])
    found = [path for path in (build / "libiclab.so", build / "libiclab.dylib") if path.exists()]
    if not found:
        sys.exit(f"tools/peers/check: {build} holds no libiclab: expected a build folder")
    library = iclab_library.Library(str(found[0]), "ref")
    right = [check_steps(library, "full"), check_steps(library, "diag"), check_attention(library)]
    right += [check_recurrences(library, rule) for rule in settings.RULES]
    sys.exit(0 if all(right) else 1)


main()

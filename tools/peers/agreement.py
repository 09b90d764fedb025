"""See tools/peers/check."""
import configparser
import importlib.util
import os
import pathlib
import sys

import attention_torch
import cells_torch
import decoder_torch
import iclab_library
import numpy
import recurrence_data
import recurrence_torch
import settings
import step_torch

os.environ.setdefault("DEV", "CPU")  # of tinygrad
HAS_TINYGRAD = importlib.util.find_spec("tinygrad") is not None
HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import recurrence_jax
    import step_jax
if HAS_TINYGRAD:
    import recurrence_tinygrad
    import step_tinygrad

TOLERANCE = 1e-10  # of the largest element; double precision leaves 1e-13 or so
SINGLE_TOLERANCE = 1e-4  # of devices that compute in single precision


def difference(left, right):
    """The largest difference of a list of arrays, relative to the largest element of each."""
    return max(float(numpy.max(numpy.abs(a - b)) / numpy.max(numpy.abs(b))) for a, b in zip(left, right))


def judge(name, seen, reference, library=None):
    """library: iclab's where it computed what is seen."""
    off = difference(seen, reference)
    single = library and library.device != "ref"
    is_right = off <= (SINGLE_TOLERANCE if single else TOLERANCE)
    print(f"{'ok' if is_right else 'DIFFERS':8} {f'{name} {library.device}' if library else name:56} {off:.1e}")
    return is_right


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
    p, q = (0.1 * generator.standard_normal(shape) for _ in range(2))
    tokens, targets = make_sequences(generator, 16, n, d)
    reference = step_torch.check("literal", form, p, q, tokens, targets, 1 / n)
    right = True
    for formulation in settings.FORMULATIONS:
        modules = [("torch", step_torch)]
        modules += [("jax", step_jax)] if HAS_JAX else []
        modules += [("tinygrad", step_tinygrad)] if HAS_TINYGRAD else []
        for name, module in modules:
            seen = module.check(formulation, form, p, q, tokens, targets, 1 / n)
            right &= judge(f"step, {form}: {name} {formulation}", seen, reference)
    for space, name in enumerate(("auto", "gram", "tokens")):
        seen = library.step(form, space, p, q, tokens, targets, 1 / n)
        right &= judge(f"step, {form}, {name}: iclab", seen, reference, library)
    return right


def check_decoder(library):
    generator = numpy.random.default_rng(4)
    heads, width, tokens, inputs = 2, 16, 9, 6
    recipe = configparser.ConfigParser()
    recipe.read(pathlib.Path(__file__).with_name("decoder.ini"))
    recipe["model"].update(layers="3", heads=str(heads), width=str(width))
    rows, targets = make_sequences(generator, 4, tokens - 1, inputs - 1)
    arrays, loss, gradients = library.model_step(recipe["model"], rows, targets)
    right = True
    for formulation in decoder_torch.ATTEND:
        expected_loss, expected = decoder_torch.check(formulation, heads, arrays, rows, targets)
        ours = [numpy.array(loss), *(decoder_torch.arranged(names, gradients) for names in expected)]
        right &= judge(f"decoder, torch {formulation}: iclab", ours, [expected_loss, *expected.values()], library)
    return right


def check_tables(library):
    """The model of the recipe tables-cells, in small, on tables whose first rows have a label."""
    generator = numpy.random.default_rng(5)
    batch, rows, features, labelled, outputs, heads = 3, 11, 4, 5, 7, 2
    recipe = configparser.ConfigParser()
    recipe.read(pathlib.Path(__file__).parents[1] / "recipes" / "tables-cells.ini")
    recipe["model"].update(heads=str(heads), width="16")
    inputs = generator.standard_normal((batch, rows, features + 2))
    inputs[:, :labelled, -1], inputs[:, labelled:, -2:] = 1, 0
    d_out = generator.standard_normal((batch, rows - labelled, outputs))
    shape = library.struct(
        "icl_task_shape", positions=rows, inputs=features + 2, outputs=outputs, first_scored=labelled,
        scored=rows - labelled
    )
    arrays, seen, gradients = library.model_outputs(recipe["model"], shape, inputs, d_out)
    right = True
    for formulation in settings.TABLE_FORMULATIONS:
        expected, slopes = cells_torch.check(formulation, heads, arrays, inputs, labelled, d_out)
        ours = [seen, *(gradients[name] for name in slopes)]
        count = sum(array.size for array in arrays.values())
        name = f"tables, {count} parameters, torch {formulation}: iclab"
        right &= judge(name, ours, [expected, *slopes.values()], library)
    return right


def check_attention(library):
    generator = numpy.random.default_rng(2)
    q, k, v, d_out = (generator.standard_normal((3, 37, attention_torch.WIDTH)) for _ in range(4))
    reference = attention_torch.check("plain", q, k, v, d_out)
    right = judge("softmax attention: torch fused", attention_torch.check("fused", q, k, v, d_out), reference)
    ours = library.attention(q, k, v, d_out, attention_torch.SCALE)
    return right & judge("softmax attention: iclab", ours, reference, library)


def check_recurrences(library, rule):
    inputs, d_out = recurrence_data.make(rule, (2, 3, 64, 8))
    reference = recurrence_torch.check("tokens", rule, inputs, d_out)
    peers = [("torch", recurrence_torch, "chunk16")]
    if rule not in settings.CHANNEL_RULES:
        peers += [("jax", recurrence_jax, formulation) for formulation in ("tokens", "chunk16")] if HAS_JAX else []
        peers += [("tinygrad", recurrence_tinygrad, "chunk16")] if HAS_TINYGRAD else []
    right = True
    for name, module, formulation in peers:
        seen = module.check(formulation, rule, inputs, d_out)
        right &= judge(f"recurrence, {rule}: {name} {formulation}", seen, reference)
    named = dict(zip(recurrence_data.NAMES[rule], inputs))
    ours = iclab_library.Recurrence(library, rule, recurrence_data.scale_of(d_out.shape), named, d_out)
    ours.forward(True)
    ours.backward()
    return right & judge(f"recurrence, {rule}: iclab", ours.arrays(True), reference, library)


def main():
    folder, device = pathlib.Path(sys.argv[1]), sys.argv[2]
    found = sorted(folder.glob("libiclab.so*")) + sorted(folder.glob("libiclab.dylib"))
    if not found:
        sys.exit(f"tools/peers/check: {folder} holds no libiclab: expected a build folder")
    library = iclab_library.Library(str(found[0]), device)
    right = [check_steps(library, "full"), check_steps(library, "diag"), check_attention(library)]
    right += [check_decoder(library), check_tables(library)]
    right += [check_recurrences(library, rule) for rule in settings.RULES]
    sys.exit(0 if all(right) else 1)


main()

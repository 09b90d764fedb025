"""iclab.module and iclab.save: models that go on to train in PyTorch and come back; both see the same loss.

On the device ref both compute in double precision from the same floats. What differs is the last rounding, of iclab's
outputs to floats (half a unit of 24 bits), and the order of sums (2^-40 of the largest output, as in export.py).

Argument: the folder of recipes.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from tap import ok, refused

SMALL = {"train.batch": 8, "train.steps": 3, "train.growth": 0, "train.warmup": 1, "eval.every": 0,
         "eval.sequences": 100, "eval.fit_sequences": 2}
REGRESSION = {**SMALL, "task.d": 3, "task.n": 6, "eval.predictors": "ols", "task.sampler": "tokens"}
SEQUENCE = {"model.family": "sequence", "model.layers": 2, "model.heads": 2, "model.width": 8}
MODELS = {
    "a linear transformer": {**REGRESSION, "model.layers": 2, "model.heads": 2, "model.initialization": "normal",
                             "model.init_std": 0.1},
    "one of sparse matrices": {**REGRESSION, "model.parameterization": "sparse", "model.initialization": "normal",
                               "model.init_std": 0.1},
    "one of low rank": {**REGRESSION, "model.parameterization": "diag+lowrank", "model.rank": 2,
                        "model.initialization": "normal", "model.init_std": 0.1},
    "a softmax model": {**REGRESSION, "model.family": "softmax", "model.layers": 1, "model.initialization": "normal",
                        "model.init_std": 0.1},
    "a sequence model": {**REGRESSION, **SEQUENCE, "model.mixer": "gated-delta,softmax"},
    "random features": {**REGRESSION, **SEQUENCE, "model.mixer": "linear", "model.feature_map": "favor:4"},
    "a model of symbols": {**SMALL, **SEQUENCE, "model.mixer": "fox,softmax", "task.family": "recall",
                           "eval.predictors": "uniform"},
}


def sum_of_losses(shape, outputs, targets):
    """The losses of the scored positions [B, S] and how far they move at most when an output moves by 1."""
    if shape.loss == "squared error":
        distance = outputs - targets
        return (distance**2).sum(-1), 2 * abs(distance)
    classes = targets[..., 0].astype(int)
    shifted = outputs - outputs.max(-1, keepdims=True)
    chosen = numpy.take_along_axis(shifted, classes[..., None], -1)[..., 0]
    return numpy.log(numpy.exp(shifted).sum(-1)) - chosen, numpy.ones_like(outputs)  # |p - 1_y| <= 1


def check(name, recipe, work):
    """Trains a little in iclab, and then in PyTorch."""
    run = iclab.train(recipe, device="ref", out=f"{work}/run", evaluate=False)
    module = iclab.module(run, dtype=torch.float64)
    shown = iclab.sample(run.recipe, 100, purpose="evaluation")
    theirs = run.outputs(shown.inputs, device="ref")
    ours = module(shown.inputs).detach().numpy()
    bound = abs(ours) * 2.0**-24 + abs(ours).max() * 2.0**-40
    ok((abs(ours - theirs) <= bound).all() and abs(ours).max() > 0, f"{name}: the module gives the run's outputs")
    single = iclab.module(run)(shown.inputs)
    error = abs(single.detach().numpy() - theirs).max() / abs(theirs).max()
    ok(single.dtype == torch.float32 and error <= 2.0**-13, f"{name}: in single precision, too (error {error:.1e})")

    batch = iclab.sample(run.recipe, 16)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    losses = []
    for _ in range(10):
        losses.append(module.loss(batch))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    ok(losses[-1].item() < losses[0].item() and all(part.grad is not None for part in module.parameters()),
       f"{name}: every parameter trains in PyTorch: {losses[0].item():.4g} to {losses[-1].item():.4g}")
    tuned = iclab.save(f"{work}/tuned", module)
    ok(tuned.parameters.keys() == run.parameters.keys() and str(tuned.recipe) == str(run.recipe),
       f"{name}: saved under its names, with its recipe")
    compare(name, tuned, shown)


def compare(name, tuned, shown):
    """The loss by PyTorch, of the floats in the file, beside that of iclab eval."""
    module = iclab.module(tuned, dtype="float64")
    seen = module.loss(shown).item()
    outputs = module(shown.inputs).detach().numpy()
    losses, slopes = sum_of_losses(shown.shape, outputs, shown.targets)
    bound = abs(outputs) * 2.0**-24 + abs(outputs).max() * 2.0**-40
    weights = 1 if shown.weights is None else shown.weights[..., 0]
    slack = (weights * (bound * (slopes + bound)).sum(-1)).mean()
    row = tuned.evaluate(device="ref").row(0)
    measured = row["mse"] if "mse" in row else row["loss"]
    ok(abs(seen - measured) <= slack, f"{name}: PyTorch's loss {seen:.9g} is that of iclab eval: {measured:.9g}",
       f"distance {abs(seen - measured):.2g}, bound {slack:.2g}")
    ok(abs(seen - (weights * losses).mean()) <= 2.0**-40 * abs(losses).max(), f"{name}: and that of the definition")


def check_refusals(work):
    run = iclab.Run(f"{work}/0/run")
    with refused(iclab.InputError, "expected torch.float32 or torch.float64", "half precision"):
        iclab.module(run, dtype="float16")
    with refused(iclab.InputError, "recipe = None", "tensors without a recipe"):
        iclab.save(f"{work}/none", run.parameters)
    with refused(iclab.InputError, "Gram matrices alone", "a batch of Gram matrices"):
        iclab.module(run).loss(iclab.sample(run.recipe, 4, sampler="gram"))
    module = iclab.module(f"{work}/5/run/model.safetensors")
    named, kept = dict(module.named_parameters()), dict(module.named_buffers())
    ok("block.0.mixer.directions" in kept and "block.0.mixer.directions" not in named,
       "random directions are no parameters, and stay")


def check_absent():
    """Without PyTorch its package is named."""
    words = "import sys; sys.modules['torch'] = None; import iclab; iclab.module('x')"
    failed = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    ok("InputError: module" in failed.stderr and "expected the package torch" in failed.stderr,
       "without PyTorch its package is named", failed.stderr)


os.environ["ICLAB_RECIPES"] = sys.argv[1]
if importlib.util.find_spec("numpy"):
    import iclab
    import numpy

    check_absent()
    if importlib.util.find_spec("torch"):
        import torch

        with tempfile.TemporaryDirectory() as work:
            for number, (name, recipe) in enumerate(MODELS.items()):
                check(name, recipe, f"{work}/{number}")
            check_refusals(work)
    else:
        tap.skip("models in PyTorch", "PyTorch is not installed")
else:
    tap.skip("models in PyTorch", "numpy is not installed")
tap.done()

#!/usr/bin/env python3
"""Models of every kind, trained by iclab and evaluated by tools/python/iclab_model.py: equal to rounding.

On the device ref both compute in double precision from the same floats. What differs is the last rounding, of iclab's
prediction to a float (half a unit of 24 bits), and the order of sums (2^-40 of the largest prediction is far more than
those of a few layers need).

Arguments: iclab, the folder of recipes, the folder of iclab_model.py.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile

count = failed = 0


def ok(passed, name):
    global count, failed
    count += 1
    failed += not passed
    print(f"{'' if passed else 'not '}ok {count} - {name}", flush=True)


def skip(name, reason):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {reason}", flush=True)


KINDS = {
    "full, 2 heads": ["parameterization=full", "heads=2"],
    "full, raw": ["parameterization=full", "scale=raw"],
    "full, softmax weights": ["parameterization=full", "scale=softmax"],
    "full, tied": ["parameterization=full", "tied=true"],
    "diag": ["parameterization=diag"],
    "gd++": ["parameterization=gd++", "heads=2"],
    "sparse": ["parameterization=sparse"],
    "sparse-b": ["parameterization=sparse-b", "scale=raw"],
    "diag+lowrank": ["parameterization=diag+lowrank", "rank=2"],
    "softmax family": ["family=softmax", "layers=1", "parameterization=full"],
    "softmax family, linear": ["family=softmax", "layers=1", "parameterization=full", "attention=linear"],
}
SMALL = [
    "task.d=3",
    "task.n=6",
    "train.batch=8",
    "train.growth=0",
    "train.warmup=1",
    "train.sequence_clip=0",
    "eval.every=0",
]
START = ["initialization=normal", "init_std=0.1", "layers=3", "space=auto"]
EVALUATION = ["eval.sequences=300", "eval.fit_sequences=50", "eval.predictors=ols"]


def settings(values, section=""):
    return [part for value in values for part in ("--set", section + value)]


def run(*arguments):
    return subprocess.run(
        [iclab, *arguments], check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
    ).stdout


def check(name, kind, folder):
    run(
        "train",
        "quickstart",
        "--device",
        "ref",
        "--quiet",
        "--steps",
        "3",
        "--out",
        folder,
        *settings(SMALL + EVALUATION),
        *settings(START + kind, "model."),
    )
    prompts = folder + "/prompts.safetensors"
    lines = run("eval", folder, "--device", "ref", "--quiet", "--json", "--predictions", prompts).splitlines()
    mse = json.loads(lines[0])["mse"]
    _, data = iclab_model.read(prompts)
    model = iclab_model.Model(folder + "/model.safetensors")
    ours = model.predict(data["tokens"])
    bound = abs(ours) * 2.0**-24 + abs(ours).max() * 2.0**-40
    error = abs(ours - data["predictions"])
    ok(
        (error <= bound).all() and abs(ours).max() > 0,
        f"{name}: NumPy predicts the same (error / bound {(error / bound).max():.2g})",
    )
    distance = abs(ours - data["targets"])
    slack = (bound * (2 * distance + bound)).mean()
    ok(
        abs((distance**2).mean() - mse) <= slack + 1e-6 * mse,
        f"{name}: and has the mean squared error that iclab eval prints, {mse}",
    )
    if torch:
        other = model.predict(torch.as_tensor(data["tokens"]), torch).numpy()
        ok((abs(other - data["predictions"]) <= bound).all(), f"{name}: PyTorch predicts the same")


def check_other_shape(path):
    """A model that answers two numbers is refused, not misread."""
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data.replace(b'"shape.outputs":"1"', b'"shape.outputs":"2"'))
    try:
        iclab_model.Model(path)
        message = ""
    except ValueError as refusal:
        message = str(refusal)
    ok("'outputs': '2'" in message, f"a model of another shape is refused: {message}")


iclab, recipes, folder = sys.argv[1:]
sys.path.insert(0, folder)
sys.dont_write_bytecode = True
environment = {**os.environ, "ICLAB_RECIPES": recipes, "PATH": ""}  # no pictures: they are not what is tested
torch = None
if importlib.util.find_spec("numpy"):
    import iclab_model

    if importlib.util.find_spec("torch"):
        import torch
    else:
        skip("PyTorch", "PyTorch is not installed")
    with tempfile.TemporaryDirectory() as work:
        for number, (name, kind) in enumerate(KINDS.items()):
            check(name, kind, f"{work}/{number}")
        check_other_shape(f"{work}/0/model.safetensors")
else:
    skip("models outside of iclab", "safetensors and numpy are not installed")
print(f"1..{count}")
sys.exit(failed != 0)

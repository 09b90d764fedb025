#!/usr/bin/env python3
"""Models of every kind, trained by iclab and evaluated by tools/python/iclab_model.py: equal to rounding.

On the device ref both compute in double precision from the same floats. What differs is the last rounding, of iclab's
prediction to a float (half a unit of 24 bits), and the order of sums (2^-40 of the largest prediction is far more than
those of a few layers need). On cpu sequence models agree to 1024 units of a float, of the largest prediction, which
shows that it computes the same function; ref has the bound.

Arguments: iclab, the folder of recipes, the folder of iclab_model.py.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tap import done, ok, skip

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
# Small, and well conditioned: with values of two numbers the norm of a head's output can divide by next to nothing, and
# half a unit in the last place of a parameter moves predictions by 2e-5.
SEQUENCES = {
    "softmax": ["positions=learned", "norm=layer"],
    "softmax, both directions": ["mixer=softmax", "causal=false", "feed_forward=swiglu", "norm_place=after"],
    "softmax, rotary": ["mixer=softmax", "positions=rotary", "readout=pooled", "norm=none"],
    "softmax, window": ["mixer=softmax", "window=4", "positions=rotary"],
    "linear": ["feature_map=elu+1", "normalizer=true", "output_norm=layer", "feed_forward=relu"],
    "linear, both directions": ["mixer=linear", "causal=false", "feature_map=relu", "loops=2"],
    "linear, learned features": ["mixer=linear", "feature_map=learned", "feed_forward=quadratic"],
    "linear, no bias": ["mixer=linear", "causal=false", "embedding_bias=false", "feed_forward=quadratic"],
    "linear, tanh features": ["mixer=linear", "feature_map=tanh"],
    "linear, 5 learned features": ["mixer=linear", "feature_map=learned:5", "normalizer=true"],
    "softmax behind features": ["mixer=linear,softmax", "feature_map=learned", "normalize_keys=unit"],
    "linear, random features": ["mixer=linear", "feature_map=favor:6", "feed_forward=none"],
    "retention": ["output_gate=true", "positions=rotary", "feed_forward_factor=1.5"],
    "gla": ["gate_limit=0.9", "gate_root=4", "key_width=3", "value_width=5"],
    "mamba2": ["positions=sinusoidal", "position_base=50"],
    "mamba3": ["key_width=4", "convolution=2", "positions=rotary"],
    "mamba3, rank 2": ["mixer=mamba3", "key_width=4", "mimo_rank=2", "output_gate=true"],
    "delta": ["feature_map=dpfp:2", "normalize_keys=sum", "write_strength=1.5"],
    "delta, short convolutions": ["mixer=delta", "convolution=3"],
    "gated-delta": ["gate_limit=0.95", "loops=3", "norm=layer", "norm_place=after"],
    "delta-product": ["delta_steps=3", "write_strength=2"],
    "delta-product, rotary": ["mixer=delta-product", "convolution=2", "positions=rotary"],
    "kda": ["output_gate=true", "write_strength=1.5", "gate_limit=0.95"],
    "gated-delta-2": ["convolution=3", "output_gate=true"],
    "preconditioned-delta": ["value_width=5"],
    "comba": ["output_gate=true", "norm=layer"],
    "rwkv7": ["feature_map=elu+1", "loops=2"],
    "titans": ["gate_limit=0.9", "positions=rotary"],
    "longhorn": ["write_strength=2", "key_width=3"],
    "labelled": ["causal=false", "output_gate=true"],
    "labelled, cells": ["mixer=labelled", "causal=false", "tokens=cells", "label_inputs=1", "norm=layer"],
    "labelled, cells, norms after": [
        "mixer=labelled", "causal=false", "tokens=cells", "label_inputs=2", "norm_place=after", "loops=2", "layers=1"
    ],
    "fox": ["output_gate=true", "positions=rotary"],
    "softmax, sinks": ["mixer=softmax", "sinks=true", "output_gate=true"],
    "softmax, sinks, both directions": ["mixer=softmax", "sinks=true", "causal=false"],
    "mesa": ["iterations=30", "ridge=0.5", "key_width=3"],
    "mesa, few steps": ["mixer=mesa", "iterations=2"],
    "mesa, no step": ["mixer=mesa", "iterations=0"],
    "momentum": ["momentum=0.7"],
    "gsa": ["gate_root=8", "slots=5", "value_width=3"],
    "log-linear": ["gate_limit=0.95", "key_width=3"],
    "oja": ["write_strength=2", "value_width=3"],
    "linear, clipped": ["mixer=linear", "activation_clip=0.4", "output_norm=none"],
    "conv": ["convolution=3", "heads=1"],
    "delta, read from the last position": ["mixer=delta", "readout=last", "width=8"],
    "softmax, loops that end in a norm": ["mixer=softmax", "loops=3", "loop_norm=true", "injection=false"],
    "softmax, clipped loops that end in a norm": ["loops=3", "loop_norm=true", "activation_clip=1", "mixer=softmax"],
    "softmax and delta in turn": ["mixer=softmax,delta", "layers=3"],
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
EVALUATION = ["eval.sequences=40", "eval.fit_sequences=2", "eval.predictors=ols"]


def settings(values, section=""):
    return [part for value in values for part in ("--set", section + value)]


def run(*arguments):
    return subprocess.run(
        [iclab, *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL, env=environment
    ).stdout


def evaluate(folder, device):
    """The mean squared error that iclab eval prints, and what it was asked and predicted."""
    prompts = folder + "/prompts.safetensors"
    lines = run("eval", folder, "--device", device, "--quiet", "--json", "--predictions", prompts).splitlines()
    return json.loads(lines[0])["mse"], iclab_model.read(prompts)[1]


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
    compare(name, folder)


def compare(name, folder):
    mse, data = evaluate(folder, "ref")
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


def check_sequence(name, kind, folder):
    """Weights that training leaves, on cpu, and on ref these with noise, written for iclab: gains and biases are not 1
    and 0."""
    mixer = [] if any(key.startswith("mixer=") for key in kind) else [f"mixer={name}"]
    keys = [f"task.{key}" for key in ("d=3", "n=12", "noise=fixed:0.1", "sampler=tokens")]
    keys += [f"model.{key}" for key in ["family=sequence", "layers=2", "heads=2", "width=8", *mixer, *kind]]
    keys += ["train.batch=8", "train.steps=3", "eval.every=0", *EVALUATION]
    recipe = dict(key.split("=") for key in keys)
    os.makedirs(folder)
    with open(folder + "/start.ini", "w", encoding="utf-8"):
        pass
    run("train", folder + "/start.ini", "--device", "ref", "--quiet", "--out", folder + "/run", *settings(keys))
    _, data = evaluate(folder + "/run", "cpu")
    model = iclab_model.Model(folder + "/run/model.safetensors")
    ours = model.predict(data["tokens"])
    error = abs(ours - data["predictions"]).max() / abs(ours).max()
    ok(error <= 2.0**-13 and abs(ours).max() > 0, f"{name}: NumPy predicts the same as cpu (error {error:.1e})")

    random = numpy.random.default_rng(len(name))
    changed = {key: values + 0.1 * random.standard_normal(values.shape) for key, values in model.tensors.items()}
    iclab_model.save(folder + "/saved", changed, recipe)
    compare(name + ", saved", folder + "/saved")


def check_tied(folder):
    """The mean loss of a text model with one table, over windows that end with the file: by iclab eval and by NumPy."""
    text = bytes(97 + (i * i + i // 7) % 11 for i in range(4000))
    os.makedirs(folder)
    with open(folder + "/text", "wb") as file, open(folder + "/start.ini", "w", encoding="utf-8"):
        file.write(text)
    keys = ["task.family=text", f"task.file={folder}/text", "task.length=16", "task.test=0.048", "train.steps=3"]
    keys += ["model.family=sequence", "model.width=8", "model.tied_embedding=true", "train.optimizer=muon"]
    keys += ["train.batch=8", "train.warmup=0", "eval.every=0", "eval.predictors=uniform"]
    run("train", folder + "/start.ini", "--device", "ref", "--quiet", "--out", folder + "/run", *settings(keys))
    lines = run("eval", folder + "/run", "--device", "ref", "--quiet", "--json").splitlines()
    windows = numpy.array([list(text[start : start + 17]) for start in range(4000 - 193, 4000 - 1, 16)])
    model = iclab_model.Model(folder + "/run/model.safetensors")
    logits = model.predict(windows[:, :-1])
    own = numpy.take_along_axis(logits, windows[:, 1:, None], -1)[..., 0]
    loss = (numpy.log(numpy.exp(logits).sum(-1)) - own).mean()
    error = abs(loss - json.loads(lines[0])["loss"])
    ok("readout.weight" not in model.tensors and error <= 1e-6 * loss, f"one table: NumPy's loss (error {error:.1e})")


def check_refusals(folder):
    """iclab names what a folder that Python wrote lacks."""
    recipe = {"task.d": 3, "task.n": 4, "model.family": "sequence", "model.width": 8}
    iclab_model.save(folder, {"embedding.weight": numpy.zeros((8, 4))}, recipe)
    command = [iclab, "eval", folder, "--device", "ref", "--quiet"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    ok(
        answer.returncode != 0 and "embedding.weight is of shape [8, 4]: expected [4, 8]" in answer.stderr,
        "a tensor of another shape is refused",
        answer.stderr,
    )


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
    import numpy

    if importlib.util.find_spec("torch"):
        import torch
    else:
        skip("PyTorch", "PyTorch is not installed")
    with tempfile.TemporaryDirectory() as work:
        for number, (name, kind) in enumerate(KINDS.items()):
            check(name, kind, f"{work}/{number}")
        check_other_shape(f"{work}/0/model.safetensors")
        for number, (name, kind) in enumerate(SEQUENCES.items()):
            check_sequence(name, kind, f"{work}/sequence-{number}")
        check_tied(f"{work}/tied")
        check_refusals(f"{work}/refused")
else:
    skip("models outside of iclab", "safetensors and numpy are not installed")
done()

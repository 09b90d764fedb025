"""The package is given unusual input and folders that lack something: a row for each call has the exception and its
words, or the value that the usual input gives; and tables stand against the files that they were read from, by label.

Argument: the folder of recipes.
"""

import csv
import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from tap import ok, refused

os.environ["ICLAB_RECIPES"] = sys.argv[1]
try:
    import numpy
except ImportError:
    tap.skip("unusual input", "numpy is not installed")
    tap.done()
import iclab  # noqa: E402
import iclab_model  # noqa: E402

SMALL = {"d": 3, "n": 6, "batch": 16, "growth": 0, "warmup": 1, "eval.sequences": 300, "eval.fit_sequences": 50,
         "eval.every": 4, "predictors": "ols,ridge"}
random = numpy.random.default_rng(0)
X = random.standard_normal((30, 3))
Y = X @ [1, -2, 0.5] + 0.1 * random.standard_normal(30)
NEW = random.standard_normal((5, 3))
Input, Value, Type = iclab.InputError, ValueError, TypeError


def check_refusals(calls):
    for name, (kind, words, call) in calls.items():
        with refused(kind, words, name):
            call()


def check_same(calls):
    for name, (seen, expected) in calls.items():
        ok(numpy.array_equal(seen, expected, equal_nan=True), name)


# ---- Arrays ----


def check_predictions(run):
    def ask(features=X, targets=Y, fresh=NEW, **options):
        return run.predict(features, targets, fresh, device="cpu", held_out=False, **options)["model"]

    half, counts = X.astype(numpy.float16), numpy.arange(90).reshape(30, 3) ** 2 % 17
    check_same({
        "half precision": (ask(half), ask(half.astype(float))),
        "whole numbers": (ask(counts, Y, counts[:5]), ask(counts.astype(float), Y, counts[:5].astype(float))),
        "truth values": (ask(X > 0, Y, NEW > 0), ask(1.0 * (X > 0), Y, 1.0 * (NEW > 0))),
        "lists": (ask(X.tolist(), Y.tolist(), NEW.tolist()), ask()),
        "every second row of an array": (ask(numpy.repeat(X, 2, 0)[::2], numpy.repeat(Y, 2)[::2]), ask()),
        "rows in reverse": (ask(X[::-1].copy()[::-1], Y[::-1].copy()[::-1]), ask()),
        "no new rows": (ask(fresh=NEW[:0]), []),
        "no row without a target": (ask(fresh=None), []),
    })
    check_refusals({
        "no rows": (Input, "0 rows with a target", lambda: ask(X[:0], Y[:0])),
        "no targets": (Input, "targets = None", lambda: ask(targets=None)),
        "targets that are all NaN": (Input, "0 rows with a target", lambda: ask(targets=Y * numpy.nan)),
        "a new row of rank 1": (Input, r"the new rows of shape (3,): expected [rows, features]",
                                lambda: ask(fresh=NEW[0])),
        "a table of rank 3": (Input, "the table of shape (1, 30, 3)", lambda: ask(X[None])),
        "targets of rank 2": (Input, "targets of shape (30, 1): expected [30]", lambda: ask(targets=Y[:, None])),
        "a generator of rows": (Input, "generator", lambda: ask(row for row in X)),
        "a generator of targets": (Input, "targets holds <generator", lambda: ask(X, (y for y in Y))),
        "a mapping": (Input, "expected numbers", lambda: ask({"a": 1})),
        "a text": (Input, "expected real numbers", lambda: ask("abc")),
        "a new row of NaN": (Input, "the new rows: a feature is NaN, masked or infinite in row 0 of column 0",
                            lambda: ask(fresh=NEW * numpy.nan)),
        "a NaN in one place": (Input, "the table: a feature is NaN, masked or infinite in row 7 of column 2",
                               lambda: ask(numpy.where(numpy.arange(90).reshape(30, 3) == 23, numpy.nan, X))),
        "infinite targets": (Input, "a target is infinite", lambda: ask(targets=Y * numpy.inf)),
        "an unknown keyword": (Type, "until", lambda: ask(until=3)),
    })


def check_outputs(run):
    inputs = iclab.sample(run.recipe, 4, purpose="evaluation").inputs

    def ask(values):
        return run.outputs(values, device="cpu")

    half = inputs.astype(numpy.float16)
    check_same({
        "inputs in the other order of axes": (ask(numpy.asfortranarray(inputs)), ask(inputs)),
        "inputs in half precision": (ask(half), ask(half.astype(numpy.float32))),
        "inputs of every second sequence": (ask(numpy.repeat(inputs, 2, 0)[::2]), ask(inputs)),
        "inputs as lists": (ask(inputs.tolist()), ask(inputs)),
        "a sequence of NaN spoils itself alone": (
            ask(numpy.where(numpy.arange(4)[:, None, None] == 1, numpy.nan, inputs)),
            numpy.where(numpy.arange(4)[:, None, None] == 1, numpy.nan, ask(inputs))),
    })
    for name, values in {"of rank 1": inputs[0, 0], "a number": 3.0, "of no sequence": inputs[:0],
                         "of rank 4": inputs[None]}.items():
        with refused(Input, "expected [B, 7, 4], B of 1 or more", f"inputs {name}"):
            ask(values)
    with refused(Input, "expected numbers", "a generator of inputs"):
        ask(sequence for sequence in inputs)


# ---- Arguments ----


def check_arguments(run, work):
    train = {"device": "cpu", "until_step": 2, "out": f"{work}/none", **SMALL}
    recipe = iclab.Recipe("quickstart")
    ok("no such key" not in recipe and recipe.get("no such key", 7) == 7 and "task.d" in recipe,
       "a recipe is a mapping: a key that it has not is not in it")
    ok("seed" not in recipe and "train.seed" in recipe, "nor is one that several sections have")
    check_refusals({
        "a key that a recipe has not": (KeyError, "nearest is layers", lambda: recipe["layrs"]),
        "a recipe of a number": (Input, "recipe = 3: expected a name, a path", lambda: iclab.Recipe(3)),
        "a recipe of a list": (Input, "recipe = ['d']", lambda: iclab.Recipe(["d"])),
        "a value that is none": (Input, "model.layers = None: expected a whole", lambda: iclab.Recipe(layers=None)),
        "a value of NaN": (Input, "nan: expected a number", lambda: iclab.Recipe(learning_rate=float("nan"))),
        "a text that is no recipe": (Input, "recipe:1: not a line", lambda: iclab.Recipe.parse("xyz")),
        "a purpose of a list": (Input, "purpose = ['training']", lambda: iclab.sample(recipe, 2, purpose=["training"])),
        "a size of a text": (Input, "size = '2': expected a whole number", lambda: iclab.sample(recipe, "2")),
        "an unknown keyword of sample": (Input, "nearest is layers", lambda: iclab.sample(recipe, 2, layrs=3)),
        "an unknown keyword of evaluate": (Input, "nearest is layers", lambda: run.evaluate(device="cpu", layrs=1)),
        "a device of a list": (Input, "device = ['cpu']", lambda: iclab.open_device(["cpu"])),
        "progress that cannot be called": (Input, "progress = 3: expected a function",
                                           lambda: iclab.train(recipe, progress=3, **train)),
        "progress that cannot be called, again": (Input, "progress = 3", lambda: run.resume(device="cpu", progress=3)),
        "a seed of a fraction": (Input, "train.seed = 1.5", lambda: iclab.train(recipe, seed=1.5, **train)),
        "an example that there is not": (Input, "expected one of states, swiss", lambda: iclab.example_table("none")),
        "an option as a name": (Input, "reproduce('--help')", lambda: iclab.reproduce("--help", out=f"{work}/none")),
        "no name": (Input, "reproduce(None)", lambda: iclab.reproduce(None, out=f"{work}/none")),
        "a log that cannot be called": (Input, "log = 3", lambda: iclab.reproduce("gd-construction", log=3)),
        "a scale that there is not": (Input, "expected one of ci|short|full",
                                      lambda: iclab.reproduce("gd-construction", scale="c", out=f"{work}/none")),
        "columns of two lengths": (Input, "column b of 1 rows: expected 2",
                                   lambda: iclab.Table({"a": [1, 2], "b": [1]})),
        "tensors in a list": (Input, "tensors of type list", lambda: iclab.save(f"{work}/none", [1, 2], recipe)),
        "tensors of text": (Input, "is of type <U1", lambda: iclab.save(f"{work}/text", {"a": "b"}, recipe)),
        "no tensors": (Input, "no tensor layer.0",
                       lambda: iclab.save(f"{work}/empty", {}, recipe).evaluate(device="cpu")),
        "a model that there is not": (FileNotFoundError, "none", lambda: iclab.load(f"{work}/none")),
        "a recipe as a model": (Value, "recipe.ini: ", lambda: iclab.load(run.folder / "recipe.ini")),
    })
    ok(not os.path.exists(f"{work}/none"), "none of them left a folder")
    ok(iclab.Table({"a": (i for i in range(3))})["a"].tolist() == [0, 1, 2], "a table takes a generator")
    ok(iclab.Run(pathlib.Path(run.folder)).folder == iclab.Run(run).folder, "a run of a path, and of a run")
    transposed = {name: numpy.asfortranarray(values) for name, values in run.parameters.items()}
    saved = iclab.save(pathlib.Path(work, "saved"), transposed, dict(run.recipe))
    ok(saved.evaluate(device="cpu")["mse"].tolist() == run.evaluation["mse"].tolist(),
       "tensors in the other order of axes are the same model")


# ---- What was read back ----


def check_files(run):
    """Tables are compared by label: no two columns of these are equal, so that none stands for another."""
    with open(run.folder / "metrics.csv", newline="", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    metrics = run.metrics
    check_same({f"metrics[{name!r}]": (metrics[name], [float(row[name] or "nan") for row in rows]) for name in rows[0]})
    ok(list(metrics) == list(rows[0]) and metrics.row_count == 8 == len(rows), "and no other column or row")
    ok(len({tuple(values) for values in metrics.values()}) == len(metrics), "all of them differ")
    with open(run.folder / "result.json", encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    opened, trained = iclab.Run(run.folder).evaluation, run.evaluation
    for name in [name for name in rows[0] if name != "positions"]:
        expected = [row[name] for row in rows]
        for evaluation, whose in ((opened, "opened"), (trained, "trained")):
            seen = [None if value != value else value for value in evaluation[name].tolist()]
            ok(seen == ([value or "" for value in expected] if isinstance(seen[0], str) else expected),
               f"{name} of a run that was {whose}: {seen}")
    ok([row["predictor"] for row in rows] == ["model", "ols", "ridge"] and opened.model["mse"] == rows[0]["mse"],
       "the model stands first")


def copy_of(run, name):
    shutil.copytree(run.folder, run.folder.parent / name)
    return iclab.Run(run.folder.parent / name)


def check_lacks(run):
    """Files that lack a record, or that are not there, below a run that is open."""
    lines = (run.folder / "metrics.csv").read_text(encoding="ascii").splitlines(True)
    kept = [*lines[:4], *lines[5:]]
    for name, text in {"a row less": kept, "the last row less": lines[:-1], "a row cut": [*lines[:-1], lines[-1][:9]],
                       "no header": lines[1:], "nothing": []}.items():
        damaged = copy_of(run, name)
        (damaged.folder / "metrics.csv").write_text("".join(text), encoding="ascii")
        with refused(Input, "metrics.csv: not as it was written", f"metrics with {name}"):
            damaged.metrics
    for name, text, words in (("a field less", [*lines[:-1], "9,1\n"], ":9: 2 fields: expected 5"),
                              ("a field more", [*lines[:-1], "9,1,1,1,1,1\n"], ":9: 6 fields: expected 5"),
                              ("nothing", [], ":1: 0 fields: expected a header")):
        path = run.folder.parent / "table.csv"
        path.write_text("".join(text), encoding="ascii")
        with refused(Input, words, f"a table with {name}"):
            iclab.Table.from_csv(path)
    model = copy_of(run, "model")
    whole = (model.folder / "model.safetensors").read_bytes()
    for name, data in {"a cut model": whole[:-4], "an empty model": b""}.items():
        (model.folder / "model.safetensors").write_bytes(data)
        for call in (lambda: model.parameters, lambda: model.model):
            with refused(Input, "model.safetensors: not as it was written", name):
                call()
        with refused(Value, "expected a whole safetensors file", f"{name}, without iclab"):
            iclab_model.read(model.folder / "model.safetensors")
    check_json(run)
    bare = copy_of(run, "bare")
    for name in ("metrics.csv", "result.json", "run.json", "model.safetensors"):
        os.remove(bare.folder / name)
    ok(bare.result == {} and bare.evaluation is None and bare.facts == {} and bare.status == "",
       "no result, no facts: none")
    with refused(FileNotFoundError, "metrics.csv", "no metrics"):
        bare.metrics
    with refused(Input, "expected a trained model", "no model"):
        bare.evaluate(device="cpu")
    shutil.rmtree(bare.folder)
    with refused(Input, "not a run", "a folder that is gone"):
        bare.metrics
    ok("model alone" in repr(bare), "which can be shown")


def check_json(run):
    damaged = copy_of(run, "json")
    found = run.result
    found["rows"] = found["rows"][1:]
    (damaged.folder / "result.json").write_text(json.dumps(found), encoding="utf-8")
    with refused(Input, "ols stands first: expected the model's row", "a result without the model's row"):
        damaged.evaluation
    for name in ("result", "run"):
        for text in ("[1", "[1]"):
            (damaged.folder / f"{name}.json").write_text(text, encoding="utf-8")
            with refused(Input, f"{name}.json: ", f"{name}.json holds {text}"):
                damaged.result if name == "result" else damaged.facts
    ok("damaged" in repr(damaged), f"which can be shown: {damaged!r}")


with tempfile.TemporaryDirectory() as folder:
    folder = os.path.realpath(folder)
    trained = iclab.train("quickstart", steps=8, out=f"{folder}/run", device="cpu", **SMALL)
    check_predictions(trained)
    check_outputs(trained)
    check_arguments(trained, folder)
    check_files(trained)
    check_lacks(trained)
tap.done()

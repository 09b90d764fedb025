"""What the package takes from Python and what it refuses: arrays of every kind, whole numbers at their limits, devices
behind a fork, models that change below a run, paths that are relative.

Argument: the folder of recipes.
"""

import decimal
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from tap import ok, refused

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background ignore it

os.environ["ICLAB_RECIPES"] = sys.argv[1]
try:
    import numpy
except ImportError:
    tap.skip("the boundary of the Python package", "numpy is not installed")
    tap.done()
import iclab  # noqa: E402

SMALL = {"d": 3, "n": 6, "batch": 16, "growth": 0, "warmup": 1, "eval.sequences": 300, "eval.fit_sequences": 50,
         "eval.every": 0, "predictors": "ols"}
random = numpy.random.default_rng(0)
X = random.standard_normal((30, 3))
Y = X @ [1, -2, 0.5] + 0.1 * random.standard_normal(30)
NEW = random.standard_normal((5, 3))


def ask(run, features=X, targets=Y, fresh=NEW, **options):
    return run.predict(features, targets, fresh, device="cpu", held_out=False, **options)["model"]


def check_sizes(run):
    with refused(iclab.InputError, "the new rows: 2 columns: expected 3", "new rows of a column less"):
        ask(run, fresh=NEW[:, :2])
    with refused(iclab.InputError, "the new rows: 4 columns: expected 3", "new rows of a column more"):
        ask(run, fresh=numpy.c_[numpy.arange(5.0), NEW])
    with refused(iclab.InputError, "the new rows: 0 columns", "new rows without columns"):
        ask(run, fresh=numpy.empty((5, 0)))
    with refused(iclab.InputError, "train a model with task.d=5", "more features than the model has"):
        ask(run, numpy.zeros((20, 5)), numpy.arange(20.0), None)
    try:
        ask(run, numpy.zeros((20, 5)), numpy.arange(20.0), None)
    except iclab.InputError as failure:
        ok("--" not in str(failure), "which names no option of the command")


def check_arrays(run):
    plain = ask(run)
    masked = numpy.ma.array(X, copy=True)
    masked[0, 0] = 9999.0
    masked[0, 0] = numpy.ma.masked
    with refused(iclab.InputError, "masked", "a masked feature"):
        ask(run, masked)
    with refused(ValueError, "NaN", "a masked feature of the regressor"):
        iclab.InContextRegressor(run).fit(masked, Y)
    ok((ask(run, numpy.ma.array(X)) == plain).all(), "a masked array without a mask")
    targets = numpy.ma.array(Y, copy=True)
    targets[3] = 1e6
    targets[3] = numpy.ma.masked
    hidden = ask(run, X, targets, None)
    ok(len(hidden) == 1 and hidden == ask(run, X, numpy.where(numpy.arange(30) == 3, numpy.nan, Y), None),
       "a masked target is one to predict")
    for kind in ("i8", "u1", "?"):
        whole = numpy.ma.array(Y > 0, kind, mask=numpy.arange(30) == 5)
        hidden = ask(run, X, whole, None)
        ok(len(hidden) == 1 and hidden == ask(run, X, whole.astype(float).filled(numpy.nan), None),
           f"a masked target of type {whole.dtype}, too")
    packed = numpy.zeros(30, numpy.dtype([("pad", "u1"), ("x", "<f8", 3)], align=False))
    packed["x"] = X
    ok(not packed["x"].flags.aligned and (ask(run, packed["x"]) == plain).all(), "an array that is not aligned")
    ok((ask(run, X.astype(">f8")) == plain).all(), "the other byte order")
    ok((ask(run, numpy.asfortranarray(X)) == plain).all(), "the other order of axes")
    ok((ask(run, [[decimal.Decimal(repr(float(v))) for v in row] for row in X]) == plain).all(), "decimal numbers")
    for name, values in {"complex numbers": X + 1j, "texts": X.astype(str), "ragged rows": [[1.0, 2.0], [3.0]],
                         "dates": numpy.zeros((30, 3), "datetime64[D]"), "durations": X.astype("timedelta64[s]"),
                         "objects": [[object()] * 3] * 30, "texts as objects": X.astype(str).astype(object)}.items():
        with refused(iclab.InputError, "expected", name):
            ask(run, values)
        with refused(iclab.InputError, "expected", f"{name} for the model's outputs"):
            run.outputs(values, device="cpu")
    for factor in (1e300, 1e101):
        with refused(iclab.InputError, "expected a magnitude of at most 1e+100", f"targets times {factor:g}"):
            ask(run, X, Y * factor)
    ok(numpy.isfinite(ask(run, X, Y * 1e99)).all(), "targets times 1e99 are predicted")
    with refused(iclab.InputError, "expected at least 1e-150", "targets times 1e-300"):
        ask(run, X, Y * 1e-300)
    ok(numpy.allclose(ask(run, X, Y * 1e-140), plain * 1e-140, 1e-5, 0), "targets times 1e-140 are predicted")
    with refused(iclab.InputError, "expected real numbers", "complex parameters"):
        iclab.save("none", {name: values + 1j for name, values in run.parameters.items()}, run.recipe)
    for call in (lambda: iclab.Run(f"{run.folder}\0x"), lambda: iclab.Recipe("quickstart", noise="fixed:1\0x"),
                 lambda: iclab.open_device("cpu\0x"), lambda: iclab.open_device(3)):
        with refused(iclab.InputError, "without NUL", "a text that ends early, or none"):
            call()
    with refused(ValueError, "expected", "the regressor refuses in fit what predict would"):
        iclab.InContextRegressor(run).fit(X, Y * 1e300)
    with refused(ValueError, "at most 3", "and features that its model does not have"):
        iclab.InContextRegressor(run).fit(numpy.c_[X, X], Y)
    check_frames(run, plain)


def check_frames(run, plain):
    try:
        import pandas
    except ImportError:
        tap.skip("data frames", "pandas is not installed")
        return
    frame, new = pandas.DataFrame(X, columns=list("abc")), pandas.DataFrame(NEW, columns=list("abc"))
    ok((ask(run, frame, Y, new[["c", "b", "a"]]) == plain).all(), "columns of a data frame are matched by name")
    ok((ask(run, frame, Y, new.assign(more=0.0)) == plain).all(), "one column more is left out")
    ok((ask(run, frame, Y, NEW) == plain).all(), "an array has no names")
    with refused(iclab.InputError, "'b'", "a name that the new rows do not have"):
        ask(run, frame, Y, new.rename(columns={"b": "other"}))
    ok((ask(run, frame.astype("Float64")) == plain).all(), "nullable numbers")
    missing = pandas.Series(Y).astype("Float64")
    missing[3] = pandas.NA
    ok(len(ask(run, frame, missing, None)) == 1, "pandas.NA is a missing target")
    with refused(iclab.InputError, "expected numbers", "categories of text"):
        ask(run, frame.assign(b=pandas.Categorical(["x", "y", "z"] * 10)))
    ok(list(pandas.DataFrame(run.metrics)) == list(run.metrics), "a table's columns are a data frame's")
    estimator = iclab.InContextRegressor(run).fit(frame, Y)
    with refused(ValueError, "as in fit" if not sklearn else "order", "columns of another order for the regressor"):
        estimator.predict(new[["c", "b", "a"]])
    ok((estimator.predict(new) == plain).all(), "and of the same")
    if sklearn:
        from scipy import sparse

        with refused(iclab.InputError, "sparse", "a sparse matrix"):
            ask(run, sparse.csr_matrix(X))


def check_numbers(run):
    limits = {"folds": (2, 10**6), "repeats": (1, 10**4), "context": (1, 10**6), "prompts": (1, 10**4)}
    for name, (least, most) in limits.items():
        for value in (-1, most + 1, 2**64, 3.0, True, "3", *([1] if least > 1 else [])):
            with refused(iclab.InputError, f"expected a whole number from {least} to {most}", f"{name} = {value!r}"):
                ask(run, **{name: value})
        ok(len(ask(run, **{name: numpy.int64(least)})) == 5, f"{name} = {least}, of NumPy")
    for value in (-1, 2**32, 0.5, None):
        with refused(iclab.InputError, "from 0 to 4294967295", f"seed = {value!r}"):
            ask(run, seed=value)
    ok(len(ask(run, seed=2**32 - 1)) == 5, "the largest seed")
    with refused(iclab.InputError, "whitened", "another word"):
        ask(run, inputs="plain")
    for options in ({"size": 0}, {"size": -1}, {"step": -1}, {"step": 2**64}, {"seed": -1}, {"seed": 2**32}):
        with refused(iclab.InputError, "expected a whole number from", f"sample({options})"):
            iclab.sample("quickstart", **options)
    ok(iclab.sample("quickstart", 1, step=2**64 - 1, seed=2**32 - 1).targets.shape[0] == 1, "the largest step")
    with refused(iclab.InputError, "from 1 to", "no step to compare"):
        iclab.compare_training("quickstart", "cpu", steps=0)
    with refused(iclab.InputError, "from 0 to 4294967295", "a seed to compare"):
        iclab.compare("cpu", op="argmax", seed=2**32)
    ok(iclab.Recipe("quickstart", tied=numpy.True_)["model.tied"] is True, "NumPy's truth")
    for state in (-1, 2**32, 3.0):
        with refused(ValueError, "from 0 to 4294967295", f"random_state = {state!r}"):
            iclab.InContextRegressor(run, random_state=state).fit(X, Y)
    drawn = [iclab.InContextRegressor(run, random_state=numpy.random.RandomState(s), context=8).fit(X, Y).predict(NEW)
             for s in (0, 0, 1)]
    ok((drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any(), "a generator as random_state is drawn from")
    ok((ask(run, context=8) == ask(run, context=8, seed=1)).all()
       and (ask(run, context=8) != ask(run, context=8, seed=2)).any(), "the seed is 1, as the command's")


def check_lengths(work):
    """A model with a vector for each position answers for its own length alone, and the line names the cure."""
    for positions in ("learned", "none"):
        recipe = {"task.d": 2, "task.n": 4, "model.family": "sequence", "model.mixer": "softmax", "model.width": 4,
                  "model.layers": 1, "model.positions": positions}
        run = iclab.train(recipe, steps=1, batch=4, growth=0, warmup=0, out=f"{work}/by-{positions}", device="cpu",
                          evaluate=False)
        longer = iclab.sample({"task.d": 2, "task.n": 5}, 3, device="cpu").inputs
        if positions == "none":
            ok(run.outputs(longer, device="cpu").shape == (3, 1, 1), "a model without positions takes any length")
            continue
        with refused(iclab.InputError, "of shape [5, 4]: expected [6, 4], as the recipe has it; a model of "
                     "model.positions=none takes sequences of any length", "a model with positions does not"):
            run.outputs(longer, device="cpu")


def check_structs():
    """A member that a struct of the library lacks is refused, whoever sets it."""
    with refused(AttributeError, "icl_train_progress has no member steps: expected one of step, total_steps, ",
                 "a struct made with it"):
        iclab._library.struct("icl_train_progress", steps=3)
    with refused(AttributeError, "'icl_train_progress' object has no attribute 'steps'", "a struct given it later"):
        iclab._library.struct("icl_train_progress", step=3).steps = 4


def check_path(work):
    """PoCL aborts a process without PATH."""
    kept = {key: os.environ[key] for key in ("PYTHONPATH", "ICLAB_LIBRARY") if key in os.environ}
    ran = subprocess.run([sys.executable, "-c", "import os, iclab; print(os.environ['PATH'])"], env=kept,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=work, timeout=60)
    ok(ran.stdout.strip() == os.defpath, f"without PATH drivers get {ran.stdout.strip()}", ran.stderr)


def check_steps(work):
    short = iclab.train("quickstart", steps=20, out=f"{work}/short", device="cpu", evaluate=False, **SMALL)
    cut = iclab.train("quickstart", until_step=20, out=f"{work}/cut", device="cpu", evaluate=False, **SMALL)
    ok(short.recipe["train.steps"] == short.recipe["train.horizon"] == 20, "steps is train.steps: a schedule of 20")
    ok(cut.recipe["train.steps"] == 20 < cut.recipe["train.horizon"], "until_step leaves the schedule")
    ok(short.metrics["learning_rate"][-1] < cut.metrics["learning_rate"][-1], "whose rate has not fallen yet")
    for value in (0, -1, 1.5):
        with refused(iclab.InputError, "from 1 to", f"until_step = {value!r}"):
            iclab.train("quickstart", until_step=value, out=f"{work}/none", device="cpu", **SMALL)


def check_model_below(work):
    run = iclab.train("quickstart", until_step=20, out=f"{work}/below", device="cpu", evaluate=False, **SMALL)
    inputs = iclab.sample(run.recipe, 4, purpose="evaluation").inputs
    before = run.outputs(inputs, device="cpu")
    iclab.resume(f"{work}/below", until_step=40, device="cpu", evaluate=False)
    fresh = iclab.Run(f"{work}/below").outputs(inputs, device="cpu")
    ok((run.outputs(inputs, device="cpu") == fresh).all() and (fresh != before).any(), "outputs of a run that went on")
    ok(run.recipe["train.steps"] == 40, "and its recipe")
    with refused(iclab.InputError, "already at step 40", "a step that lies behind"):
        run.resume(until_step=39, device="cpu")
    ok(run.resume(until_step=40, device="cpu", evaluate=False).recipe["train.steps"] == 40, "and the one it is at")
    with refused(iclab.InputError, "checkpoint", "a model saved over a training's"):
        iclab.save(f"{work}/below", run.parameters, run.recipe)
    saved = iclab.save(f"{work}/saved", run.parameters, run.recipe)
    before = saved.outputs(inputs, device="cpu")
    iclab.save(f"{work}/saved", {name: 2 * values for name, values in run.parameters.items()}, run.recipe)
    ok((saved.outputs(inputs, device="cpu") != before).any(), "outputs of a model that was saved again")


def check_paths(work):
    os.chdir(work)
    run = iclab.train("quickstart", until_step=10, out="relative", device="cpu", **SMALL)
    os.chdir("/")
    ok(run.recipe["train.steps"] == 10 and run.status == "finished", "a relative folder stays the run's")
    opened = iclab.Run(f"{work}/relative").evaluation
    ok(opened is not None and opened["mse"].tolist() == run.evaluation["mse"].tolist()
       and opened.sequences == run.evaluation.sequences, "a run that is opened has its evaluation")
    ok("model" in str(opened) and opened.model["predictor"] == "model", "which can be shown")
    bare = iclab.train("quickstart", until_step=10, out=f"{work}/bare", device="cpu", evaluate=False, **SMALL)
    ok(bare.evaluation is None and iclab.Run(bare.folder).evaluation is None, "and none where there was none")


def check_numpy_model(work):
    sequence = {"model.family": "sequence", "mixer": "softmax", "width": 8, "model.heads": 1, "model.layers": 1,
                "growth": 0, "warmup": 1, "eval.every": 0, "eval.sequences": 100, "batch": 4}
    for positions, readout in (
            ("none", "position"), ("sinusoidal", "position"), ("none", "last"), ("rotary", "pooled")):
        run = iclab.train({}, d=2, n=5, model__positions=positions, readout=readout, until_step=3, device="cpu",
                          out=f"{work}/{positions}-{readout}", evaluate=False, **sequence)
        for n in (5, 9, 3):
            inputs = iclab.sample(run.recipe, 3, purpose="evaluation", n=n).inputs
            far = abs(run.model.predict(inputs) - run.outputs(inputs, device="cpu")[:, 0, 0]).max()
            ok(far < 1e-4, f"positions = {positions}, readout = {readout}: the model in NumPy at {n} rows: {far:.1g}")
    learned = iclab.train({}, d=2, n=5, model__positions="learned", until_step=3, out=f"{work}/learned", device="cpu",
                          evaluate=False, **sequence)
    with refused(ValueError, "expected [B, 6, 3]", "another length for learned positions"):
        learned.model.predict(numpy.zeros((2, 9, 3)))
    with refused(iclab.InputError, "model.positions=none", "a table for a model of learned positions"):
        learned.predict(X[:, :2], Y, NEW[:, :2], device="cpu", held_out=False)
    with refused(ValueError, "expected [B, 6, 3], of any length", "another width"):
        run.model.predict(numpy.zeros((2, 6, 4)))
    recall = iclab.train("recall", width=8, model__heads=1, until_step=1, batch=2, out=f"{work}/recall", device="cpu",
                         evaluate=False, **{"eval.every": 0})
    symbols = iclab.sample(recall.recipe, 2, purpose="evaluation").inputs
    ok(recall.model.predict(symbols).shape[0] == 2, "symbols are taken")
    for name, wrong in {"a negative symbol": -1, "a fraction": 0.5, "a symbol too large": 10**6}.items():
        bad = symbols.astype(float)
        bad[0, 0] = wrong
        with refused(ValueError, "expected whole numbers from 0", name):
            recall.model.predict(bad)
    with refused(ValueError, "expected [B,", "a sequence too short"):
        recall.model.predict(symbols[:, :-2])


def check_fork(run):
    """A device behind a fork has none of its threads: it is refused, and a device by name is opened anew."""
    device = iclab.open_device("cpu")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        line = "no refusal"
        try:
            run.evaluate(device=device)
        except iclab.DeviceError as failure:
            line = str(failure)
        again = ask(run)
        os.write(write, f"{line}|{again[0]!r}".encode())
        os._exit(0)
    os.close(write)
    end = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.05)
    line, _, first = os.read(read, 4096).decode().partition("|")
    ok("before a fork" in line, f"a device behind a fork: {line}")
    ok(first == repr(ask(run)[0]), "and one that is named there predicts the same")


def check_no_thread(run):
    """A call that cannot begin, because there can be no other thread, says so and does not wait for its end."""
    def refuse(_):
        raise RuntimeError("can't start new thread")

    start, threading.Thread.start = threading.Thread.start, refuse
    try:
        run.evaluate(device="cpu")
        said = "nothing"
    except RuntimeError as failure:
        said = str(failure)
    finally:
        threading.Thread.start = start
    ok(said == "can't start new thread", f"no other thread: {said}")


def check_interrupt(run):
    """Ctrl-C ends calls that would take minutes, and the device is free again."""
    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    long = {"predicting": lambda: run.predict(numpy.tile(X, (40, 1)), numpy.tile(Y, 40), NEW, device="cpu",
                                              repeats=10**4, folds=1000),
            "evaluating": lambda: run.evaluate(device="cpu", **{"eval.sequences": 10**7}),
            "ops are compared": lambda: iclab.compare("cpu", "cpu"),
            "training steps are compared": lambda: iclab.compare_training("quickstart", "cpu", steps=10**9)}
    for work, call in long.items():
        before = time.monotonic()
        threading.Thread(target=interrupt).start()
        try:
            call()
            name = "nothing"
        except BaseException as raised:
            name = type(raised).__name__
        ok(name == "KeyboardInterrupt", f"Ctrl-C while {work}: {name}, after {time.monotonic() - before:.1f} s")
        ok(len(ask(run)) == 5, "and the device serves again")


def listen(call):
    """What the package says meanwhile."""
    said = []
    listener = logging.Handler()
    listener.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("iclab").addHandler(listener)
    call()
    logging.getLogger("iclab").removeHandler(listener)
    return said


class Frame:
    """An array whose columns have names, as those of pandas have."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return numpy.array(self.values, dtype)


DEPENDENT = "nearly determine each other: what they differ by is left out of what is learned"


def check_warnings(run):
    """Rows too far away for single precision, and columns whose spread is lost, are named."""
    ok(not listen(lambda: ask(run)), "a plain table: nothing is said")
    said = listen(lambda: ask(run, fresh=[[1e60, 0, 0], [0, 0, 0]]))
    ok(len(said) == 1 and said[0].startswith("1 of the model's predictions"), f"a row far away: {said}")
    said = listen(lambda: ask(run, X * [1, 1, 1e-200] + [0, 1e14, 0]))
    left_out = [line.split(" of what")[0] for line in said]
    ok(left_out[:2] == ["column 2 is left out", "column 3 is left out"], f"columns without a spread: {said}")
    near_copy = numpy.c_[X[:, :2], 2 * X[:, 0] + 1e-6 * (-1.0) ** numpy.arange(len(X))]
    found = run.predict(near_copy, Y, device="cpu", held_out=False)
    ok(found.notes == [f"columns 1, 3 {DEPENDENT}"], f"the predictions have what was said: {found.notes}")
    found = run.predict(Frame(near_copy, ["cm", "kg", "inch"]), Y, device="cpu", held_out=False)
    ok(found.notes == [f"columns cm, inch {DEPENDENT}"], f"by the names of a data frame: {found.notes}")
    listed, kept = run.folder / "files.txt", run.folder / "kept"
    ok(not listen(lambda: iclab.Run(run.folder)), "a run whose files are listed")
    listed.rename(kept)
    said = listen(lambda: iclab.Run(run.folder))
    kept.rename(listed)
    ok(len(said) == 1 and "no files.txt" in said[0], f"or are not: {said}")
    said = listen(lambda: ask(run, X * [1, 1, 0]))
    ok(not said, "a constant column is none of these")


PICTURE = """import iclab, logging, sys
try:
    iclab.train("quickstart", until_step=5, out=sys.argv[1], device="cpu", **{"eval.sequences": 100})
except KeyboardInterrupt as interrupt:
    print("interrupted", type(interrupt).__name__, iclab.Run(sys.argv[1]).status)
"""


def check_pictures(work):
    """Ctrl-C while gnuplot draws is Ctrl-C; a gnuplot of a relative PATH is not started."""
    program = pathlib.Path(work, "bin")
    program.mkdir()
    (program / "gnuplot").write_text(f"#!/bin/sh\ntouch {work}/started\nkill -INT $PPID\nsleep 20\n", encoding="ascii")
    (program / "gnuplot").chmod(0o755)
    environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}"}
    ran = subprocess.run([sys.executable, "-c", PICTURE, f"{work}/drawn"], env=environment, capture_output=True,
                         text=True, check=False, cwd=work)
    printed = ran.stdout.strip()
    ok(printed == "interrupted KeyboardInterrupt finished", f"Ctrl-C while a picture is drawn: {printed}", ran.stderr)
    os.remove(f"{work}/started")
    environment["PATH"] = f"bin::{os.environ['PATH']}"
    os.symlink(program / "gnuplot", f"{work}/gnuplot")
    ran = subprocess.run([sys.executable, "-c", PICTURE, f"{work}/plain"], env=environment, capture_output=True,
                         text=True, check=False, cwd=work)
    ok(ran.returncode == 0 and not os.path.exists(f"{work}/started"), "a gnuplot of a relative PATH is passed over",
       ran.stderr)


try:
    import sklearn
except ImportError:
    sklearn = None
with tempfile.TemporaryDirectory() as folder:
    folder = os.path.realpath(folder)
    model = iclab.train("predict", d=3, steps=40, growth=0, out=f"{folder}/model", device="cpu", evaluate=False)
    check_sizes(model)
    check_arrays(model)
    check_numbers(model)
    check_lengths(folder)
    check_structs()
    check_path(folder)
    check_steps(folder)
    check_model_below(folder)
    check_paths(folder)
    check_numpy_model(folder)
    check_fork(model)
    check_no_thread(model)
    check_interrupt(model)
    check_warnings(model)
    check_pictures(folder)
tap.done()

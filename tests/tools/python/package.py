"""The Python package over the library: the same bits as the command, failures with the library's line, Ctrl-C, memory.

Arguments: the command, the folder of recipes.
"""

import json
import os
import shutil
import pathlib
import pickle
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

SMALL = {"d": 3, "n": 6, "batch": 16, "model.layers": 2, "growth": 0, "warmup": 1, "eval.sequences": 300,
         "eval.fit_sequences": 50, "eval.every": 5, "predictors": "ols,ridge"}


def settings(values):
    names = {"d": "task.d", "n": "task.n", "predictors": "eval.predictors"}
    full = {names.get(key, key if "." in key else "train." + key): value for key, value in values.items()}
    return [word for key, value in full.items() for word in ("--set", f"{key}={value}")]


def run_command(*arguments):
    return subprocess.run([command, *arguments], check=True, capture_output=True, text=True).stdout


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_tensorboard(work, run):
    """TensorBoard's own reader, of events that were written twice."""
    events = pathlib.Path(work, "events")
    absent = "import sys; sys.modules['tensorboard'] = None; import iclab; iclab.Run(sys.argv[1]).to_tensorboard('x')"
    failed = subprocess.run([sys.executable, "-c", absent, run.folder], capture_output=True, text=True, check=False)
    ok("InputError: to_tensorboard" in failed.stderr and "expected the package tensorboard" in failed.stderr,
       "without TensorBoard its package is named", failed.stderr)
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        tap.skip("TensorBoard reads the metrics", "tensorboard is not installed")
        return
    for _ in range(2):
        run.to_tensorboard(events)
    accumulator = EventAccumulator(str(events), size_guidance={"scalars": 0})
    accumulator.Reload()
    metrics = run.metrics
    seen = {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
            for tag in accumulator.Tags()["scalars"]}
    expected = {name: [(int(step), float(numpy.float32(value))) for step, value in zip(metrics["step"], metrics[name])
                       if not numpy.isnan(value)] for name in metrics if name != "step"}
    ok(len(list(events.iterdir())) == 2 and seen == expected, "TensorBoard reads each step once, as metrics has it",
       seen, expected)


def check_training(work):
    """The same recipe, seed and steps: the same files, byte for byte."""
    line = ["train", "quickstart", "--device", "cpu", "--steps", "20", "--json", "--out", f"{work}/command", "--quiet"]
    printed = run_command(*line, *settings(SMALL))
    seen = []
    run = iclab.train("quickstart", device="cpu", until_step=20, out=f"{work}/python", progress=seen.append, **SMALL)
    for name in ("model.safetensors", "metrics.csv", "recipe.ini"):
        ok(read(f"{work}/command/{name}") == read(f"{work}/python/{name}"), f"{name} is the command's")
    rows = [json.loads(row) for row in printed.splitlines() if '"predictor"' in row]
    same = [row["mse"] for row in rows] == run.evaluation["mse"].tolist()
    ok(same and len(rows) == 3, f"its evaluation, too: {run.evaluation['mse'].tolist()}")
    kept, theirs = run.result, iclab.Run(f"{work}/command").result
    ok(kept["rows"] == theirs["rows"] and kept.keys() == theirs.keys() and kept["seed"] == theirs["seed"],
       f"result.json has its members: {', '.join(kept)}")
    counts = ("steps", "sequences", "skipped_steps", "dropped_sequences")
    ok([kept["summary"][key] for key in counts] == [theirs["summary"][key] for key in counts]
       and kept["summary"].keys() == theirs["summary"].keys() - {"folder"}, f"and summary: {kept['summary']}")
    ok(read(f"{work}/command/result.csv") == read(f"{work}/python/result.csv"), "result.csv is the command's")
    ok(run.status == "finished" and os.path.exists(f"{work}/python/report.html"), "the run is finished, with a report")
    check_tensorboard(work, run)
    metrics = run.metrics
    ok(metrics["step"].tolist() == list(range(1, 21)) and metrics["loss"].dtype == numpy.float64, "metrics are arrays")
    evaluated = numpy.flatnonzero(~numpy.isnan(metrics["eval_half_adjusted"])) + 1
    ok(evaluated.tolist() == [5, 10, 15, 20], f"empty fields are NaN: evaluations at {evaluated.tolist()}")
    ok(len(seen) > 1 and seen[-1].step == 20 and seen[-1].total_steps == 20, f"{len(seen)} reports of progress")
    html = run._repr_html_()
    ok("<table>" in html and "finished" in html and "ridge" in html, "a notebook shows a table")
    again = iclab.evaluate(f"{work}/command", device="cpu")
    ok(again["mse"].tolist() == run.evaluation["mse"].tolist(), "evaluate gives it again")
    other = run.evaluate(device="cpu", n=12)
    ok(other["mse"][0] != again["mse"][0], "and another number for another context")
    return run


def check_times(work):
    """The start-up, which lasted a day here, is no part of the training."""
    session = iclab.training._Session
    prepare = session._prepare

    def prepare_late(self, params):
        self.start -= 86400
        prepare(self, params)

    session._prepare = prepare_late
    try:
        facts = iclab.train("quickstart", device="cpu", until_step=1, out=f"{work}/late", evaluate=False, **SMALL).facts
    finally:
        session._prepare = prepare
    startup, training = facts["startup_seconds"], facts["training_seconds"]
    ok(startup > 86400 > training > 0, f"start-up and training are told apart: {startup} s, {training} s")


def check_sampling(run, work):
    """The sequences of `iclab eval --predictions`, and training data that depends on step and seed alone."""
    path = f"{work}/prompts.safetensors"
    run_command("eval", os.fspath(run), "--device", "cpu", "--quiet", "--set", "eval.sequences=100",
                "--set", "eval.seed=7", "--predictions", path)
    asked = iclab_model.read(path)[1]
    batch = iclab.sample(run.recipe, purpose="evaluation", eval__seed=7)
    ok(batch.inputs.shape == (2048, 7, 4) and (batch.inputs[:100] == asked["tokens"]).all(), "the command's sequences")
    ok((batch.targets[:100, 0, 0] == asked["targets"]).all(), "with their targets")
    ok(repr(batch).startswith("Batch(inputs [2048, 7, 4], targets [2048, 1, 1]"), f"shown by its sizes: {batch}")
    outputs = run.outputs(batch.inputs, device="cpu")
    ok((outputs[:100, 0, 0] == asked["predictions"]).all(), "and the model's outputs, bit by bit")
    doubles = iclab.sample(run.recipe, 8, purpose="evaluation", device="ref").inputs
    ok(doubles.dtype == numpy.float64 and (doubles == iclab.sample(run.recipe, 8, purpose="evaluation").inputs).all(),
       "ref draws the same numbers, as doubles")
    one, two = (iclab.sample(run.recipe, 4, step=step, sampler="tokens").inputs for step in (0, 1))
    ok((one != two).any(), "another step, other sequences")
    gram = iclab.sample(run.recipe, 4, sampler="gram")
    ok(gram.inputs is None and gram.sides["gram"].shape == (4, 4, 4), "Gram matrices where the recipe draws those")
    symbols = iclab.sample("recall", 3)
    ok(symbols.inputs.dtype.kind == "i" or symbols.inputs.ndim == 3, f"another task: {symbols.shape}")
    longer = iclab.sample(run.recipe, 5, purpose="evaluation", n=11).inputs
    close = numpy.allclose(run.outputs(longer, device="cpu")[:, 0, 0], run.model.predict(longer), rtol=1e-4, atol=1e-5)
    ok(close, "a context longer than those of training")
    with refused(iclab.InputError, "expected [B, 7, 4]", "sequences of another width"):
        run.outputs(numpy.zeros((2, 7, 9)), device="cpu")
    with refused(iclab.InputError, "training, evaluation, fitting", "another purpose"):
        iclab.sample(run.recipe, purpose="testing")


def check_prediction(run, work):
    """The numbers of `iclab predict`, and none paid for that was not asked for."""
    random = numpy.random.default_rng(1)
    features = random.standard_normal((20, 3))
    targets = features @ [1, -2, 0.5] + 0.1 * random.standard_normal(20)
    rows = [",".join(map(repr, [*map(float, row), float(target)])) for row, target in zip(features, targets)]
    with open(f"{work}/data.csv", "w", encoding="utf-8") as file:
        file.write("\n".join(["a,b,c,y", *rows]) + "\n")
    printed = run_command("predict", os.fspath(run), "--data", f"{work}/data.csv", "--target", "y", "--json",
                          "--device", "cpu", "--quiet", "--folds", "4", "--repeats", "2")
    mse = [row["mse"] for row in map(json.loads, printed.splitlines()) if "mse" in row]
    found = run.predict(features, targets, features[:3], device="cpu", folds=4, repeats=2)
    ok(found.scores["mse"].tolist() == mse and len(mse) == 5, f"held-out errors are the command's: {mse}")
    alone = run.predict(features, targets, features[:3], device="cpu", held_out=False)
    ok(all((alone[name] == found[name]).all() for name in found), "predictions alone are the same")
    ok(alone.scores.row_count == 0 and found.held_out.row_count == 20, "without rows held out there are no scores")
    hidden = numpy.where(numpy.arange(20) < 17, targets, numpy.nan)
    unlabelled = run.predict(features, hidden, device="cpu", held_out=False)
    ok(unlabelled.row_count == 3, "rows without a target are predicted")
    with refused(iclab.InputError, "at most 3", "more features than the model has"):
        run.predict(numpy.zeros((20, 5)), targets, device="cpu")
    with refused(iclab.InputError, "one for each row", "too few targets"):
        run.predict(features, targets[:5], device="cpu")


def check_series(run, work):
    """The command's forecasts, from the targets alone, which know nothing of what comes later."""
    random = numpy.random.default_rng(3)
    values = numpy.cumsum(random.standard_normal(60))
    with open(f"{work}/series.csv", "w", encoding="utf-8") as file:
        file.write("\n".join(["y", *(repr(float(value)) for value in values)]) + "\n")
    asked = ("--data", f"{work}/series.csv", "--target", "y", "--lags", "3", "--ahead", "2", "--season", "4", "--json",
             "--device", "cpu", "--quiet")
    for name, arguments, forecast in (("methods", (), iclab.regress), ("a run", (os.fspath(run),), run.predict)):
        rows = [json.loads(line) for line in run_command("predict", *arguments, *asked).splitlines()]
        found = forecast(None, values, lags=3, ahead=2, season=4, device="cpu")
        ok(found.scores["mse"].tolist() == [row["mse"] for row in rows if "mse" in row]
           and found["ols"].tolist() == [row["ols"] for row in rows if "line" in row],
           f"{name}: errors and the forecast are the command's", found.scores, rows)
        ok(numpy.allclose(found.held_out["last_value"], values[found.held_out["row"] - 2], rtol=1e-12, atol=1e-12),
           "  rows held out have their places")
        later = forecast(None, numpy.where(numpy.arange(60) < 40, values, 9 - values), lags=3, ahead=2, season=4,
                         device="cpu")
        before = found.held_out["row"] < 42
        ok(before.sum() > 20 and all((found.held_out[name][before] == later.held_out[name][before]).all()
                                     for name in ("ols", "ridge", "mean", "last_season", "model")),
           "  another future changes no forecast before it")
    with refused(iclab.InputError, "lags and fresh", "a series has no other rows to predict"):
        iclab.regress(None, values, [[1.0]], lags=2)
    with refused(iclab.InputError, "without lags", "a season without lags"):
        iclab.regress(values[:, None], values, season=2)
    with refused(iclab.InputError, "features = None", "no features without lags"):
        iclab.regress(None, values)
    with refused(iclab.InputError, "(target): a missing value: expected a number in every row", "a gap in a series"):
        iclab.regress(None, numpy.where(numpy.arange(60) == 7, numpy.nan, values), lags=2)
    with refused(iclab.InputError, "the 60 before it", "more lags than rows"):
        iclab.regress(None, values, lags=60)


def check_regressor(run):
    """Without and with scikit-learn."""
    random = numpy.random.default_rng(2)
    features = random.standard_normal((25, 3))
    targets = features @ [1, -2, 0.5]
    regressor = iclab.InContextRegressor(run).fit(features, targets)
    predicted = run.predict(features, targets, features[:4], device="cpu", held_out=False)["model"]
    ok((regressor.predict(features[:4]) == predicted).all(), "the regressor predicts what the run does")
    copy = pickle.loads(pickle.dumps(regressor))
    ok((copy.predict(features[:4]) == predicted).all(), "a pickled one, too")
    ok(regressor.score(features, targets) < 1, "it has a score")
    constant = iclab.InContextRegressor(run).fit(features, numpy.full(25, 7.0)).predict(features[:2])
    ok(constant.tolist() == [7, 7], "a constant target is predicted")
    ok(regressor.get_params()["context"] == 0, "parameters by name")


def check_table_regressor():
    """Methods that need no run: the same as arrays, as an estimator, and by hand."""
    random = numpy.random.default_rng(4)
    features = random.standard_normal((40, 3))
    targets = features @ [2, -1, 0] + 0.1 * random.standard_normal(40)
    found = iclab.regress(features, targets, features[:5])
    ok(found.scores.row("ridge")["relative_mse"] < 0.1 and found.scores.row("ridge")["minus_best"] >= 0
       and found.scores.row(found.best)["minus_best"] == 0, f"a line is found: {found.best}")
    weights = {row["predictor"]: row["weight"] for row in found.scores.rows() if row["weight"] > 0}
    mixed_names = ("ridge", "neighbours", "gaussian_process", "model")
    powers = {name: found.scores.row(name)["mse"] ** -2 for name in mixed_names}
    ok(found.answer == "mixture" and weights.keys() == powers.keys()
       and all(abs(weights[name] - power / sum(powers.values())) < 1e-12 for name, power in powers.items()),
       f"weights by hand: {weights}")
    mixed = sum(weight * found[name] for name, weight in weights.items())
    ok(numpy.allclose(found["prediction"], mixed, rtol=1e-12, atol=1e-12), "the mixture predicts")
    ok((found["mean"] == found["mean"][0]).all() and abs(found["mean"][0] - targets.mean()) < 1e-12, "the mean by hand")
    inside = (found.held_out["low_80"] <= targets) & (targets <= found.held_out["high_80"])
    ok(found.held_out.row_count == 40 and 20 < inside.sum() < 40, "held-out intervals hold most targets")
    ok(found.importances["importance"].argsort().tolist() == [2, 1, 0], "features in the order of their weights")
    gaps = iclab.regress(features, numpy.where(numpy.arange(40) < 5, numpy.nan, targets), held_out=False)
    empty = gaps.scores.row_count == gaps.held_out.row_count == gaps.importances.row_count == 0
    ok(gaps.row_count == 5 and empty, "targets of NaN are asked for")
    regressor = iclab.TableRegressor().fit(features, targets)
    ok((regressor.predict(features[:5]) == found["mixture"]).all(), "as an estimator")
    copy = pickle.loads(pickle.dumps(regressor))
    ok((copy.predict_intervals(features[:5])["low_50"] == found["low_50"]).all(), "a pickled one gives intervals, too")
    best = iclab.TableRegressor("best").fit(features, targets)
    ok(best.method_ == min(powers, key=lambda name: -powers[name])
       and (best.predict(features[:5]) == found[best.method_]).all(), "the best of the methods")
    single = iclab.regress(features, targets, features[:5], methods=["ridge", "neighbours"], importances=False)
    ok(single.answer == "ridge" and "mixture" not in single and (single["prediction"] == single["ridge"]).all(),
       "methods that are named are not mixed")
    process = iclab.TableRegressor("gaussian_process").fit(features, targets)
    ok((process.predict(features[:5]) == found["gaussian_process"]).all(), "a method by name")
    constant = iclab.TableRegressor().fit(features, numpy.full(40, 7.0)).predict(features[:2])
    ok(constant.tolist() == [7, 7], "a constant target is predicted")
    with refused(iclab.InputError, "methods: 'forest': expected mean, ridge", "an unknown method"):
        iclab.regress(features, targets, methods="forest")
    model = iclab.TableRegressor("model").fit(features, targets).predict(features[:5])
    ok((model == found["model"]).all() and numpy.corrcoef(model, targets[:5])[0, 1] > 0.9, "the model that ships")
    with refused(iclab.InputError, "features for the model alone", "a table that is too wide for it"):
        iclab.regress(random.standard_normal((40, 21)), targets, methods="model")


def check_models(run, work):
    """Every kind of file holds the same numbers."""
    iclab.convert(run, f"{work}/model.npz")
    iclab.convert(f"{work}/model.npz", f"{work}/model.safetensors")
    back = iclab.load(f"{work}/model.safetensors")
    ok(all((back.tensors[name] == values).all() for name, values in run.parameters.items()), "NumPy's archive and back")
    saved = iclab.save(f"{work}/saved", run.parameters, run.recipe)
    ok(saved.evaluate(device="cpu")["mse"][0] == run.evaluate(device="cpu")["mse"][0], "a saved model is a run")
    other = iclab.save(f"{work}/changed", {k: 2 * v for k, v in run.parameters.items()}, run.recipe)
    ok(other.evaluate(device="cpu")["mse"][0] != run.evaluate(device="cpu")["mse"][0], "of its own numbers")
    shutil.copytree(run.folder, f"{work}/over")
    with refused(iclab.InputError, "expected a folder", "a folder with another model's checkpoint"):
        iclab.save(f"{work}/over", run.parameters, run.recipe)
    with refused(iclab.InputError, "safetensors", "a kind of file that there is not"):
        iclab.convert(run, f"{work}/model.onnx")
    if not torch:
        tap.skip("PyTorch", "PyTorch is not installed")
        return
    iclab.convert(run, f"{work}/model.pt")
    state = torch.load(f"{work}/model.pt", weights_only=True)["state_dict"]
    ok(all((state[name].numpy() == values).all() for name, values in run.parameters.items()), "PyTorch's state")
    torch.save(iclab.state_dict(run), f"{work}/alone.pt")
    iclab.convert(f"{work}/alone.pt", f"{work}/alone.safetensors", recipe=run.recipe)
    alone = iclab.load(f"{work}/alone.safetensors")
    kept = all((alone.tensors[name] == values).all() for name, values in run.parameters.items())
    ok(kept and alone.about == run.model.about, "a state that stands alone, with a recipe")
    with refused(iclab.InputError, "recipe=", "a state that stands alone"):
        iclab.convert(f"{work}/alone.pt", f"{work}/none.safetensors")


def check_refusals(work):
    """Failures are exceptions with the library's line."""
    with refused(KeyError, "lost: expected one of found, too", "a column that there is not"):
        iclab.Table({"found": [1], "too": [2]})["lost"]
    with refused(iclab.InputError, "nearest is layers", "a keyword that there is not"):
        iclab.train("quickstart", layrs=2)
    with refused(iclab.InputError, "model.layers", "an unknown key of a section"):
        iclab.train("quickstart", model__layrs=2)
    with refused(iclab.InputError, "expected a whole number from 1", "a value that the key does not take"):
        iclab.Recipe("quickstart", layers=0)
    ok(iclab.Recipe("quickstart", layers=1)["model.layers"] == 1, "and the least one that it takes")
    with refused(iclab.InputError, "quickstart", "a recipe that there is not"):
        iclab.train("quickstrat")
    with refused(iclab.InputError, "already holds a run", "a folder that holds a run"):
        iclab.train("quickstart", out=f"{work}/python", device="cpu", until_step=1)
    with refused(ValueError, "not a run", "a folder that holds none"):
        iclab.Run(work)
    with refused(iclab.DeviceError, "opencl:9.9", "a device that there is not"):
        iclab.open_device("opencl:9.9")
    ok(issubclass(iclab.FileError, OSError) and issubclass(iclab.InputError, ValueError), "kinds that Python knows")
    recipe = pickle.loads(pickle.dumps(iclab.Recipe("quickstart", noise="fixed:0.25")))
    ok(recipe["task.noise"] == "fixed:0.25" and dict(recipe)["train.clip"] == recipe["train.clip"], "a pickled recipe")


def check_interrupt(work):
    """Ctrl-C stops after the steps in flight; the run goes on to the bits of one that was never stopped."""
    few = {**SMALL, "eval.every": 0}
    whole = iclab.train("quickstart", device="cpu", until_step=60, out=f"{work}/whole", evaluate=False, **few)
    stopped = None
    try:
        iclab.train("quickstart", device="cpu", until_step=10**7, out=f"{work}/stopped", **few,
                    progress=lambda now: now.step > 20 and os.kill(os.getpid(), signal.SIGINT))
    except KeyboardInterrupt as interrupt:
        stopped = interrupt.run
    ok(stopped is not None and stopped.status == "interrupted", f"Ctrl-C ends a training: {stopped!r}")
    done = int(stopped.metrics["step"][-1])
    ok(20 < done < 10**7, f"after step {done}")
    ends = done + 10
    gone_on = stopped.resume(device="cpu", until_step=ends, evaluate=False)
    again = iclab.train("quickstart", device="cpu", until_step=ends, out=f"{work}/again", evaluate=False, **few)
    same = all((gone_on.parameters[name] == values).all() for name, values in again.parameters.items())
    ok(same and gone_on.status == "finished", "and it goes on as if it had not been stopped")

    def fail(_):
        raise ZeroDivisionError("of the caller")

    with refused(ZeroDivisionError, "of the caller", "what the callback raises ends it, too"):
        iclab.train("quickstart", device="cpu", until_step=10**7, out=f"{work}/raised", progress=fail, **few)
    ok(iclab.Run(f"{work}/raised").status == "interrupted", "with a checkpoint")
    check_claim(work)
    check_claim_of_thread(work, few)
    failures = []

    def train_there():
        try:
            iclab.train("quickstart", device="cpu", until_step=60, out=f"{work}/thread", evaluate=False, **few)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=train_there), threading.Thread(target=lambda: whole.evaluate(device="cpu"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same = read(f"{work}/thread/model.safetensors") == read(f"{work}/whole/model.safetensors")
    ok(not failures and same, f"two threads share a device {failures}")


def check_claim(work):
    """Another process trains in the folder: neither a new run nor one that goes on joins it."""
    folder = f"{work}/claimed"
    line = [command, "train", "quickstart", "--device", "cpu", "--steps", "10000000", "--out", folder, "--quiet"]
    other = subprocess.Popen([*line, *settings({**SMALL, "eval.every": 0})], stderr=subprocess.DEVNULL)
    while other.poll() is None and not os.path.exists(f"{folder}/checkpoint/state.safetensors"):
        time.sleep(0.01)
    with refused(iclab.InputError, "another process or thread trains there", "a folder that another process holds"):
        iclab.resume(folder, device="cpu")
    other.terminate()
    other.wait()
    with refused(iclab.InputError, "already holds a run", "after its end it is another's run"):
        iclab.train("quickstart", device="cpu", out=folder)


def check_claim_of_thread(work, few):
    """Nor does another thread of the same process, also where someone removed the lock and copied the folder."""
    folder, refusals = f"{work}/threads", []

    def join(_):
        if refusals:
            return
        # The training renames its temporary files meanwhile, and has no files.txt while it writes the others.
        shutil.copytree(folder, f"{work}/copy", ignore=shutil.ignore_patterns("*.tmp", "files.txt"))
        os.remove(f"{folder}/lock")
        try:
            iclab.resume(folder, device="cpu", evaluate=False)
        except iclab.InputError as refusal:
            refusals.append(str(refusal))

    run = iclab.train("quickstart", device="cpu", steps=300, out=folder, evaluate=False, progress=join, **few)
    ok(len(refusals) == 1 and "another process or thread trains there" in refusals[0], f"a second thread: {refusals}")
    ok(run.metrics["step"].tolist() == list(range(1, 301)), "and every step has one row")


def has_printed_rows(table, *arguments):
    """The command compares the same two devices and prints the same rows; only "ref" never differs from the truth."""
    printed = run_command("compare", "--device", "cpu", "--against", "ref", "--json", "--quiet", *arguments)
    rows = [json.loads(row) for row in printed.splitlines()][:-1]
    errors = [name for name in table if name.endswith(("_difference", "_over_bound"))]
    is_beside_truth = all(any(table[name]) != name.startswith("against_") for name in errors)
    return len(errors) > 1 and is_beside_truth and all(table[name].tolist() == [row[name] for row in rows]
                                                       for name in table)


def check_comparison():
    compared = iclab.compare("cpu", op="argmax")
    verdicts = set(compared["verdict"])
    ok(compared.passed and compared.row_count > 10 and "PASS" in verdicts, f"{compared.title}: {sorted(verdicts)}")
    with refused(iclab.InputError, "no such op", "an operation that there is not"):
        iclab.compare("cpu", op="no such op")
    cases = iclab.compare("cpu", "ref", op="scale_add")
    ok(cases.passed and has_printed_rows(cases, "--op", "scale_add"), f"{cases.title} have the command's numbers")
    steps = iclab.compare_training("quickstart", "cpu", "ref", steps=2, **SMALL)
    ok(steps.passed and steps["mode"].tolist() == ["forced"] * 2 + ["free"] * 2, f"training: {steps.title}")
    ok(has_printed_rows(steps, "--train", "quickstart", "--steps", "2", *settings(SMALL)),
       f"its columns, {', '.join(steps)}, have the command's numbers")


def check_reproduction(work):
    listed = iclab.reproductions()
    ok("gd-construction" in listed["name"], f"{listed.row_count} reproductions")
    said = []
    found = iclab.reproduce("gd-construction", scale="ci", out=f"{work}/papers", device="cpu", log=said.append)
    ok(found.passed and "met" in found["judgement"] and (found.folder / "report.html").exists(),
       f"one of them: {found.row_count} numbers, {len(said)} lines said")
    with refused(iclab.InputError, "gd-construction", "one that there is not"):
        iclab.reproduce("gd-constructoin", scale="ci", out=f"{work}/papers")


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_memory(run):
    """Six hundred predictions of both kinds hold no more than the hundred before them: a leak of a kilobyte shows."""
    if not os.path.exists("/proc/self/statm"):
        tap.skip("memory", "no /proc/self/statm")
        return
    random = numpy.random.default_rng(3)
    features = random.standard_normal((12, 3))
    regressor = iclab.InContextRegressor(run).fit(features, features.sum(1))
    inputs = iclab.sample(run.recipe, 4, purpose="evaluation").inputs

    def predict(times):
        for i in range(times):
            regressor.predict(features[: 1 + i % 5])
            run.outputs(inputs[: 1 + i % 3], device="cpu")

    predict(100)
    before = resident()
    predict(600)
    grown = resident() - before
    ok(grown < 512 * 1024, f"600 predictions leave {grown / 1024:.0f} KiB more")


command, recipes = sys.argv[1:]
os.environ["ICLAB_RECIPES"] = recipes
try:
    import numpy
except ImportError:
    tap.skip("the Python package", "numpy is not installed")
    tap.done()
import iclab  # noqa: E402
import iclab_model  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

with tempfile.TemporaryDirectory() as work:
    ok(iclab.__version__ in run_command("--version"), f"version {iclab.__version__}")
    listed = iclab.devices()
    ok(listed["device"][0] == "cpu" and bool(listed["usable"][0]), f"{listed.row_count} devices")
    trained = check_training(work)
    check_times(work)
    check_sampling(trained, work)
    check_prediction(trained, work)
    check_series(trained, work)
    check_regressor(trained)
    check_table_regressor()
    check_models(trained, work)
    check_refusals(work)
    check_interrupt(work)
    check_comparison()
    check_reproduction(work)
    check_memory(trained)
tap.done()

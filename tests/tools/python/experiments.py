"""Inspections, sweeps, evaluations over keys and new text from Python: the command's numbers; and tables as others want
them.

Arguments: the command, the folder of recipes.
"""

import csv
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from tap import ok, refused

FEW = {"d": 3, "n": 6, "batch": 16, "model.layers": 2, "growth": 0, "warmup": 1, "steps": 20, "eval.sequences": 300,
       "eval.fit_sequences": 50, "predictors": "ols,ridge"}


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def holds(table, path, names):
    """The table has the rows of a file that the command wrote, in these columns."""
    rows = read_csv(path)
    return table.row_count == len(rows) > 0 and all(
        str(table[name][i]) == row[name] or float(table[name][i]) == float(row[name])
        for i, row in enumerate(rows) for name in names)


def check_inspection(run, work):
    said = []
    found = run.inspect(device="cpu", sequences=100, out=f"{work}/inspected", log=said.append)
    ok(holds(found, f"{work}/inspected/inspect.csv", ("layer", "what", "quantity")), "inspect.csv has the table's rows")
    terms = [row for row in found.rows() if row["what"] == "w_xx"]
    ok({row["layer"] for row in terms} == {1, 2} and found.folder == pathlib.Path(work, "inspected"), "of two layers")
    ok(str(found).startswith("# ") and "w_xx" in str(found), "str() is the report")
    ok(len(said) > 0, f"the command's lines are handed on: {said[:1]}")
    with refused(iclab.InputError, "expected a whole number from 1", "no sequences"):
        iclab.inspect(run, sequences=0)
    with refused(iclab.InputError, "not a run", "a folder without a run"):
        iclab.inspect(work)


def check_over(run, work):
    found = run.over(device="cpu", noise=[0, 0.5], n="6:8:2")
    ok(found["task.noise"].tolist() == [0] * 6 + [0.5] * 6 and found["task.n"].tolist() == [6, 6, 6, 8, 8, 8] * 2,
       "a grid of two keys, as numbers")
    same = [row for row in found.rows() if row["task.noise"] == 0.5 and row["task.n"] == 8]
    alone = run.evaluate(device="cpu", noise="fixed:0.5", n=8)
    ok([row["mse"] for row in same] == alone["mse"].tolist() and [row["predictor"] for row in same]
       == alone["predictor"].tolist(), f"a cell is the evaluation of its keys: {alone['mse'].tolist()}")
    listed = iclab.evaluate_over(run, {"noise": ["fixed:0.2", "choice:1,3"]}, device="cpu", out=f"{work}/over",
                                 eval__sequences=50)
    ok(list(dict.fromkeys(listed["task.noise"])) == ["fixed:0.2", "choice:1,3"] and os.path.exists(
        listed.folder / "report.html") and listed.folder == pathlib.Path(work, "over"), "values that hold a comma")
    with refused(iclab.InputError, "unknown keyword", "a key that there is not"):
        run.over(nose=[1])
    with refused(iclab.InputError, "no values", "an empty list"):
        run.over(noise=[])
    with refused(iclab.InputError, "without quotes", "a value with a quote"):
        run.over(noise=['fixed:"1"'])


def check_sweep(work):
    grid = {"layers": [1, 2], "seed": "1..2"}
    settings = {name: value for name, value in FEW.items() if name != "model.layers"}
    made = iclab.sweep("quickstart", grid, out=f"{work}/sweep", workers=1, device="cpu", **settings)
    ok(made["model.layers"].tolist() == [1, 1, 2, 2] and made["train.seed"].tolist() == [1, 2, 1, 2], "four cells")
    ok(holds(made, f"{work}/sweep/table.csv", ("model.layers", "mse", "final_loss")), "table.csv has their rows")
    means = [made["mse"][2 * i:2 * i + 2].mean() for i in range(2)]
    ok(numpy.allclose(made.means["mean_mse"], means, rtol=1e-14) and made.means["model.layers"].tolist() == [1, 2],
       f"their means over seeds: {means}")
    ok([run.recipe["layers"] for run in made.runs] == [1, 1, 2, 2] and made.runs[1].recipe["train.seed"] == 2
       and [run.evaluation.model["mse"] for run in made.runs] == made["mse"].tolist(), "every cell is a run")
    alone = iclab.train("quickstart", device="cpu:threads=1", out=f"{work}/alone", layers=2, seed=2, **settings)
    ok(alone.evaluation.model["mse"] == made["mse"][3], "of the bits of a training alone")
    again = iclab.sweep("quickstart", {**grid, "layers": [1, 2, 3]}, out=f"{work}/sweep", workers=1, device="cpu",
                        **settings)
    ok(again["mse"][:4].tolist() == made["mse"].tolist() and again["seconds"][:4].tolist() == made["seconds"].tolist()
       and again.row_count == 6, "an extended grid trains the new cells alone")
    line = [command, "sweep", f"{work}/sweep/sweep.ini", "--out", f"{work}/sweep", "--device", "cpu", "--quiet"]
    subprocess.run(line, check=True, capture_output=True)
    ok(holds(again, f"{work}/sweep/table.csv", ("mse", "seconds")), "which the command goes on with")
    with refused(iclab.InputError, "workers = 0", "no workers"):
        iclab.sweep("quickstart", grid, out=f"{work}/sweep", workers=0)


def check_positions(work):
    one = iclab.train("recall", device="cpu", out=f"{work}/recall", steps=1, batch=4, eval__sequences=20, pairs=2,
                      length=8)
    ok(one.positions.row_count == 4 * one.evaluation.row_count and set(one.positions["predictor"])
       == set(one.evaluation["predictor"]), "losses by position")


def trained_text(work, name, text):
    """A run of two steps on a text of few letters, which lies in a file."""
    pathlib.Path(work, f"{name}.txt").write_bytes(text)
    return iclab.train("text-quick", device="cpu", out=f"{work}/{name}", steps=2, task__file=f"{work}/{name}.txt",
                       task__length=16, layers=1, mixer="softmax", window=8, width=16, heads=2, batch=2,
                       eval__sequences=4, warmup=1, predictors="ngram:1", evaluate=name == "utf8", every=0)


def by_command(run, *options):
    """The bytes that the command writes."""
    line = [command, "generate", os.fspath(run), "--device", "cpu", "--quiet", *options]
    return subprocess.run(line, check=True, capture_output=True).stdout


def check_text(work):
    run = trained_text(work, "utf8", "où l'été dort, l'âne brait\n".encode() * 100)
    ok(numpy.allclose(run.evaluation["bits_per_byte"] * numpy.log(2), run.evaluation["loss"], rtol=1e-12)
       and run.evaluation.row("ngram:1")["bits_per_byte"] > 0, "bits per byte, a row for each predictor")
    first = run.generate("l'ét", bytes=40, device="cpu")
    ok(isinstance(first, str) and first.encode() == by_command(run, "--prompt", "l'ét", "--bytes", "40")
       and len(first.encode()) == 40, f"the command's text: {first[:9]!r}")
    chosen = {"temperature": 0.75, "top_k": 9, "top_p": 0.9, "seed": 3}
    words = [word for name, value in chosen.items() for word in ("--" + name.replace("_", "-"), str(value))]
    for left_out in (None, *chosen):
        used = {name: value for name, value in chosen.items() if name != left_out}
        line = [word for i in range(0, len(words), 2) if words[i] != f"--{left_out}".replace("_", "-")
                for word in words[i:i + 2]]
        ok(run.generate("l'ét", bytes=300, device="cpu", **used).encode()
           == by_command(run, "--prompt", "l'ét", "--bytes", "300", *line), f"with options, without {left_out}")
    ok(iclab.generate(work + "/utf8", device="cpu").encode() == by_command(run), "of a folder, with all defaults")
    ok(run.generate(bytes=0, device="cpu") == "", "no bytes")
    inside = run.generate("\u00e9".encode()[:1], bytes=9, device="cpu")
    ok(isinstance(inside, bytes) and 0x80 <= inside[0] < 0xc0, f"a prompt that ends within a character: {inside}")
    said = []
    same = run.generate("l'ét", bytes=40, device="cpu", log=said.append)
    ok(same == first and any("40 bytes" in line for line in said), f"the command's lines are handed on: {said[-1:]}")
    raw = trained_text(work, "raw", bytes(range(256)) * 10)
    zero = raw.generate(b"\0\xff\n", bytes=99, device="cpu")
    pathlib.Path(work, "prompt").write_bytes(b"\0\xff\n")
    ok(isinstance(zero, bytes) and zero == by_command(raw, "--prompt-file", f"{work}/prompt", "--bytes", "99"),
       "bytes of a text that is not UTF-8, behind any bytes")
    ok(isinstance(raw.generate("a", bytes=9, device="cpu"), bytes), "bytes also behind text")


def shown_texts(run):
    """The texts of a report as a browser has them, without the line feed behind a tag."""
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    found = re.findall('<pre class="text">\n(.*?)</pre>', page, re.S)
    return [html.unescape(re.sub("<[^>]*>", "", one)) for one in found]


def check_text_report(work):
    run, text = iclab.Run(f"{work}/utf8"), pathlib.Path(work, "utf8.txt").read_text(encoding="utf-8")
    shades, *passages, written = shown_texts(run)
    ok(len(passages) > 1 and all(one.replace("\u21b5\n", "\n").strip("\ufffd") in text for one in passages),
       f"the report shows held-out text: {passages[0]!r}")
    ok(shades == "bits: 0 1 2 3 4 5 6 7 8 9", "and names its shades")
    drawn = "".join(one if one in "\n\t" or " " <= one != "\x7f" else "\ufffd"
                    for one in run.generate(bytes=400, device="cpu"))
    ok(written == drawn, f"and what the model writes: {written[:9]!r}")


def check_text_refusals(work, numbers):
    run = iclab.Run(f"{work}/utf8")
    for keywords, says in (({"prompt": ""}, "prompt: empty"), ({"prompt": 5}, "expected text or bytes"),
                           ({"prompt": "\ud800"}, "expected text or bytes"), ({"bytes": -1}, "bytes = -1"),
                           ({"top_k": 0}, "top_k = 0"), ({"seed": 2**32}, "seed = 4294967296"),
                           ({"top_p": 0}, "--top-p: 0"), ({"temperature": -1}, "--temperature"),
                           ({"log": 1}, "expected a function")):
        with refused(iclab.InputError, says, f"{keywords}"):
            run.generate(device="cpu", **keywords)
    with refused(iclab.InputError, "text", "a run on numbers"):
        numbers.generate("a", device="cpu")


def check_tables(run):
    evaluation = run.evaluation
    place = list(evaluation["predictor"]).index("ridge")
    ok(evaluation.row("ridge")["mse"] == evaluation["mse"][place] != evaluation.row(0)["mse"]
       and evaluation.row(0)["predictor"] == "model", "a row by its name or number")
    with refused(KeyError, "expected one of model, ols, ridge", "a row that there is not"):
        evaluation.row("rigde")
    try:
        frame = evaluation.to_pandas()
        ok(list(frame.columns) == list(evaluation) and frame["mse"].tolist() == evaluation["mse"].tolist(),
           "for pandas")
    except iclab.InputError as failure:
        tap.skip("a table for pandas", f"pandas is not installed: {failure}")


def check_plot():
    table = iclab.Table({"predictor": ["a", "b", "a", "b"], "n": [1, 2, 3, 4], "loss": [5., 6., 7., 8.],
                         "se": [.5, .6, .7, .8]}, "planted")
    try:
        import matplotlib
        matplotlib.use("svg")
    except ImportError:
        tap.skip("a plot", "matplotlib is not installed")
        return
    axes = table.plot("n", "loss", by="predictor", error="se")
    lines = [container.lines[0] for container in axes.containers]
    ok([line.get_xydata().tolist() for line in lines] == [[[1, 5], [3, 7]], [[2, 6], [4, 8]]], "a curve for each name")
    bars = [container.lines[2][0].get_segments() for container in axes.containers]
    heights = [round(float(high[1] - low[1]) / 2, 12) for one in bars for low, high in one]
    ok(heights == [.5, .7, .6, .8], f"with its errors: {heights}")
    ok([text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"] and axes.get_xlabel() == "n"
       and axes.get_ylabel() == "loss" and axes.get_title() == "planted", "with their names")
    ok(table.plot("n", "se", axes=axes) is axes, "on axes of one's own")


def check_bar(work):
    try:
        import tqdm.auto
    except ImportError:
        with refused(iclab.InputError, "expected the package tqdm", "a bar needs tqdm"):
            iclab.train("quickstart", progress=True)
        tap.skip("a bar", "tqdm is not installed")
        return
    bars, plain = [], tqdm.auto.tqdm

    class Noted(plain):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            bars.append(self)

    tqdm.auto.tqdm = Noted
    iclab.train("quickstart", device="cpu", out=f"{work}/bar", progress=True, evaluate=False, **FEW)
    tqdm.auto.tqdm = plain
    ok([(bar.n, bar.total, bar.disable) for bar in bars] == [(20, 20, True)], "a bar to the last step, closed")


command, recipes = sys.argv[1:]
os.environ["ICLAB_RECIPES"] = recipes
try:
    import numpy
except ImportError:
    tap.skip("experiments in Python", "numpy is not installed")
    tap.done()
import iclab  # noqa: E402

with tempfile.TemporaryDirectory() as work:
    work = os.path.realpath(work)
    trained = iclab.train("quickstart", device="cpu", out=f"{work}/run", **FEW)
    check_inspection(trained, work)
    check_over(trained, work)
    check_sweep(work)
    check_positions(work)
    check_text(work)
    check_text_report(work)
    check_text_refusals(work, trained)
    check_tables(trained)
    check_plot()
    check_bar(work)
tap.done()

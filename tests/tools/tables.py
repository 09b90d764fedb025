#!/usr/bin/env python3
"""What iclab predict writes of tables in several dialects, of rows of another file, and where gnuplot fails.

Arguments: the command, the folder of recipes.
"""

import csv
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tap import done, ok

QUICK = ["--folds", "3", "--repeats", "1"]

work = tempfile.TemporaryDirectory()
folder = pathlib.Path(work.name)
command = sys.argv[1]
os.environ.update(ICLAB_RECIPES=sys.argv[2], ICLAB_DEVICE="cpu:threads=1", OMP_NUM_THREADS="1")


def iclab(*arguments):
    return subprocess.run([command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def predict(data, target, *options):
    line = ["--quiet", "--data", str(data), "--target", target, "--json", *QUICK, *options]
    return iclab("predict", str(folder / "run"), *line)


def scores(run):
    return [line for line in run.stdout.decode().splitlines() if line.startswith('{"predictor"')]


def objects(run, key):
    return [o for o in map(json.loads, run.stdout.decode().splitlines()) if key in o]


def is_refusal(run):
    lines = run.stderr.decode().splitlines()
    return run.returncode == 2 and not run.stdout and len(lines) == 1 and "expected" in lines[0]


# ---- Files ----


def rows_of(path, separator=","):
    return list(csv.reader(io.StringIO(path.read_text()), delimiter=separator))


def make_table():
    """Texts of two features and a target that follows them, with targets missing in three rows, one of which lacks a
    feature, too."""
    draw = random.Random(22)
    rows = [["a", "b", "y"]]
    for _ in range(18):
        a, b = draw.uniform(-60, 60), draw.uniform(-60, 60)
        rows.append([f"{a:.2f}", f"{b:.2f}", f"{(a + 2 * b) / 7 + draw.gauss(0, 3):.2f}"])
    for row in (3, 6, 10):
        rows[row][2] = ""
    rows[6][0] = ""
    return rows


def write(path, rows, separator, decimal):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([field.replace(".", decimal) for field in row] for row in rows)


def check_files():
    """Output in the table's own dialect, whatever that is: the numbers of the plain table's."""
    table, plain = make_table(), folder / "plain.csv"
    write(plain, table, ",", ".")
    options = ["--predict", "--drop-missing"]
    first = predict(plain, "y", *options, "--out", str(folder / "plain"))
    kept = {name: rows_of(folder / "plain" / name) for name in ("heldout.csv", "predictions.csv")}
    ok(first.returncode == 0 and [row[0] for row in kept["predictions.csv"][1:]] == ["4", "7", "11"]
       and kept["predictions.csv"][2][1:] == [""] * 5 and "" not in kept["predictions.csv"][1],
       "rows to predict are in their order; one that was left out has no numbers", first.stderr, kept)
    ok(rows_of(folder / "plain" / "omitted.csv")[1:] == [[str(plain), "7", "false"]], "and is said to be left out")
    ok([(o["omitted"], o["has_target"]) for o in objects(first, "omitted")] == [(7, False)], "also in JSON")
    dialects = [(";", ",", "semicolons"), ("\t", ".", "tabs"), (",", ",", "quoted"), (":", ".", "':'")]
    for separator, decimal, name in dialects:
        write(folder / "table.csv", table, separator, decimal)
        told = ["--separator", ":"] if separator == ":" else ["--decimal", "comma"] if separator == decimal else []
        run = predict(folder / "table.csv", "y", *options, *told, "--out", str(folder / "out"))
        ok(scores(run) == scores(first)
           and [o["model"] for o in objects(run, "line")] == [o["model"] for o in objects(first, "line")],
           f"{name}: the same predictions", run.stderr)
        for file, expected in kept.items():
            seen = rows_of(folder / "out" / file, separator)
            back = [[field.replace(decimal, ".") for field in row] for row in seen]
            ok(back == expected and (decimal == "." or decimal in seen[1][2]), f"{name}: {file} in this dialect",
               seen[:3])
        report = (folder / "out" / "report.html").read_text()
        said = name.replace("'", "&#39;")
        ok("The table as it came" in report and (f"separated by {said}" in report or name == "quoted"),
           f"{name}: the report says so")
        steps = rows_of(folder / "out" / "preparation.csv")[1:]
        columns = ("file", "step", "number", "count", "detail")
        ok(steps == [[str(o[key]) for key in columns] for o in objects(run, "step")]
           and steps[-1][1:4] == ["dropped", "0", "1"]
           and (separator == ",") == ("separator" not in [s[1] for s in steps])
           and (decimal == ",") == ("decimal" in [s[1] for s in steps]), f"{name}: every step is kept", steps)


def check_new_rows():
    """Rows of another file, in another dialect, with a gap."""
    rows = [f"{'uv'[i % 2]};{i},5;{2 * i + i % 3},25\n" for i in range(12)]
    (folder / "data.csv").write_text("s;x;y\n" + "".join(rows))
    (folder / "new.csv").write_text("x,s\n1.5,u\n,v\n3.5,v\n")
    run = predict(folder / "data.csv", "y", "--one-hot", "--new", str(folder / "new.csv"))
    ok(is_refusal(run) and b"new.csv:3: column 1 (x)" in run.stderr, "a gap in new rows is refused", run.stderr)
    run = predict(folder / "data.csv", "y", "--one-hot", "--drop-missing", "--new", str(folder / "new.csv"), "--out",
                  str(folder / "new"))
    written = rows_of(folder / "new" / "predictions.csv")
    ok([r[0] for r in written[1:]] == ["2", "3", "4"] and written[2][1:] == [""] * 5 and "." in written[1][1],
       "or left out, in the new file's own dialect", run.stderr, written)
    run = predict(folder / "data.csv", "y", "--one-hot", "--impute", "mean", "--new", str(folder / "new.csv"))
    fills = {c["column"]: c.get("fill") for c in objects(run, "column")}
    ok(fills.get("x") == 6 and len(objects(run, "line")) == 3, "or filled in by the data's mean", run.stderr, fills)


def check_failing_gnuplot():
    """A gnuplot that fails takes no result with it, and finds the results printed."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "gnuplot").write_text(f"#!/bin/sh\n[ -s {folder}/seen ] && : >{folder}/after\nexit 3\n")
    (tools / "gnuplot").chmod(0o755)
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
    with open(folder / "seen", "wb") as seen:
        line = ["--quiet", "--data", folder / "plain.csv", "--target", "y", "--predict", "--drop-missing", *QUICK]
        run = subprocess.run([command, "predict", folder / "run", *line, "--out", folder / "undrawn"], stdout=seen,
                             stderr=subprocess.PIPE, env=environment, check=False)
    ok(run.returncode == 0 and run.stderr and all(b"gnuplot failed" in line for line in run.stderr.splitlines())
       and (folder / "undrawn" / "predictions.csv").exists() and b"predictor" in (folder / "seen").read_bytes(),
       "a picture that fails is a line, not an exit code", run.stderr)
    ok((folder / "after").exists(), "and results are printed before it is drawn")


def main():
    settings = ["train.steps=60", "train.batch=64", "train.growth=20", "train.warmup=10", "eval.sequences=50",
                "eval.fit_sequences=50", "eval.every=0"]
    made = iclab("train", "predict", *[word for one in settings for word in ("--set", one)], "--quiet", "--out",
                 str(folder / "run"))
    ok(made.returncode == 0, "a model for tables, barely trained", made.stderr)
    check_files()
    check_new_rows()
    check_failing_gnuplot()
    done()


main()

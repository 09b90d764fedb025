#!/usr/bin/env python3
"""A hundred tables as they come, made by a seed: iclab predict takes each, or refuses it in one line that names the
option that helps, and then takes it with that option. What it predicts equals, bit for bit, what it predicts from a
plain table of the same numbers that this script writes by hand: one separator, decimal points, columns of numbers
alone, categories as columns of 0 and 1, rows with gaps gone.

Arguments: the command, the folder of recipes, another seed.
"""

import csv
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tap import done, ok
from table_traits import CONTENTS, DIALECTS, LAST, REFUSED, Table, choose

TABLES = 100
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 22
QUICK = ["--folds", "3", "--repeats", "1"]

# ---- Predicting ----

work = tempfile.TemporaryDirectory()
folder = pathlib.Path(work.name)
command = sys.argv[1]
os.environ.update(ICLAB_RECIPES=sys.argv[2], ICLAB_DEVICE="cpu:threads=1", OMP_NUM_THREADS="1")


def iclab(*arguments, stdin=None, **more):
    return subprocess.run(
        [command, *arguments], input=stdin if stdin is not None else b"", capture_output=True, **more
    )


def predict(data, target, *options, stdin=None):
    return iclab(
        "predict",
        str(folder / "run"),
        "--quiet",
        "--data",
        str(data),
        "--target",
        target,
        "--json",
        *QUICK,
        *options,
        stdin=stdin,
    )


def scores(run):
    return [line for line in run.stdout.decode().splitlines() if line.startswith('{"predictor"')]


def objects(run, key):
    return [o for o in map(json.loads, run.stdout.decode().splitlines()) if key in o]


def is_refusal(run):
    lines = run.stderr.decode().splitlines()
    return run.returncode == 2 and not run.stdout and len(lines) == 1 and "expected" in lines[0]


def try_table(table, path):
    """Predicts, and again with what each refusal names: the last run, the options taken, and what went wrong."""
    data, stdin, target, options, applied = path, None, table.target, list(table.options), {}
    while True:
        run = predict(data, target, *options, stdin=stdin)
        if run.returncode == 0:
            return run, applied, None
        if not is_refusal(run):
            return run, applied, "no refusal of one line"
        named = re.findall(r"--[a-z][a-z-]*", run.stderr.decode())
        fix = next((option for option in named if option in table.fixes and option not in applied), None)
        if fix is None:
            return run, applied, f"it names {named}, of {list(table.fixes)}"
        applied[fix] = run.stderr.decode()
        if fix == "--data" and table.is_utf16:
            data, stdin = "-", table.text().encode()
        elif fix == "--data":
            path.write_text(table.longer)
            table.rows = len(table.columns[0].cells)
        elif fix == "--target":
            target = table.fixes[fix][1]
        elif fix == "--folds":
            at = options.index(fix)
            options[at : at + 2] = table.fixes[fix]
        else:
            options += table.fixes[fix]


def check_table(number, traits):
    table = Table(random.Random(f"{SEED}/{number}"))
    for trait in traits:
        trait(table)
    name = f"{number}: " + ", ".join(trait.__name__ for trait in traits)
    path = folder / "table.csv"
    path.write_bytes(table.bytes())
    run, applied, wrong = try_table(table, path)
    said = run.stderr.decode() + "".join(applied.values())
    if wrong or set(applied) != set(table.fixes):
        return ok(
            False, name, wrong or f"refused for {list(applied)} of {list(table.fixes)}", said, table.text()[:600]
        )
    by_hand = folder / "plain.csv"
    by_hand.write_text(table.plain(applied))
    expected = predict(by_hand, "y", *[o for o in table.options if o != "--one-hot"], *table.fixes.get("--folds", []))
    if table.fills:
        filled = objects(run, "column")
        good = any("fill" in c for c in filled) and len(filled) == len(by_hand.read_text().split("\n")[0].split(","))
    else:
        good = bool(scores(run)) and scores(run) == scores(expected)
    return ok(
        good,
        f"{name}: {'with ' + ' '.join(applied) if applied else 'as it comes'}",
        said,
        scores(run),
        scores(expected),
        expected.stderr.decode(),
        table.text()[:600],
        by_hand.read_text()[:600],
    )


# ---- What is written ----


def rows_of(path, separator=","):
    return list(csv.reader(io.StringIO(path.read_text()), delimiter=separator))


def check_files():
    """Output in the table's own dialect, whatever that is: the numbers of the plain table's."""
    table = Table(random.Random(f"{SEED}/files"))
    plain = folder / "plain.csv"
    target = [c for c in table.columns if c.use == "target"][0]
    for row in (2, 5, 9):
        target.cells[row] = None
    table.columns[0].cells[5] = None
    table.gap = ""
    plain.write_text(table.text())
    first = predict(plain, "y", "--predict", "--drop-missing", "--out", str(folder / "plain"))
    kept = {name: rows_of(folder / "plain" / name) for name in ("heldout.csv", "predictions.csv")}
    ok(
        first.returncode == 0
        and [row[0] for row in kept["predictions.csv"][1:]] == ["4", "7", "11"]
        and kept["predictions.csv"][2][1:] == [""] * 5
        and "" not in kept["predictions.csv"][1],
        "rows to predict are in their order; one that was left out has no numbers",
        first.stderr,
        kept,
    )
    ok(rows_of(folder / "plain" / "omitted.csv")[1:] == [[str(plain), "7", "false"]], "and is said to be left out")
    ok([(o["omitted"], o["has_target"]) for o in objects(first, "omitted")] == [(7, False)], "also in JSON")
    for separator, decimal, name in (
        (";", ",", "semicolons"),
        ("\t", ".", "tabs"),
        (",", ",", "quoted"),
        (" ", ",", "blanks"),
    ):
        table.separator, table.decimal, table.gap = separator, decimal, "" if separator != " " else "NA"
        path = folder / f"{name}.csv"
        path.write_text(table.text())
        run = predict(path, "y", "--predict", "--drop-missing", "--out", str(folder / name))
        ok(
            scores(run) == scores(first)
            and [o["model"] for o in objects(run, "line")] == [o["model"] for o in objects(first, "line")],
            f"{name}: the same predictions",
            run.stderr,
        )
        for file, expected in kept.items():
            seen = rows_of(folder / name / file, separator)
            back = [[field.replace(decimal, ".").replace("NA", "") for field in row] for row in seen]
            ok(
                back == expected and (decimal == "." or decimal in seen[1][2]),
                f"{name}: {file} in this dialect",
                seen[:3],
            )
        report = (folder / name / "report.html").read_text()
        ok(
            ("The table as it came" in report) and (f"separated by {name}" in report or name in ("quoted", "blanks")),
            f"{name}: the report says so",
        )
        steps = rows_of(folder / name / "preparation.csv")[1:]
        ok(
            [s[4] for s in steps] == [o["detail"] for o in objects(run, "step")]
            and (separator == ",") == ("separator" not in [s[1] for s in steps])
            and (decimal == ",") == ("decimal" in [s[1] for s in steps]),
            f"{name}: every step is kept",
            steps,
        )


def check_new_rows():
    """Rows of another file, in another dialect, with a gap."""
    (folder / "data.csv").write_text(
        "s;x;y\n" + "".join(f"{'uv'[i % 2]};{i},5;{2 * i + i % 3},25\n" for i in range(12))
    )
    (folder / "new.csv").write_text("x,s\n1.5,u\n,v\n3.5,v\n")
    run = predict(folder / "data.csv", "y", "--one-hot", "--new", str(folder / "new.csv"))
    ok(is_refusal(run) and b"new.csv:3: column 1 (x)" in run.stderr, "a gap in new rows is refused", run.stderr)
    run = predict(
        folder / "data.csv",
        "y",
        "--one-hot",
        "--drop-missing",
        "--new",
        str(folder / "new.csv"),
        "--out",
        str(folder / "new"),
    )
    written = rows_of(folder / "new" / "predictions.csv")
    ok(
        [r[0] for r in written[1:]] == ["2", "3", "4"] and written[2][1:] == [""] * 5 and "." in written[1][1],
        "or left out, in the new file's own dialect",
        run.stderr,
        written,
    )
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
        run = subprocess.run(
            [
                command,
                "predict",
                folder / "run",
                "--quiet",
                "--data",
                folder / "plain.csv",
                "--target",
                "y",
                "--predict",
                "--drop-missing",
                *QUICK,
                "--out",
                folder / "undrawn",
            ],
            stdout=seen,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    ok(
        run.returncode == 0
        and run.stderr
        and all(b"gnuplot failed" in line for line in run.stderr.splitlines())
        and (folder / "undrawn" / "predictions.csv").exists()
        and b"predictor" in (folder / "seen").read_bytes(),
        "a picture that fails is a line, not an exit code",
        run.stderr,
    )
    ok((folder / "after").exists(), "and results are printed before it is drawn")


def main():
    made = iclab(
        "train",
        "predict",
        "--set",
        "train.steps=60",
        "--set",
        "train.batch=64",
        "--set",
        "train.growth=20",
        "--set",
        "train.warmup=10",
        "--set",
        "eval.sequences=50",
        "--set",
        "eval.fit_sequences=50",
        "--set",
        "eval.every=0",
        "--quiet",
        "--out",
        str(folder / "run"),
    )
    ok(made.returncode == 0, "a model for tables, barely trained", made.stderr)
    alone = [[trait] for trait in DIALECTS + CONTENTS + REFUSED + LAST]
    draw = random.Random(SEED)
    together = [choose(draw) for _ in range(TABLES - len(alone))]
    good = sum(check_table(number + 1, traits) for number, traits in enumerate(alone + together))
    ok(good == TABLES, f"{good} of {TABLES} tables")
    check_files()
    check_new_rows()
    check_failing_gnuplot()
    done()


main()

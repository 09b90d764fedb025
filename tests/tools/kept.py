"""What each command leaves as result.json and CSV, against what it printed: the same names, the same values, where it
comes from. Arguments: iclab, the folder of recipes, the folder of data."""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
from tap import ok

iclab, recipes, data = sys.argv[1:]
environment = dict(os.environ, ICLAB_RECIPES=recipes)
environment.pop("ICLAB_DEVICE", None)
FACTS = ("command", "command_line", "date", "host", "version", "commit", "compiler", "csv", "summary", "rows")
DEVICE = ("device", "device_name", "device_kind", "platform", "driver", "gemm", "fast_math", "precision")
PREDICT = ("columns", "preparation", "omitted", "predicted", "notes")
SMALL = ("--device", "cpu:threads=1", "--quiet")
MODEL = ("--set", "task.d=3", "--set", "model.layers=1", "--set", "train.growth=0", "--set", "train.batch=32")
MODEL += ("--set", "eval.sequences=300", "--set", "eval.fit_sequences=100", "--set", "eval.every=0")
EVALUATED = 4  # the seed of evaluations, which is not that of the training
MODEL += ("--set", f"eval.seed={EVALUATED}")


def run(*arguments, code=0):
    command = [iclab, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
    if done.returncode != code:
        print(f"# {' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    ok(done.returncode == code, f"iclab {' '.join(arguments[:1])}: exit code {code}")
    return done


def lines_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def read(folder):
    with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
        return json.load(file)


def table_of(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_field(value):
    return not isinstance(value, (list, dict))


def is_same(text, value):
    """Whether a field of a CSV file says what JSON says."""
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text in (("true", "1") if value else ("false", "0"))
    return text == value if isinstance(value, str) else text != "" and float(text) == value


def check_csv(folder, rows, name, what):
    fields = table_of(folder, name)
    names = [key for key in rows[0] if is_field(rows[0][key])] if rows else []
    columns = list(fields[0]) if fields else []
    known = [key for key in names if key in columns]
    ok(
        len(fields) == len(rows) and set(columns) <= set(names) and len(known) >= min(3, len(names)),
        f"{what}: {name} has the rows under names of JSON",
    )
    wrong = [key for field, row in zip(fields, rows) for key in known if not is_same(field[key], row.get(key))]
    ok(not wrong, f"{what}: {name} has their values {wrong[:3]}")


def check_result(folder, command, done_json, seed=None, device=True, tables=()):
    """What any result has, and that --json printed it. A comparison wraps its summary."""
    result = read(folder)
    facts = FACTS + (DEVICE if device else ())
    missing = [name for name in facts if name not in result]
    ok(not missing and result["command"] == command, f"{command}: where it comes from {missing}")
    dated = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["date"])
    ok(dated and result["host"] != "", f"{command}: when, where")
    ok(result["command_line"].startswith(f"iclab {command}"), f"{command}: by which command line")
    ok(result.get("seed") == seed, f"{command}: the seed {seed}")
    ok(os.listdir(folder) and not [name for name in os.listdir(folder) if "tmp" in name], f"{command}: whole files")
    if done_json is not None:
        lines = lines_of(done_json)
        last = lines[-1].get("summary", lines[-1])
        kept = [row for table in ("rows", *tables) for row in result.get(table, [])]
        ok(lines[:-1] == kept and len(kept) > 0, f"{command}: --json has its rows")
        ok(last == result["summary"] and last["folder"] == folder, f"{command}: --json ends with it, and the folder")
    check_csv(folder, result["rows"], result["csv"], command)
    return result


def shown(value):
    """Numbers as tables show them."""
    return re.fullmatch(r"-|[-+0-9.e]+", value)


def check_screen(text, rows, what, first="predictor", key=None):
    """The table on the screen: headings are names of JSON ("se": of the number before it), values are rounded ones."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.split()[:1] == [first]), None)
    heads = lines[at].split() if at is not None else []
    names = [
        f"{heads[i - 1]}_se" if head == "se" and f"{heads[i - 1]}_se" in rows[0] else head
        for i, head in enumerate(heads)
    ]
    unknown = [name for name in names if name not in rows[0]]
    ok(len(names) > 3 and not unknown, f"{what}: headings are names of JSON {unknown}")
    wrong, seen = [], 0
    for line, row in zip(lines[at + 1 :] if at is not None else [], rows):
        cells = line.split()
        for name, cell in zip(names, cells):
            value = row.get(name)
            seen += 1
            if isinstance(value, str) or value is None:
                good = cell == (value or "-")
            else:
                good = shown(cell) and abs(float(cell) - value) <= max(5.1e-5, 6e-3 * abs(value))
            if not good:
                wrong.append((name, cell, value))
    ok(seen >= 3 * len(rows) and not wrong, f"{what}: the screen shows its values {wrong[:2]}")


def check_train(work):
    folders = [os.path.join(work, f"seed{seed}") for seed in (1, 2)]
    train = ("train", "quickstart", *SMALL, *MODEL, "--steps", "5", "--set", "train.polish=on")
    done = run(*train, "--seed", "1", "--out", folders[0])
    first = check_result(folders[0], "train", None, seed=1)
    check_screen(done.stdout, first["rows"], "train")
    seconds = first["summary"]["training_seconds"]
    ok(f"trained in {seconds:.3g} s on" in done.stdout, f"train: for {seconds} s, as the screen says")
    other = run(*train, "--seed", "2", "--out", folders[1], "--json")
    second = check_result(folders[1], "train", other, seed=2)
    ok(first["rows"][0]["mse"] != second["rows"][0]["mse"], "train: two seeds, two results")
    oracles = [{name: value for name, value in result["rows"][1].items() if "minus_model" not in name}
               for result in (first, second)]
    ok(oracles[0] == oracles[1], "train: and the oracle's row is the same, but for what it is less the model's")
    with open(os.path.join(folders[0], "run.json"), encoding="utf-8") as file:
        facts = json.load(file)
    polish = {name: value for name, value in facts.items() if name.startswith("polish_")}
    ok(
        len(polish) == 9 and all(first["summary"].get(name) == value for name, value in polish.items()),
        "train: how far from a stationary point, as run.json has it",
    )
    return folders[0], first


def check_eval(folder, trained):
    done = run("eval", folder, *SMALL)
    printed = run("eval", folder, *SMALL, "--json")
    result = check_result(os.path.join(folder, "eval"), "eval", printed, seed=EVALUATED)
    check_screen(done.stdout, result["rows"], "eval")
    ok(result["rows"] == trained["rows"], "eval: the numbers that training ended with")
    ok("polish_gradient" in result["summary"], "eval: how far from a stationary point")
    other = run("eval", folder, *SMALL, "--json", "--set", "task.noise=fixed:0.5", "--set", "eval.seed=7")
    apart = check_result(os.path.join(folder, "eval", "noise-fixed-0.5_seed-7"), "eval", other, seed=7)
    ok(apart["rows"][0] != result["rows"][0], "eval: --set gives another result, in a folder of its own")
    ok(read(folder) == trained, "eval: the training's own result stands")
    ok(read(os.path.join(folder, "eval")) == result, "eval: and that of the evaluation before")
    grid = run("eval", folder, *SMALL, "--json", "--over", "task.n=8,9")
    check_result(os.path.join(folder, "over", "n"), "eval", grid, seed=EVALUATED)
    with open(os.path.join(folder, "taken"), "w", encoding="utf-8"):
        pass
    refused = run("eval", folder, *SMALL, "--out", os.path.join(folder, "taken"), code=3)
    ok("taken" in refused.stderr, "eval: a folder asked for that cannot be made is a failure")
    os.rename(os.path.join(folder, "eval"), os.path.join(folder, "elsewhere"))
    os.rename(os.path.join(folder, "taken"), os.path.join(folder, "eval"))
    said = run("eval", folder, *SMALL, "--json")
    is_named = "folder" in lines_of(said)[-1]
    ok("is not kept" in said.stderr and not is_named, "eval: one that nobody asked for is said")


def check_positions(work):
    folder = os.path.join(work, "recall")
    small = ("--set", "task.vocabulary=16", "--set", "task.length=16", "--set", "task.pairs=4")
    small += ("--set", "model.width=16", "--set", "train.batch=4", "--set", "eval.sequences=100")
    small += ("--set", "eval.every=0")
    done = run("train", "recall", *SMALL, *small, "--steps", "2", "--out", folder, "--json")
    result = check_result(folder, "train", done, seed=1)
    inner = [{"predictor": row["predictor"], **at} for row in result["rows"] for at in row["positions"]]
    check_csv(folder, inner, "positions.csv", "train")
    names = set(result["rows"][0])
    ok({"loss", "accuracy"} <= names and "mse" not in names, "a loss of classes is loss")


def check_others(work, folder):
    done = run("inspect", folder, *SMALL, "--sequences", "100", "--json")
    result = check_result(os.path.join(folder, "inspect"), "inspect", done, seed=EVALUATED)
    ok(len(result["rows"]) > 20, "inspect: every number")

    swiss = ("--data", os.path.join(data, "swiss.csv"), "--target", "Fertility", "--columns", "Agriculture,Catholic")
    done = run("predict", folder, *SMALL, *swiss)
    printed = run("predict", folder, *SMALL, *swiss, "--json")
    place = os.path.join(folder, "predict", "swiss-Fertility")
    result = check_result(place, "predict", printed, seed=1, tables=PREDICT)
    check_screen(done.stdout, result["rows"], "predict")
    other = run("predict", folder, *SMALL, *swiss, "--json", "--seed", "2", "--out", os.path.join(work, "predicted"))
    second = check_result(os.path.join(work, "predicted"), "predict", other, seed=2, tables=PREDICT)
    ok(second["rows"][0] != result["rows"][0], "predict: two seeds, two results")


def read_names(path, separator=","):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=separator))


def check_names(work, folder):
    """Names of columns with commas, quotes and line feeds, and separators that are letters, as Python reads them."""
    names = ["plain", "a, b", 'say "x"', "two\nlines"]
    values = [[row, row * row % 7, row % 3, row * row * row % 5] for row in range(1, 13)]
    table, place = os.path.join(work, 'a "table", odd.csv'), os.path.join(work, "named")
    with open(table, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *values])
    run("predict", folder, *SMALL, "--data", table, "--target", "1", "--out", place)
    columns = [name.replace("\n", " ") for name in names[1:] + names[:1]]  # a name is one line
    ok([row["column"] for row in read_names(os.path.join(place, "standardization.csv"))] == columns,
          "predict: standardization.csv has the names of the columns")
    ok([row["column"] for row in read(place)["columns"]] == columns, "predict: and result.json")
    table, place = os.path.join(work, "letters.csv"), os.path.join(work, "lettered")
    with open(table, "w", encoding="utf-8", newline="") as file:
        file.writelines("e".join(map(str, row)) + "\n" for row in [["y", "x"], *(row[:2] for row in values)])
    run("predict", folder, *SMALL, "--data", table, "--target", "1", "--separator", "e", "--out", place)
    rows = read_names(os.path.join(place, "heldout.csv"), "e")
    ok(len(rows) == len(values) and [float(row["target"]) for row in rows] == [row[0] for row in values],
          "predict: heldout.csv whose separator is a letter of its header and of its numbers")


def check_sweep(work):
    plan, place = os.path.join(work, "plan.ini"), os.path.join(work, "swept")
    with open(plan, "w", encoding="utf-8") as file:
        keys = "\n".join(word.replace("=", " = ") for word in MODEL if word != "--set")
        file.write(f"[sweep]\nrecipe = quickstart\n[set]\n{keys}\ntrain.steps = 3\n[grid]\ntrain.seed = 1, 2\n")
    sweep = ("sweep", plan, *SMALL, "--workers", "1", "--out", place)
    done = run(*sweep)
    printed = run(*sweep, "--json")
    result = check_result(place, "sweep", printed, device=False, tables=("means",))
    check_screen(done.stdout, result["rows"], "sweep", first="train.seed")
    check_csv(place, result["means"], "means.csv", "sweep")
    cells = [check_result(os.path.join(place, f"seed-{seed}"), "sweep", None, seed=seed) for seed in (1, 2)]
    for row, cell in zip(result["rows"], cells):
        score = cell["rows"][0]
        ok(
            all(row[name] == score[name] for name in ("mse", "se", "half_adjusted", "half_adjusted_se")),
            "sweep: the cell's own result has its numbers, under the same names",
        )
    ok(cells[0]["rows"] != cells[1]["rows"], "sweep: two seeds, two results")


def check_devices(work):
    place = os.path.join(work, "bench")
    done = run("bench", *SMALL, "--seconds", "0", "--op", "adam (3528", "--out", place, "--json")
    check_result(place, "bench", done)
    place = os.path.join(work, "compare")
    done = run("compare", *SMALL, "--op", "adam (1)", "--seed", "3", "--out", place, "--json")
    check_result(place, "compare", done, seed=3)
    place = os.path.join(work, "trainings")
    small = [word for word in MODEL if word != "--set"]
    settings = [word for key in small for word in ("--set", key)]
    done = run("compare", *SMALL, "--train", "quickstart", *settings, "--steps", "2", "--out", place, "--json")
    check_result(place, "compare", done, seed=1)
    place = os.path.join(work, "devices")
    done = run("devices", "--out", place, "--json")
    check_result(place, "devices", done, device=False)


def check_reproduce(work):
    place = os.path.join(work, "papers")
    done = run("reproduce", "gd-construction", "--scale", "ci", *SMALL, "--out", place, "--json", "--seed", "2")
    result = check_result(os.path.join(place, "gd-construction-ci"), "reproduce", done, seed=2)
    ok(result["summary"]["missed"] == 0 and result["rows"][0]["judgement"] != "", "reproduce: with its verdicts")


with tempfile.TemporaryDirectory() as scratch:
    run_folder, its_result = check_train(scratch)
    check_others(scratch, run_folder)
    check_names(scratch, run_folder)
    check_eval(run_folder, its_result)
    check_positions(scratch)
    check_sweep(scratch)
    check_devices(scratch)
    check_reproduce(scratch)
tap.done()

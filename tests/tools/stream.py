"""Metrics as they come: JSON lines to files and pipes, with readers that go away, come late or take nothing.
Arguments: iclab, the folder of recipes."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tap import done, ok

iclab, recipes = sys.argv[1:]
environment = dict(os.environ, ICLAB_RECIPES=recipes)
environment.pop("ICLAB_DEVICE", None)
SMALL = ("--device", "cpu:threads=1", "--set", "task.d=3", "--set", "model.layers=1", "--set", "train.growth=0")
SMALL += ("--set", "train.batch=8", "--set", "eval.sequences=50", "--set", "eval.fit_sequences=50")
SMALL += ("--set", "eval.every=50", "--set", "eval.every_sequences=32", "--set", "train.polish=off")
NAMES = ("loss", "gradient_norm", "learning_rate", "eval_half_adjusted")


def start(*arguments, **options):
    command = [iclab, "train", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def finish(process, code, name):
    out, err = process.communicate(timeout=120)
    if process.returncode != code:
        print(f"# exit code {process.returncode}: {err.decode()[-300:]}")
    ok(process.returncode == code, f"{name}: exit code {code}")
    return out.decode(), err.decode()


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def metrics_of(folder):
    with open(os.path.join(folder, "metrics.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {"step": int(row["step"]), **{name: float(row[name]) for name in NAMES if row[name] != ""}} for row in rows
    ]


def check_file(work):
    folder, file = os.path.join(work, "run"), os.path.join(work, "metrics.jsonl")
    with open(file, "w", encoding="utf-8") as old:
        old.write("what was there before\n")
    finish(start("quickstart", *SMALL, "--steps", "100", "--out", folder, "--metrics", file), 0, "to a file")
    with open(file, encoding="utf-8") as lines:
        rows = rows_of(lines.read())
    ok(rows == metrics_of(folder) and len(rows) == 100, "the rows of metrics.csv, with their numbers and names")
    ok([row["step"] for row in rows if "eval_half_adjusted" in row] == [50, 100], "evaluations where they were due")
    refused = start("quickstart", *SMALL, "--steps", "100", "--out", folder, "--metrics", file)
    finish(refused, 2, "a folder that is taken")
    with open(file, encoding="utf-8") as lines:
        ok(rows_of(lines.read()) == rows, "leaves the file as it was")
    with open(file, "a", encoding="utf-8") as lines:
        lines.write('{"step":101,"loss":1}\n{"step":10')
    finish(start("--resume", folder, "--steps", "150", "--metrics", file), 0, "resumed")
    with open(file, encoding="utf-8") as lines:
        ok(rows_of(lines.read()) == metrics_of(folder), "each step once, without what a killed run left")
    finish(start("quickstart", *SMALL, "--out", work + "/no", "--metrics", work), 3, "a folder as file")
    ok(not os.path.exists(work + "/no"), "leaves no trace")
    finish(start("quickstart", *SMALL, "--out", work + "/no", "--metrics", "fd:77"), 2, "a descriptor that is none")


def check_pipes(work):
    folder = os.path.join(work, "piped")
    command = ("quickstart", *SMALL, "--steps", "20", "--out", folder, "--metrics", "-", "--json")
    out, _ = finish(start(*command), 0, "to -")
    rows = rows_of(out)
    ok([row["step"] for row in rows[:20]] == list(range(1, 21)) and "folder" in rows[-1], "before the result")
    reader, writer = os.pipe()
    process = start("--resume", folder, "--steps", "40", "--metrics", f"fd:{writer}", pass_fds=(writer,))
    os.close(writer)
    finish(process, 0, "to a descriptor")
    with os.fdopen(reader, encoding="utf-8") as lines:
        ok([row["step"] for row in rows_of(lines.read())] == list(range(21, 41)), "resumed: only the new rows")


def check_readers(work):
    pipe = os.path.join(work, "pipe")
    os.mkfifo(pipe)
    heard = []

    def read(lines):
        with open(pipe, encoding="utf-8") as file:
            for line in file:
                heard.append(json.loads(line)["step"])
                if len(heard) == lines:
                    return

    long = ("quickstart", *SMALL, "--steps", "3000", "--set", "eval.every=0")
    process = start(*long, "--out", os.path.join(work, "left"), "--metrics", pipe)
    read(5)
    _, err = finish(process, 0, "a reader that goes away")
    ok(heard == [1, 2, 3, 4, 5] and "rows did not arrive" in err, "got its rows; the others are counted")
    ok(len(metrics_of(os.path.join(work, "left"))) == 3000, "and the training has all of them")

    heard.clear()
    process = start(*long, "--out", os.path.join(work, "late"), "--metrics", pipe)
    time.sleep(0.5)
    ok(not os.path.exists(os.path.join(work, "late")), "a reader is waited for")
    thread = threading.Thread(target=read, args=(0,))
    thread.start()
    _, err = finish(process, 0, "a reader that comes late")
    thread.join(timeout=60)
    ok(heard == list(range(1, 3001)) and "did not arrive" not in err, "gets every row")

    held = os.path.join(work, "held")
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb"):
        process = start(*long, "--out", held, "--metrics", pipe, "--quiet")
        for _ in range(600):
            if os.path.exists(os.path.join(held, "metrics.csv")) and len(metrics_of(held)) >= 1000:
                break
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = finish(process, 130, "a signal while a reader takes nothing")
        ok("rows did not arrive" in err and "the checkpoint is written" in err, "stops the training as ever")

    ended = start(*long, "--out", os.path.join(work, "stdout"), "--metrics", "-")
    ended.stdout.close()
    ended.stdout = None
    _, err = finish_quiet(ended)
    ok(ended.returncode == 3 and "standard output" in err, "a closed standard output does not kill the training")
    ok(len(metrics_of(os.path.join(work, "stdout"))) == 3000, "which does all of its steps")


def finish_quiet(process):
    err = process.stderr.read().decode()
    process.wait(timeout=120)
    return "", err


with tempfile.TemporaryDirectory() as scratch:
    check_file(scratch)
    check_pipes(scratch)
    check_readers(scratch)
done()

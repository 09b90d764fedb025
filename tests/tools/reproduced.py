#!/usr/bin/env python3
"""Writes down what reproductions at scale ci are to find: tests/tools/reproduced/NAME.tsv, which the test
"reproduce NAME" reads (reproduce.sh).

    tests/tools/reproduced.py ICLAB RECIPES [NAME...]

Each is run twice, with the widest instructions of this machine and with the base set. A line is a finding: what,
quantity, ours and how far another machine's may be from it, target, tolerance, criterion, evidence, source; or "file",
the name of a file of numbers, its rows and its commas in a row; "cell", a scale, and the name of one of its cells; or
"trainings", a scale, how many there are, and the MD5 of their list (iclab reproduce NAME --trainings --scale SCALE).
What differs between the two runs is of no use to others: "~".
Compare what changed (git diff) with the paper before you commit it.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SCALES = ("ci", "short", "full")
DEVICES = ("cpu", "cpu:isa=base")
SAME = 0.01  # relative: targets and tolerances of two runs
EQUAL = 1e-6  # relative: ours of two runs, where rounding does not matter
ALIKE = 0.2  # relative: ours of two runs, where it does
NEAR, FAR = 0.05, 0.5  # relative: ours on another machine, where it does not, and where it does
LEAST = 1e-9  # below it a number is rounding


def reproduce(iclab, name, device, folder):
    command = [iclab, "reproduce", name, "--scale", "ci", "--device", device, "--quiet", "--json", "--out", folder]
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if result.returncode not in (0, 1):  # 1: something is missed
        raise RuntimeError(f"{name} on {device}: {result.stderr}")
    rows = [json.loads(line) for line in result.stdout.splitlines() if '"judgement"' in line]
    files = []
    for path in sorted(pathlib.Path(folder, f"{name}-ci").glob("*.csv")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.name != "findings.csv":
            files.append((path.name, len(lines), max(line.count(",") for line in lines)))
    return rows, files


def close(one, other, part):
    if one is None or other is None:
        return one is other
    return abs(one - other) <= part * max(abs(one), abs(other))


def text_of(number):
    return "null" if number is None else f"{number:.6g}"


def either(one, other):
    return text_of(one) if close(one, other, SAME) else "~"


def line_of(one, other):
    ours, slack = "~", "~"
    if close(one["ours"], other["ours"], ALIKE):
        part = NEAR if close(one["ours"], other["ours"], EQUAL) else FAR
        ours, slack = text_of(one["ours"]), text_of(max(part * abs(one["ours"] or 0), LEAST))
    return [one["what"], one["quantity"], ours, slack, either(one["target"], other["target"]),
            either(one["tolerance"], other["tolerance"]), one["criterion"], one["evidence"], one["source"]]


def list_parts(iclab, name, what, scale):
    return subprocess.run([iclab, "reproduce", name, f"--{what}", "--scale", scale], capture_output=True, text=True,
                          check=True).stdout


def parts(iclab, name):
    for scale in SCALES:
        yield from (["cell", scale, cell] for cell in list_parts(iclab, name, "cells", scale).splitlines())
    for scale in SCALES:
        listed = list_parts(iclab, name, "trainings", scale)
        yield ["trainings", scale, str(listed.count("\n")), hashlib.md5(listed.encode()).hexdigest()]


def main():
    iclab, recipes, *names = sys.argv[1:]
    os.environ["ICLAB_RECIPES"] = str(pathlib.Path(recipes).resolve())
    known = subprocess.run([iclab, "reproduce", "--list", "--json"], capture_output=True, text=True, check=True).stdout
    to = pathlib.Path(__file__).resolve().parent / "reproduced"
    to.mkdir(exist_ok=True)
    for name in names or [json.loads(line)["name"] for line in known.splitlines()]:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            found = [reproduce(iclab, name, device, folder) for device, folder in zip(DEVICES, (one, other))]
        (rows, files), (again, files_again) = found
        lines = [line_of(*pair) for pair in zip(rows, again, strict=True)]
        lines += [["file", *map(str, file)] for file in files if file in files_again]
        lines += parts(iclab, name)
        to.joinpath(f"{name}.tsv").write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
        print(f"{name}: {len(rows)} findings, {sum(line[2] == '~' for line in lines)} of them of no use to others",
              flush=True)


if __name__ == "__main__":
    main()

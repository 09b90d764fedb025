#!/usr/bin/env python3
"""What reproductions at scale ci are to find: writes it down in tests/tools/reproduced/NAME.tsv, and compares a run
with it for the test "reproduce NAME" (reproduce.sh).

    tests/tools/reproduced.py ICLAB RECIPES [NAME...]           writes down
    tests/tools/reproduced.py --compare ICLAB NAME FOUND FOLDER prints what differs; FOUND: what --json printed

A line is one of

    finding   what, quantity, ours and how far another machine's may be from it, target, tolerance, criterion, evidence,
              source, and the note without its numbers. Ours is "~" where it has no target
    file      a file of numbers, its rows and its columns
    column    a file, a column of it, the mean of its absolute values, and how far another machine's may be from it
    picture   a script of a picture, and the MD5 of it without its numbers
    cell      a scale, and the name of one of its cells
    trainings a scale, how many there are, and the MD5 of their list (iclab reproduce NAME --trainings --scale SCALE)

Each reproduction is run three times: with the widest instructions of this machine, with the base set, and by another
seed. What differs between the first two is of no use to others: "~". Neither are words that differ by the seed.
Compare what changed (git diff) with the paper before you commit it.
"""

import csv
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCALES = ("ci", "short", "full")
SAME = 0.01  # relative: targets and tolerances of two runs
EQUAL = 1e-6  # relative: ours of two runs, where rounding does not matter
ALIKE = 0.2  # relative: ours of two runs, where it does
CURVES = 0.05  # relative: the same for a column of a curve, which nothing judges
NEAR, FAR = 0.05, 0.5  # relative: ours on another machine, where it does not, and where it does
LEAST = 1e-9  # below it a number is rounding
UNKNOWN = "~"
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?|\b(nan|inf)\b")
WRITTEN = pathlib.Path(__file__).resolve().parent / "reproduced"


def without_numbers(text):
    return re.sub(r"#(, #)+", "#", NUMBER.sub("#", text))


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


# ---- A run ----

def findings_of(printed):
    rows = [json.loads(line) for line in printed.splitlines() if '"judgement"' in line]
    return [dict(row, note=without_numbers(row["note"])) for row in rows]


def column_means(rows):
    """The mean absolute value of each column, or None where nothing is a number."""
    for column in itertools.zip_longest(*rows[1:]):
        numbers = []
        for text in column:
            try:
                numbers.append(abs(float(text)))
            except (TypeError, ValueError):
                continue
        numbers = [number for number in numbers if math.isfinite(number)]
        yield sum(numbers) / len(numbers) if numbers else None


def read_folder(folder):
    """Rows, columns, and the columns' means of each file of numbers; the MD5 of each picture's script."""
    files, pictures = {}, {}
    for path in sorted(pathlib.Path(folder).glob("*.csv")):
        if path.name != "findings.csv":
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))
            files[path.name] = (len(rows), max(map(len, rows)), list(column_means(rows)))
    for path in sorted(pathlib.Path(folder).glob("*.gp")):
        pictures[path.name] = md5(without_numbers(path.read_text(encoding="utf-8")))
    return files, pictures


def list_parts(iclab, name):
    for what, scale in itertools.product(("cells", "trainings"), SCALES):
        listed = subprocess.run([iclab, "reproduce", name, f"--{what}", "--scale", scale], capture_output=True,
                                text=True, check=True).stdout
        if what == "cells":
            yield from (["cell", scale, cell] for cell in listed.splitlines())
        else:
            yield [what, scale, str(listed.count("\n")), md5(listed)]


# ---- Writing down ----

def reproduce(iclab, name, device, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [iclab, "reproduce", name, "--scale", "ci", "--device", device, "--seed", str(seed), "--quiet",
                   "--json", "--out", folder]
        result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if result.returncode not in (0, 1):  # 1: something is missed
            raise RuntimeError(f"{name} on {device}: {result.stderr}")
        return findings_of(result.stdout), *read_folder(pathlib.Path(folder, f"{name}-ci"))


def close(one, other, part):
    if one is None or other is None:
        return one is other
    return abs(one - other) <= part * max(abs(one), abs(other))


def text_of(number):
    return "null" if number is None else f"{number:.6g}"


def either(one, other):
    return text_of(one) if close(one, other, SAME) else UNKNOWN


def near(one, other, alike=ALIKE):
    """A number, and how far another machine's may be from it."""
    if not close(one, other, alike):
        return UNKNOWN, UNKNOWN
    part = NEAR if close(one, other, EQUAL) else FAR
    return text_of(one), text_of(max(part * abs(one or 0), LEAST))


def finding_line(one, other, note):
    """A number that nothing judges is not compared: rounding may make another of it, as 120 steps of L-BFGS do."""
    ours = (UNKNOWN, UNKNOWN) if one["target"] is None else near(one["ours"], other["ours"])
    return ["finding", one["what"], one["quantity"], *ours,
            either(one["target"], other["target"]), either(one["tolerance"], other["tolerance"]), one["criterion"],
            one["evidence"], one["source"], note]


def notes_of(runs):
    """The notes that no seed and no device changes."""
    lists = [[row["note"] for row in run] for run in runs]
    if len({len(notes) for notes in lists}) > 1:
        return [UNKNOWN] * len(lists[0])
    return [notes[0] if len(set(notes)) == 1 else UNKNOWN for notes in zip(*lists)]


def file_lines(one, other):
    for name, (rows, columns, means) in one.items():
        if name not in other or other[name][:2] != (rows, columns):
            continue
        yield ["file", name, str(rows), str(columns)]
        for index, (mean, again) in enumerate(zip(means, other[name][2]), 1):
            if mean is not None and again is not None and close(mean, again, CURVES):
                yield ["column", name, str(index), *near(mean, again, CURVES)]


def write_down(iclab, name):
    runs = [reproduce(iclab, name, *how) for how in (("cpu", 1), ("cpu:isa=base", 1), ("cpu", 2))]
    findings, files, pictures = zip(*runs)
    lines = [finding_line(*row) for row in zip(findings[0], findings[1], notes_of(findings), strict=True)]
    lines += file_lines(files[0], files[1])
    lines += [["picture", picture, text if all(other.get(picture) == text for other in pictures) else UNKNOWN]
              for picture, text in pictures[0].items()]
    lines += list_parts(iclab, name)
    text = "".join("\t".join(line) + "\n" for line in lines)
    WRITTEN.joinpath(f"{name}.tsv").write_text(text, encoding="utf-8")
    print(f"{name}: {len(findings[0])} findings, {sum(line[3] == UNKNOWN for line in lines if line[0] == 'finding')} "
          f"of them of no use to others; {text.count(chr(10) + 'column')} columns", flush=True)


# ---- Comparing ----

def far(expected, found, slack):
    """Whether a number that was found is another than the one written down."""
    if UNKNOWN in (expected, slack) or expected == text_of(found):
        return False
    return expected == "null" or found is None or not abs(float(expected) - found) <= slack


def finding_differs(line, row):
    what, quantity, ours, slack, target, tolerance, criterion, evidence, source, note = line
    words = [(what, "what"), (quantity, "quantity"), (criterion, "criterion"), (evidence, "evidence"),
             (source, "source")] + [(note, "note")] * (note != UNKNOWN)
    return (any(word != row[key] for word, key in words)
            or ours != UNKNOWN and far(ours, row["ours"], float(slack) + 6 * (row["standard_error"] or 0))
            or target != UNKNOWN and far(target, row["target"], 0.02 * abs(float(target.replace("null", "0"))) + LEAST)
            or tolerance != UNKNOWN
            and far(tolerance, row["tolerance"], 0.2 * abs(float(tolerance.replace("null", "0"))) + LEAST))


def differences(expected, findings, files, pictures, parts):
    """A line for each thing that is not as it was written down."""
    lines = {kind: [line[1:] for line in expected if line[0] == kind] for kind, *_ in expected}
    for line, row in itertools.zip_longest(lines.pop("finding"), findings):
        if line is None or row is None:
            yield f"{'one more' if line is None else 'no more'}: {line or row}"
        elif finding_differs(line, row):
            yield f"expected {line}"
            yield f"found    {row}"
    written = {line[0] for kind in ("file", "picture") for line in lines.get(kind, [])}
    yield from (f"not written down: {name}" for name in [*files, *pictures] if name not in written)
    for name, rows, columns in lines.pop("file", []):
        if name not in files or [rows, columns] != list(map(str, files[name][:2])):
            yield f"{name}: expected {rows} rows of {columns}, found {files.get(name, 'nothing')}"
    for name, index, mean, slack in lines.pop("column", []):
        means = files.get(name, ((), (), ()))[2]
        found = means[int(index) - 1] if int(index) <= len(means) else None
        if far(mean, found, float(slack)):
            yield f"{name}, column {index}: expected {mean} +- {slack}, found {found}"
    for name, text in lines.pop("picture", []):
        if text != UNKNOWN and pictures.get(name) != text:
            yield f"{name}: without its numbers it is another script than the one written down"
    listed = [[kind, *line] for kind, rest in lines.items() for line in rest]
    yield from (f"no {line}" for line in listed if line not in parts)
    yield from (f"not written down: {line}" for line in parts if line not in listed)


def compare(iclab, name, found, folder):
    expected = [line.split("\t") for line in WRITTEN.joinpath(f"{name}.tsv").read_text("utf-8").splitlines()]
    findings = findings_of(pathlib.Path(found).read_text(encoding="utf-8"))
    for difference in differences(expected, findings, *read_folder(folder), list(list_parts(iclab, name))):
        print(difference)


def main():
    if sys.argv[1:2] == ["--compare"]:
        return compare(*sys.argv[2:])
    iclab, recipes, *names = sys.argv[1:]
    os.environ["ICLAB_RECIPES"] = str(pathlib.Path(recipes).resolve())
    known = subprocess.run([iclab, "reproduce", "--list", "--json"], capture_output=True, text=True, check=True).stdout
    WRITTEN.mkdir(exist_ok=True)
    for name in names or [json.loads(line)["name"] for line in known.splitlines()]:
        write_down(iclab, name)


if __name__ == "__main__":
    main()

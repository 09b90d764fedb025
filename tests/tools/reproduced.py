#!/usr/bin/env python3
"""What reproductions at scale ci are to find: writes it down in tests/tools/reproduced/NAME.tsv, and compares a run
with it for the test "reproduce NAME" (reproduce.sh).

    tests/tools/reproduced.py ICLAB RECIPES [NAME...]           writes down, by a build with -Dperturbed=true
    tests/tools/reproduced.py --compare ICLAB NAME FOUND FOLDER prints what differs; FOUND: what --json printed

A line is one of

    finding   what, quantity, ours, target, tolerance, criterion, evidence, source, and the note without its numbers
    file      a file of numbers, its rows and its columns
    column    a file, the header of a column of it, and the mean of its absolute values
    picture   a script of a picture, and its words: title, axes and curves in their order
    cell      a scale, and the name of one of its cells
    trainings a scale, how many there are, their recipes, and the values that each setting takes

Each reproduction is run six times: with the widest instructions of this machine, with the base set, by another seed,
and three times with other rounding (tools/check perturbed). A number is written down where rounding of two units in the
last place moves it by less than a part in 10^5; another machine's may be a hundred times as far from it. Every other
number is "~" and is not compared: the reproduction's own criteria judge it. Words that differ by the seed are "~", too.
Compare what changed (git diff) with the paper before you commit it.
"""

import csv
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
MOVED = 1e-5  # relative: how far rounding moves a number that is compared, at most
ALLOWED = 100 * MOVED  # relative: how far another machine's may be
UNKNOWN = "~"
WORDS = re.compile(r'(?:set (?:title|[xy]2?label) |\btitle )"([^"]*)"')
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?|\b(nan|inf)\b")
WRITTEN = pathlib.Path(__file__).resolve().parent / "reproduced"


def without_numbers(text):
    return re.sub(r"#(, #)+", "#", NUMBER.sub("#", text))


# ---- A run ----

def findings_of(printed):
    rows = [json.loads(line) for line in printed.splitlines() if '"judgement"' in line]
    return [dict(row, note=without_numbers(row["note"])) for row in rows]


def column_means(rows):
    """The mean absolute value of each column by its header, of those that hold numbers alone."""
    for header, *column in itertools.zip_longest(*rows, fillvalue=""):
        try:
            numbers = [abs(float(text)) for text in column if text != ""]
        except ValueError:
            continue
        if numbers and all(map(math.isfinite, numbers)):
            yield header, sum(numbers) / len(numbers)


def words_of(script):
    """What a picture's script says: its title, its axes and its curves, in their order, without numbers."""
    return without_numbers(" | ".join(WORDS.findall(script)))


def read_folder(folder):
    """Rows, columns, and the columns' means of each file of numbers; the words of each picture."""
    files, pictures = {}, {}
    for path in sorted(pathlib.Path(folder).glob("*.csv")):
        if path.name != "findings.csv":
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))
            files[path.name] = (len(rows), max(map(len, rows)), dict(column_means(rows)))
    for path in sorted(pathlib.Path(folder).glob("*.gp")):
        pictures[path.name] = words_of(path.read_text(encoding="utf-8"))
    return files, pictures


def settings_of(lines):
    """The recipes of a list of trainings, and the values that each setting takes in it."""
    values = {}
    for line in lines:
        _, recipe, settings = line.split("  ", 2)
        for word in [f"recipe={recipe}", *settings.split()]:
            key, _, value = word.partition("=")
            values.setdefault(key, set()).add(value)
    return " ".join(f"{key}={'|'.join(sorted(values[key]))}" for key in sorted(values) if not key.endswith(".seed"))


def list_parts(iclab, name):
    for what, scale in itertools.product(("cells", "trainings"), SCALES):
        listed = subprocess.run([iclab, "reproduce", name, f"--{what}", "--scale", scale], capture_output=True,
                                text=True, check=True).stdout.splitlines()
        if what == "cells":
            yield from (["cell", scale, cell] for cell in listed)
        elif "  " in listed[0]:
            yield [what, scale, str(len(listed)), settings_of(listed)]


# ---- Writing down ----

def reproduce(iclab, name, device, seed, rounding):
    surroundings = dict(os.environ, ICLAB_PERTURB=str(rounding)) if rounding else os.environ
    with tempfile.TemporaryDirectory() as folder:
        command = [iclab, "reproduce", name, "--scale", "ci", "--device", device, "--seed", str(seed), "--quiet",
                   "--json", "--out", folder]
        result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                                env=surroundings)
        if result.returncode not in (0, 1):  # 1: something is missed
            raise RuntimeError(f"{name} on {device}: {result.stderr}")
        return findings_of(result.stdout), *read_folder(pathlib.Path(folder, f"{name}-ci"))


def text_of(number):
    return "null" if number is None else f"{number:.8g}"


def steady(numbers, size=0.0):
    """The first of the numbers as text; "~" where rounding moves them."""
    if None in numbers:
        return text_of(None) if set(numbers) == {None} else UNKNOWN
    size = max(size, *map(abs, numbers))
    return text_of(numbers[0]) if max(numbers) - min(numbers) <= MOVED * size else UNKNOWN


def finding_line(rows, note):
    """`rows`: the same finding by each rounding. A number that nothing judges is not compared."""
    one = rows[0]
    target, tolerance = (steady([row[key] for row in rows]) for key in ("target", "tolerance"))
    ours = UNKNOWN if one["target"] is None else steady([row["ours"] for row in rows])
    return ["finding", one["what"], one["quantity"], ours, target, tolerance, one["criterion"], one["evidence"],
            one["source"], note]


def notes_of(runs):
    """The notes that no seed and no device changes."""
    lists = [[row["note"] for row in run] for run in runs]
    if len({len(notes) for notes in lists}) > 1:
        return [UNKNOWN] * len(lists[0])
    return [notes[0] if len(set(notes)) == 1 else UNKNOWN for notes in zip(*lists)]


def file_lines(runs):
    """`runs`: the files by each rounding."""
    for name, (rows, columns, means) in runs[0].items():
        if any(run.get(name, ())[:2] != (rows, columns) for run in runs):
            continue
        yield ["file", name, str(rows), str(columns)]
        for header in means:
            mean = steady([run[name][2].get(header) for run in runs])
            if mean != UNKNOWN:
                yield ["column", name, header, mean]


def write_down(iclab, name):
    runs = [reproduce(iclab, name, *how)
            for how in (("cpu", 1, 0), ("cpu", 2, 0), ("cpu:isa=base", 1, 0), *(("cpu", 1, k) for k in (1, 2, 3)))]
    findings, files, pictures = zip(*runs)
    rounded = [run for number, run in enumerate(runs) if number != 1]  # all but the one by another seed
    lines = [finding_line(rows, note) for *rows, note in
             zip(*(run[0] for run in rounded), notes_of(findings), strict=True)]
    lines += file_lines([run[1] for run in rounded])
    lines += [["picture", picture, text if all(other.get(picture) == text for other in pictures) else UNKNOWN]
              for picture, text in pictures[0].items()]
    lines += list_parts(iclab, name)
    text = "".join("\t".join(line) + "\n" for line in lines)
    WRITTEN.joinpath(f"{name}.tsv").write_text(text, encoding="utf-8")
    print(f"{name}: {len(findings[0])} findings, {sum(line[3] == UNKNOWN for line in lines if line[0] == 'finding')} "
          f"of them not compared; {sum(line[0] == 'column' for line in lines)} columns", flush=True)


# ---- Comparing ----

def far(expected, found):
    """Whether a number that was found is another than the one written down."""
    if expected == UNKNOWN or expected == text_of(found):
        return False
    return expected == "null" or found is None or not abs(float(expected) - found) <= ALLOWED * abs(float(expected))


def finding_differs(line, row):
    what, quantity, ours, target, tolerance, criterion, evidence, source, note = line
    words = [(what, "what"), (quantity, "quantity"), (criterion, "criterion"), (evidence, "evidence"),
             (source, "source")] + [(note, "note")] * (note != UNKNOWN)
    return (any(word != row[key] for word, key in words) or far(ours, row["ours"]) or far(target, row["target"])
            or far(tolerance, row["tolerance"]))


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
    for name, header, mean in lines.pop("column", []):
        found = files.get(name, ((), (), {}))[2].get(header)
        if far(mean, found):
            yield f"{name}, {header}: expected a mean of {mean}, found {found}"
    for name, words in lines.pop("picture", []):
        if words != UNKNOWN and pictures.get(name) != words:
            yield f"{name}: expected the words {words}, found {pictures.get(name)}"
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
    version = subprocess.run([iclab, "--version"], capture_output=True, text=True, check=True).stdout
    if "perturbed" not in version:
        raise SystemExit(f"{iclab}: expected one of a build with -Dperturbed=true, to see what rounding moves")
    WRITTEN.mkdir(exist_ok=True)
    for name in names or [json.loads(line)["name"] for line in known.splitlines()]:
        write_down(iclab, name)


if __name__ == "__main__":
    main()

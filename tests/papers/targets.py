#!/usr/bin/env python3
"""The test compares what studies judge and draw, which targets.c prints from planted numbers, with
tests/papers/targets.tsv, or writes that file. It prints TAP.

    tests/papers/targets.py PROGRAM                       compares; ICLAB_RECIPES names the recipes
    tests/papers/targets.py PROGRAM --write [NAME...]     writes it anew, or the lines of these studies

A line is one of
    targets  study, scales, quantity, criterion, evidence, source, and "what: target +- tolerance" of each finding
    counts   study, and how many findings there are at ci, short and full
    notes    study, quantity, note without its numbers; how many findings of scale short have it, a sum that tells their
             own numbers and their order, and one for the numbers of the notes
    figure   study, name, title, x, y, and its curves with their sums

Whoever changes a target sees it in the diff of that file, and compares it with the paper.
"""

import math
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

WRITTEN = pathlib.Path(__file__).resolve().parent / "targets.tsv"
SAME = 1e-4  # relative: what two machines' functions of the mathematical library may differ by, and far more
NUMBER = re.compile(r"(?<![A-Za-z0-9_.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![A-Za-z0-9_])")


def sum_of(numbers):
    """The sum of finite numbers, each weighted by its place, so that another order has another sum."""
    return sum(number * (1 + place % 7) for place, number in enumerate(numbers) if math.isfinite(number))


def lines_of(printed):
    """The lines of targets.tsv, and what breaks a law."""
    scales, counts, figures, notes, broken = {}, {}, [], {}, []
    for line in printed.splitlines():
        kind, *row = line.split("\t")
        if kind == "finding":
            study, scale, what, quantity, target, tolerance, criterion, evidence, source = row
            key = (study, quantity, criterion, evidence, source, what, f"{what}: {target} +- {tolerance}")
            scales.setdefault(key, []).append(scale)
        elif kind == "findings":
            counts.setdefault(row[0], []).append(row[2])
        elif kind == "shown":
            study, quantity, ours, note = row
            own, beside = notes.setdefault((study, quantity, NUMBER.sub("#", note)), ([], []))
            own.append(float(ours))
            beside.extend(map(float, NUMBER.findall(note)))
        elif kind == "figure":
            figures.append("\t".join(["figure", *row]))
        else:
            broken.append(": ".join(row))
    groups = {}
    for (study, quantity, criterion, evidence, source, _, text), found in scales.items():
        groups.setdefault((study, " ".join(found), quantity, criterion, evidence, source), []).append(text)
    lines = ["\t".join(["targets", *key, "; ".join(texts)]) for key, texts in groups.items()]
    lines += ["\t".join(["counts", study, *found]) for study, found in counts.items()]
    lines += [
        "\t".join(["notes", *key, f"{len(own)}, {sum_of(own):.5g}, {sum_of(beside):.5g}"])
        for key, (own, beside) in notes.items()
    ]
    return sorted(lines + figures, key=lambda line: line.split("\t")[1]), broken


def is_same(one, other):
    """The same words, and the same numbers but for rounding."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other))
    return all(abs(float(a) - float(b)) <= SAME * max(abs(float(a)), abs(float(b)), 1e-12) for a, b in pairs)


def key_of(line):
    fields = line.split("\t")
    return tuple(fields[: {"targets": 7, "counts": 2, "notes": 4, "figure": 3}[fields[0]]])


def main():
    program, *rest = sys.argv[1:]
    names = [name for name in rest if name != "--write"]
    printed = subprocess.run([program, *names], capture_output=True, text=True, check=False)
    if printed.returncode != 0:
        sys.exit(f"targets.py: {printed.stderr.strip()}")
    lines, broken = lines_of(printed.stdout)
    held = WRITTEN.read_text(encoding="utf-8").splitlines() if WRITTEN.exists() else []
    if "--write" in rest:
        kept = [line for line in held if names and line.split("\t")[1] not in names]
        WRITTEN.write_text("\n".join(sorted(kept + lines, key=lambda line: line.split("\t")[1])) + "\n",
                           encoding="utf-8")
        return
    for flaw in broken:
        tap.ok(False, flaw)
    before = {key_of(line): line for line in held}
    after = {key_of(line): line for line in lines}
    for key in sorted(before.keys() | after.keys(), key=str):
        one, other = before.get(key, "nothing"), after.get(key, "nothing")
        tap.ok(is_same(one, other), " ".join(key), f"written {one}", f"now     {other}")
    tap.done()


main()

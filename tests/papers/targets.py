#!/usr/bin/env python3
"""The test compares what reproductions judge at the scales that no test trains, which planted.c prints, with
tests/papers/targets/NAME.tsv, or writes it down. It prints TAP.

    tests/papers/targets.py PLANTED short|long          compares
    tests/papers/targets.py PLANTED --write [NAME...]   writes down; ICLAB_RECIPES names the recipes

A line is a scale, and what, quantity, target, tolerance, criterion, evidence and source of a finding that is judged.
Numbers that depend on what was measured differ by the seed: "~". Whoever changes a target sees it in the diff.
"""

import itertools
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

UNKNOWN = "~"
SAME = 0.01  # relative
WRITTEN = pathlib.Path(__file__).resolve().parent / "targets"
# These scales, by name, take seconds even so, most of them for sequences that a closed form is measured on; some take
# longer, and nothing compares those.
LONG = {
    "algorithms-distance": ("short",), "classification-burstiness": ("short",), "garg-curves": ("full",),
    "gradientflow-limit": ("short",), "induction-emergence": ("short",), "landscape-noise": ("short",),
    "landscape-smoothness": ("short",), "linearity-score": ("short",), "mesa-depth": ("short", "full"),
    "newton-descent": ("full",), "recall-mad": ("full",), "recall-mqar": ("short",), "state-parity": ("full",),
    "state-words": ("full",), "versatile-layers": ("full",), "versatile-table1": ("full",),
}
LEFT_OUT = {
    "algorithms-distance": ("full",), "classification-burstiness": ("full",),
    "diversity-threshold": ("short", "full"), "electric-flow": ("full",), "fastweight-capacity": ("full",),
    "garg-shifts": ("full",), "gradientflow-limit": ("full",), "induction-emergence": ("full",),
    "induction-toys": ("full",), "landscape-condition": ("short", "full"), "landscape-noise": ("full",),
    "landscape-smoothness": ("full",), "linearity-score": ("full",), "looped-curves": ("full",),
    "looped-exact": ("short", "full"), "newton-descent": ("short",), "recall-mqar": ("full",),
    "recall-onepass": ("short", "full"), "rnn-conversion": ("short", "full"),
    "statisticians-selection": ("short", "full"),
}


def findings_of(planted, name, scale, seed):
    """Rows of six words and two numbers, and what breaks a law."""
    ran = subprocess.run([planted, name, scale, str(seed)], capture_output=True, text=True, check=False)
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    broken = [row[1] for row in rows if row[0] == "broken"]
    if ran.returncode != 0:
        broken.append(f"exit code {ran.returncode}: {ran.stderr.strip()}")
    return [row for row in rows if row[0] != "broken"], broken


def is_near(one, other):
    return one == other or abs(float(one) - float(other)) <= SAME * max(abs(float(one)), abs(float(other)))


def write_down(planted, name):
    lines = []
    for scale in ("short", "full"):
        if scale in LEFT_OUT.get(name, ()):
            continue
        (rows, broken), (others, _) = (findings_of(planted, name, scale, seed) for seed in (1, 2))
        for problem in broken:
            print(f"{name}, {scale}: {problem}")
        by_place = others if [row[1] for row in rows] == [row[1] for row in others] else rows
        for row, other in zip(rows, by_place):
            words = [one if one == another else UNKNOWN for one, another in zip(row, other)]
            words[2:4] = [one if is_near(one, another) else UNKNOWN for one, another in zip(row[2:4], other[2:4])]
            lines.append("\t".join([scale, *words]))
    if lines:
        WRITTEN.mkdir(exist_ok=True)
        (WRITTEN / f"{name}.tsv").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def differs(expected, row):
    if expected is None or row is None or len(expected) != len(row):
        return True
    is_number = (False, False, True, True, False, False, False)
    return any(one != UNKNOWN and not (is_near(one, other) if number else one == other)
               for one, other, number in zip(expected, row, is_number))


def compare(planted, name, scale, lines):
    rows, broken = findings_of(planted, name, scale, 1)
    expected = [line[1:] for line in lines if line[0] == scale]
    told = broken + [f"expected {one}\nfound    {other}" for one, other in itertools.zip_longest(expected, rows)
                     if differs(one, other)]
    tap.ok(not told and expected, f"{name} at scale {scale}: {len(rows)} targets", *told)


def main():
    planted, group, *names = sys.argv[1:]
    if group == "--write":
        for name in names or [path.stem for path in sorted(WRITTEN.parents[1].glob("tools/reproduced/*.tsv"))]:
            write_down(planted, name)
        return
    for path in sorted(WRITTEN.glob("*.tsv")):
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        for scale in dict.fromkeys(line[0] for line in lines):
            if (scale in LONG.get(path.stem, ())) == (group == "long"):
                compare(planted, path.stem, scale, lines)
    tap.done()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The tool keeps which study was last run whole at which scale: tests/papers/last_runs.tsv and, of the same rows, the
table of tools/reference/results.md. As a test it compares the two, and prints TAP.

    tests/papers/last_runs.py COMMAND              compares the page with the file and with the studies of COMMAND
    tests/papers/last_runs.py COMMAND FOLDER...    takes the runs of these folders, as `iclab reproduce --out FOLDER`
                                                   leaves them, into the file and the page
    tests/papers/last_runs.py COMMAND --write      writes the page anew, as after a study was added

COMMAND is the program iclab. A row is a run of all cells of a study: what ran with --only is left out, and so is a run
that is older than the row. Nothing but a run makes a row. Where a scale judges no claim, as targets.tsv tells, the page
calls what was met self-checks, as the command's last line does.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tap

SCALES = ("ci", "short", "full")
COLUMNS = ("name", "scale", "date", "commit", "seed", "device", "device_name", "met", "judged", "seconds")
BEGIN, END = "<!-- last runs: tests/papers/last_runs.py writes this table -->", "<!-- end of last runs -->"


def row_of(result):
    """The row of a result.json; None if it is no whole run of a study."""
    summary = result.get("summary", {})
    words = result.get("command_line", "").split()
    if result.get("command") != "reproduce" or "judged" not in summary:
        return None
    if any(word == "--only" or word.startswith("--only=") for word in words):
        return None
    return dict(zip(COLUMNS, map(str, (
        summary["reproduction"], summary["scale"], result["date"], result["commit"], summary["seed"], result["device"],
        result["device_name"], summary["judged"] - summary["missed"], summary["judged"],
        f"{summary['seconds']:.3g}"))))


def read(path):
    """The rows of the file, by name and scale."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
    rows = [dict(zip(COLUMNS, line.split("\t"))) for line in lines]
    return {(row["name"], row["scale"]): row for row in rows}


def take(rows, folders):
    """Adds the runs below the folders to the rows, each unless its row is of a later one."""
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob("*/result.json")):
            row = row_of(json.loads(path.read_text(encoding="utf-8")))
            if row:
                key = row["name"], row["scale"]
                rows[key] = max(rows.get(key, row), row, key=lambda one: one["date"])


def text_of(rows):
    """The text of the file."""
    ordered = sorted(rows.values(), key=lambda row: (row["name"], SCALES.index(row["scale"])))
    lines = ["\t".join(COLUMNS), *("\t".join(row[column] for column in COLUMNS) for row in ordered)]
    return "\n".join(lines) + "\n"


def read_self_checks(path):
    """The studies and scales whose judged targets are all computed, while others judge the claim at another scale."""
    evidence = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split("\t")
        for scale in words[2].split() if words[0] == "targets" else []:
            evidence.setdefault(words[1], {}).setdefault(scale, set()).add(words[5])
    return {(name, scale) for name, scales in evidence.items() for scale, known in scales.items()
            if known == {"computed"} != set().union(*scales.values())}


def table_of(rows, names, self_checks):
    """The table of the page: a line for each study, and what the letters of its cells stand for."""
    places = sorted({(row["device"], row["device_name"], row["commit"]) for row in rows.values()})
    letters = {place: chr(ord("a") + number) for number, place in enumerate(places)}
    lines = ["| name | " + " | ".join(f"`{scale}`" for scale in SCALES) + " |", "| --- " * (1 + len(SCALES)) + "|"]
    for name in names:
        cells = []
        for scale in SCALES:
            row = rows.get((name, scale))
            place = row and letters[row["device"], row["device_name"], row["commit"]]
            kind = " self-checks" if (name, scale) in self_checks else ""
            cells.append(f"{row['met']} of {row['judged']}{kind}, {row['date'][:10]} ({place})" if row else "")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    lines.append("")
    lines += [f"* ({letter}) `{device}` on {name}, commit {commit}"
              for (device, name, commit), letter in letters.items()]
    return "\n".join(lines)


def split_page(text):
    """The page before, within and behind the table."""
    before, found, rest = text.partition(BEGIN)
    within, ended, behind = rest.partition(END)
    if not found or not ended:
        sys.exit(f"last_runs.py: the page has no lines {BEGIN} and {END}")
    return before, within, behind


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--file", type=pathlib.Path, default=HERE / "last_runs.tsv")
    parser.add_argument("--targets", type=pathlib.Path, default=HERE / "targets.tsv")
    parser.add_argument("--page", type=pathlib.Path, default=HERE.parents[1] / "tools" / "reference" / "results.md")
    asked = parser.parse_intermixed_args()
    listed = subprocess.run([asked.command, "reproduce", "--list", "--json"], capture_output=True, text=True,
                            check=True)
    names = [json.loads(line)["name"] for line in listed.stdout.splitlines()]
    rows = read(asked.file)
    take(rows, asked.folders)
    before, within, behind = split_page(asked.page.read_text(encoding="utf-8"))
    table = "\n\n" + table_of(rows, names, read_self_checks(asked.targets)) + "\n\n"
    if asked.folders:
        asked.file.write_text(text_of(rows), encoding="utf-8")
    if asked.folders or asked.write:
        asked.page.write_text(before + BEGIN + table + END + behind, encoding="utf-8")
        return
    tap.ok(asked.file.exists() and asked.file.read_text(encoding="utf-8") == text_of(rows),
           "the file is as it is written")
    for name, scale in sorted(rows):
        tap.ok(name in names, f"{name}, {scale}: is a study")
    tap.ok(within == table, "the page has the rows of the file", "last_runs.py COMMAND --write makes it anew")
    tap.done()


main()

#!/usr/bin/env python3
"""The test gives last_runs.py runs of a planted command, and reads what it makes of them. It prints TAP."""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tap

COMMAND = """#!/bin/sh
printf '{"name":"one"}\\n{"name":"two"}\\n'
"""
PAGE = """Before.

<!-- last runs: tests/papers/last_runs.py writes this table -->
<!-- end of last runs -->

Behind.
"""
# At scale ci the study "one" judges its claim, and "two", "three" judge by what is computed, "three" at all scales.
TARGETS = """targets\tone\tci short\tloss\tat most\tcomputed\tbound\tL1: 0 +- 1
targets\tone\tci\tloss\tat most\tstated\tfigure 1\tL2: 0 +- 1
targets\ttwo\tci short\tloss\tat most\tcomputed\tbound\tL1: 0 +- 1
targets\ttwo\tshort\tloss\tat most\tinferred\tfigure 1\tL2: 0 +- 1
targets\tthree\tci short\tloss\tat most\tcomputed\tbound\tL1: 0 +- 1
counts\ttwo\t2\t3\t3
"""


def plant(folder, name, date, judged, missed, command_line="iclab reproduce all", scale="ci"):
    """A run, as iclab leaves it."""
    place = folder / f"{name}-{scale}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "result.json").write_text(json.dumps({
        "command": "reproduce", "command_line": command_line, "date": date + "T01:02:03Z", "commit": "c" + date[-2:],
        "device": "cpu", "device_name": "Machine", "rows": [],
        "summary": {"reproduction": name, "scale": scale, "seed": 1, "judged": judged, "missed": missed,
                    "seconds": 1.23456}}))


def run(place, *arguments):
    return subprocess.run([sys.executable, HERE / "last_runs.py", place / "command", "--file", place / "file", "--page",
                           place / "page", "--targets", place / "targets", *arguments], capture_output=True, text=True,
                          check=False)


with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    (work / "command").write_text(COMMAND)
    (work / "command").chmod(0o755)
    (work / "page").write_text(PAGE)
    (work / "targets").write_text(TARGETS)
    plant(work / "first", "one", "2026-01-02", 9, 2)
    plant(work / "first", "two", "2026-01-02", 5, 0, "iclab reproduce two --only L1")
    tap.ok(run(work, work / "first").returncode == 0, "runs are taken")
    rows = (work / "file").read_text().splitlines()
    tap.ok(rows[1:] == ["one\tci\t2026-01-02T01:02:03Z\tc02\t1\tcpu\tMachine\t7\t9\t1.23"],
           "a row has the run; what ran with --only has none", *rows)
    page = (work / "page").read_text()
    tap.ok(page.startswith("Before.\n") and page.endswith("\n\nBehind.\n"), "the rest of the page stays", page)
    tap.ok("| `one` | 7 of 9, 2026-01-02 (a) |  |  |\n| `two` |  |  |  |\n\n* (a) `cpu` on Machine, commit c02\n"
           in page, "the page has a line for each study", page)
    plant(work / "second", "one", "2026-01-01", 9, 9)
    plant(work / "second", "two", "2026-01-03", 4, 1, scale="short")
    run(work, work / "second")
    page = (work / "page").read_text()
    tap.ok("| `one` | 7 of 9, 2026-01-02 (a) |  |  |\n| `two` |  | 3 of 4, 2026-01-03 (b) |  |\n" in page,
           "an older run changes nothing, another scale has a cell of its own", page)
    tap.ok(run(work).returncode == 0, "the page is that of the file")
    (work / "page").write_text(page.replace("7 of 9", "9 of 9"))
    tap.ok("not ok 4 - the page has the rows of the file" in run(work).stdout, "a page that says otherwise fails")
    run(work, "--write")
    tap.ok((work / "page").read_text() == page, "--write makes it anew")
    (work / "file").write_text((work / "file").read_text().replace("one\t", "zero\t"))
    ran = run(work)
    tap.ok("not ok 3 - zero, ci: is a study" in ran.stdout and ran.returncode == 1, "a row of no study fails",
           ran.stdout)
    (work / "file").unlink()
    (work / "command").write_text(COMMAND.replace('\\n\'', '\\n{"name":"three"}\\n\''))
    for name in ("two", "three"):
        plant(work / "third", name, "2026-01-03", 4, 1)
    plant(work / "third", "one", "2026-01-04", 2, 1, scale="short")
    run(work, work / "first", work / "second", work / "third")
    for line in ("one` | 7 of 9, 2026-01-02 (a) | 1 of 2 self-checks, 2026-01-04 (c)",
                 "two` | 3 of 4 self-checks, 2026-01-03 (b) | 3 of 4, 2026-01-03 (b)",
                 "three` | 3 of 4, 2026-01-03 (b)"):
        tap.ok(f"| `{line} |" in (work / "page").read_text(), f"self-checks are told: {line}")
tap.done()

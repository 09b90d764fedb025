#!/usr/bin/env python3
"""The tool runs every reproduction with several fresh seeds, and says of each finding in how many of them its target
was met. It prints TAP, and behind it a table for tools/reference/results.md.

    tests/papers/seeds.py COMMAND SCALE FOLDER [SEED...]

COMMAND is the program iclab, and the seeds are 101, 202 and 303 if none are given. FOLDER/seed-N keeps what seed N
trained, so that the same line goes on after an interruption. A check fails where a finding was met in fewer than two
of three seeds, and one fails where fewer than 98 % of the findings were met in all of them.
"""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

LEAST_SHARE = 0.98  # of the findings that every seed meets
SEED = re.compile(r"\bseed \d+")


def results_of(folder):
    """The result.json of every study under a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/result.json"))]


def judged_findings(results):
    """(study, what, quantity, place among equals) of each judged finding, and whether its target was met."""
    found = {}
    for result in results:
        for row in result["rows"]:
            if row.get("judgement") in ("met", "missed"):
                name = (row["reproduction"], SEED.sub("seed", row["what"]), SEED.sub("seed", row["quantity"]))
                place = sum(key[:3] == name for key in found)
                found[(*name, place)] = row["judgement"] == "met"
    return found


def page_row(study, results):
    """The study's row of the table: where and when it ran last, and what was met of what was judged, by seed."""
    last = max(results, key=lambda result: result["date"])
    verdicts = []
    for result in results:
        summary = result["summary"]
        verdicts.append(f"{summary['judged'] - summary['missed']} of {summary['judged']}")
    where = f"{last['date'][:10]} | {last['device_name']}, `{last['device']}` | {last['commit']}"
    return f"| `{study}` | {last['summary']['scale']} | {where} | {', '.join(verdicts)} |"


def main(command, scale, folder, *seeds):
    seeds = seeds or ("101", "202", "303")
    by_seed = []
    for seed in seeds:
        place = pathlib.Path(folder) / f"seed-{seed}"
        place.mkdir(parents=True, exist_ok=True)
        ran = subprocess.run([command, "reproduce", "all", "--scale", scale, "--seed", seed, "--quiet", "--out", place],
                             stdout=subprocess.DEVNULL, check=False)
        tap.ok(ran.returncode in (0, 1), f"seed {seed}: all studies come to their end", f"exit code {ran.returncode}")
        by_seed.append(results_of(place))
    seen = {}
    for results in by_seed:
        for name, was_met in judged_findings(results).items():
            seen.setdefault(name, []).append(was_met)
    always = sum(all(met) for met in seen.values())
    for (study, what, quantity, _), met in seen.items():
        if not all(met):
            tap.ok(3 * sum(met) >= 2 * len(met), f"{study}: {what}, {quantity}: met in {sum(met)} of {len(met)} seeds")
    tap.ok(seen and always >= LEAST_SHARE * len(seen), f"{always} of {len(seen)} findings are met by every seed")
    print("\n# | name | scale | date | device | commit | met of judged, seeds " + ", ".join(seeds) + " |")
    for study in dict.fromkeys(result["summary"]["reproduction"] for results in by_seed for result in results):
        print("# " + page_row(study, [result for results in by_seed for result in results
                                      if result["summary"]["reproduction"] == study]))
    tap.done()


main(*sys.argv[1:])

#!/usr/bin/env python3
"""Adds up TAP results for tools/check.

tally.py [--allow REGEX]... [--used TEXT] LOG...

Each LOG is a Meson testlog.json, or a file of plain TAP. Prints every failure and every refused skip to stderr and
"PASSED FAILED SKIPPED" to stdout. A skip that no --allow matches (against "test: description # reason") counts as
failed: something that was to run did not. --used demands that at least one test says it ran on a device whose line
holds TEXT.
"""

import argparse
import json
import os
import re
import sys

POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*-?\s*(.*?)(?:\s*#\s*(skip|todo)\b\s*(.*))?$", re.IGNORECASE)


def complain(text):
    print("tally: " + text, file=sys.stderr)


class Tally:
    def __init__(self, allowed):
        self.allowed = [re.compile(pattern) for pattern in allowed]
        self.passed = self.failed = self.skipped = 0
        self.output = ""

    def fail(self, text):
        self.failed += 1
        complain(text)

    def skip(self, text):
        if any(pattern.search(text) for pattern in self.allowed):
            self.skipped += 1
        else:
            self.fail("skipped, which is not expected here: " + text)

    def points(self, name, output):
        """Counts the test points of one TAP stream; returns how many there were and how many of them failed."""
        seen = failed = 0
        self.output += output
        for line in output.splitlines():
            if re.match(r"1\.\.0\s*#\s*skip", line, re.IGNORECASE):
                seen += 1
                self.skip(f"{name}: {line[4:].strip()}")
                continue
            point = POINT.match(line)
            if not point:
                continue
            seen += 1
            bad, _, description, directive, reason = point.groups()
            if directive and directive.lower() == "skip":
                self.skip(f"{name}: {description} # {reason}")
            elif bad:
                failed += 1
                self.fail(f"{name}: {description}")
            else:
                self.passed += 1
        return seen, failed

    def meson_test(self, record):
        """Meson's verdict may be worse than the points: a crash, a time-out, a plan that was not kept."""
        name, result, output = record["name"], record["result"], record.get("stdout") or ""
        if not re.search(r"^(1\.\.\d|(not )?ok\b)", output, re.MULTILINE):
            if result == "OK":
                self.passed += 1
            elif result == "SKIP":
                self.skip(f"{name}: the whole test")
            else:
                self.fail(f"{name}: {result}")
            return
        _, failed = self.points(name, output)
        if result not in ("OK", "SKIP", "EXPECTEDFAIL") and not failed:
            self.fail(f"{name}: {result} (exit code {record.get('returncode')})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--used")
    parser.add_argument("logs", nargs="+")
    arguments = parser.parse_args()
    tally = Tally(arguments.allow)
    for path in arguments.logs:
        if not os.path.exists(path):
            tally.fail(f"{path}: no test ran")
            continue
        with open(path, encoding="utf-8", errors="replace") as log:
            text = log.read()
        if path.endswith(".json"):
            records = [json.loads(line) for line in text.splitlines() if line.strip()]
            if not records:
                tally.fail(f"{path}: no test ran")
            for record in records:
                tally.meson_test(record)
        elif not tally.points(path, text)[0]:
            tally.fail(f"{path}: no test ran")
    if arguments.used and not re.search(
        r"^# device .*" + re.escape(arguments.used), tally.output, re.MULTILINE | re.IGNORECASE
    ):
        tally.fail(f"no test ran on {arguments.used}")
    print(tally.passed, tally.failed, tally.skipped)


if __name__ == "__main__":
    main()

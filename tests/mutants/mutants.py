#!/usr/bin/env python3
"""Semantic mutation of the C sources: plants small faults, one at a time, and counts how many the tests notice.

A sample of changes is drawn by a seed and spread over the rooms of src/ and the command. Each is built in a copy of the
tree and given to the tests that reach it, as coverage tells, the quickest and most specific ones first, until one
fails. What does not compile, what gives the same object code, and what tests/mutants/equivalent lists is drawn again.
Printed are every survivor and the score of each room. Everything is kept in build-check/mutants.
"""

import argparse
import json
import os
import pathlib
import sys
import threading

import changes
import reach
import sample
import trial

GOAL, ROOM_GOAL = 0.88, 0.80
COUNTED = ("caught", "survived", "unreached")


def read_equivalent(path):
    """[(file, before, after, reason)] of entries that are parted by blank lines:

        FILE
        - the line
        + what it becomes
        the reason
    """
    entries = []
    blocks = [[line for line in block.splitlines() if not line.startswith("#")]
              for block in path.read_text(encoding="utf-8").split("\n\n")] if path.is_file() else []
    for lines in filter(None, blocks):
        if len(lines) < 4 or not lines[1].startswith("- ") or not lines[2].startswith("+ "):
            raise ValueError(f"{path}: expected FILE, '- line', '+ line' and a reason, not: {lines[0]}")
        entries.append((lines[0], lines[1][2:], lines[2][2:], " ".join(lines[3:])))
    return entries


def key_of(change):
    return [change.file, change.start, change.before, change.after]


class Session:
    def __init__(self, options):
        self.options = options
        self.root = pathlib.Path(options.root).resolve()
        self.folder = pathlib.Path(options.folder or self.root / "build-check/mutants").resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = threading.Lock()
        self.results = []
        name = "-".join(filter(None, [f"sample-{options.sample}", f"seed-{options.seed}", options.room, options.file]))
        self.path = self.folder / f"{name.replace('/', '_')}.jsonl"

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    # ---- Drawing ----

    def draw(self):
        # All that follows is of one copy, whatever is edited meanwhile.
        self.reach = reach.Reach(self.root, self.folder)
        self.reach.tree.synchronize()
        self.copy = self.reach.tree.source
        self.rooms = sample.read_changes(self.copy, sample.files_of(self.copy))
        everything = {(change.file, change.before, change.after) for units in self.rooms.values()
                      for found in units.values() for change in found}
        self.listed = {}
        for file, before, after, reason in read_equivalent(pathlib.Path(self.options.equivalent)):
            if (file, before, after) not in everything:
                raise ValueError(f"{self.options.equivalent}: no change is this any more:\n"
                                 f"{file}\n- {before}\n+ {after}")
            self.listed[file, before, after] = reason
        chosen = {room: {unit: found for unit, found in units.items() if self.options.file in (None, unit[0])}
                  for room, units in self.rooms.items() if self.options.room in (None, room)}
        chosen = {room: units for room, units in chosen.items() if units}
        if not chosen:
            raise ValueError(f"no change to draw; rooms: {', '.join(sorted(self.rooms))}")
        self.wanted = sample.share({room: len(units) for room, units in chosen.items()}, self.options.sample)
        self.orders = {room: sample.order(units, f"{self.options.seed} {room}") for room, units in chosen.items()}
        self.under_way = dict.fromkeys(chosen, 0)
        self.counted = dict.fromkeys(chosen, 0)

    def next_change(self):
        """The next change of the sample and what is known of it, or None where the sample is drawn: a room's first
        changes that count, in its order, whatever the number of jobs."""
        with self.lock:
            for room in sorted(self.orders, key=lambda room: self.counted[room] / max(1, self.wanted[room])):
                if self.counted[room] + self.under_way[room] < self.wanted[room]:
                    change = next(self.orders[room], None)
                    if change is None:
                        self.wanted[room] = self.counted[room] + self.under_way[room]
                        continue
                    self.under_way[room] += 1
                    return change
        return None

    def finish(self, change, result, is_new):
        room = changes.room_of(change.file)
        entry = {"key": key_of(change), "room": room, "line": change.line, "kind": change.kind, "unit": change.unit,
                 **result}
        with self.lock:
            self.under_way[room] -= 1
            self.counted[room] += result["verdict"] in COUNTED
            self.results.append(entry)
            if is_new:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
                self.tried.save()
            if is_new and result["verdict"] in COUNTED:
                print(f"{sum(self.counted.values()):4} {result['verdict']:9} {change.file}:{change.line} "
                      f"[{change.kind}] {result.get('by', '')}", flush=True)

    # ---- Trying ----

    def read_kept(self):
        kept = {}
        if self.path.is_file() and (self.options.resume or self.options.retry):
            for line in self.path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                kept[tuple(entry["key"])] = {name: value for name, value in entry.items()
                                             if name not in ("key", "room", "line", "kind", "unit")}
            if self.options.retry:
                kept = {key: result for key, result in kept.items()
                        if result["verdict"] not in ("survived", "unreached")}
        elif self.path.is_file():
            self.path.rename(self.path.with_suffix(".jsonl.old"))
        return kept

    def work(self, number, kept, totals):
        tried = None
        try:
            while (change := self.next_change()) is not None:
                reason = self.listed.get((change.file, change.before, change.after))
                known = {"verdict": "listed", "why": reason} if reason else kept.get(tuple(key_of(change)))
                if known is None and tried is None:
                    tried = trial.Trial(self.copy, self.folder, number, self.tried, self.say)
                    tried.prepare()
                result = known or tried.try_change(change, self.reach, totals, self.options.seconds)
                self.finish(change, result, known is None)
        except BaseException as error:  # shown by run, when all have ended
            self.failure = error
            raise

    def run(self):
        self.draw()
        if self.options.list:
            for room, units in self.orders.items():
                for _, change in zip(range(self.wanted[room]), units):
                    print_change(change._asdict())
            return 0
        self.failure = None
        if not self.options.collected:
            self.reach.collect(self.options.jobs, self.say)
        self.tried = trial.Tried(self.folder)
        kept, totals = self.read_kept(), self.reach.totals()
        workers = [threading.Thread(target=self.work, args=(number, kept, totals), daemon=True)
                   for number in range(self.options.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if self.failure:
            raise self.failure
        return self.report()

    # ---- Telling ----

    def report(self):
        counted = [entry for entry in self.results if entry["verdict"] in COUNTED]
        survivors = sorted((entry for entry in counted if entry["verdict"] != "caught"),
                           key=lambda entry: (entry["key"][0], entry["line"]))
        print()
        for entry in survivors:
            told = "no test is seen to reach it" if entry["verdict"] == "unreached" else \
                f"{entry['tests']} tests passed" + (f", {entry['left']} left out for time" if entry["left"] else "")
            print_change({"file": entry["key"][0], "before": entry["key"][2], "after": entry["key"][3], **entry}, told)
        print(f"{'room':18} {'changes':>7} {'caught':>7}")
        below = []
        for room in sorted({entry["room"] for entry in counted}):
            caught, count = score([entry for entry in counted if entry["room"] == room])
            below += [room] if caught < ROOM_GOAL * count else []
            print(f"{room:18} {count:7} {100 * caught / count:5.0f} %")
        caught, count = score(counted)
        part = caught / count if count else 0
        error = (part * (1 - part) / count) ** 0.5 if count else 0
        number = {verdict: sum(entry["verdict"] == verdict for entry in self.results)
                  for verdict in ("refused", "equivalent", "listed")}
        hung = sum(entry.get("hung", False) for entry in counted)
        print(f"{caught} of {count} caught, {100 * part:.1f} % +- {100 * error:.1f} %, {hung} of them by their time; "
              f"drawn again: {number['refused']} that did not compile, {number['equivalent']} with the same object "
              f"code, {number['listed']} listed")
        if part < GOAL or below:
            print(f"goal: {100 * GOAL:.0f} %, and {100 * ROOM_GOAL:.0f} % in each room"
                  + (f"; below: {', '.join(below)}" if below else ""))
        return int(part < GOAL or bool(below))


def score(entries):
    return sum(entry["verdict"] == "caught" for entry in entries), len(entries)


def print_change(entry, told=""):
    print(f"{entry['file']}:{entry['line']}: {entry['kind']}, in {entry['unit']}{': ' + told if told else ''}\n"
          f"  - {entry['before']}\n  + {entry['after']}")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(prog="tools/check mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="changes to try (default: 200)")
    parser.add_argument("--seed", default="1", metavar="S", help="what the sample is drawn by (default: 1)")
    parser.add_argument("--room", metavar="ROOM", help="changes of this room alone: core, backend/opencl, tools, ...")
    parser.add_argument("--file", metavar="F", help="changes of this file alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="J", help="at a time (default: processors)")
    parser.add_argument("--seconds", type=float, default=60, metavar="T",
                        help="of tests for one change, by the time they took before; then it survived (default: 60)")
    parser.add_argument("--resume", action="store_true", help="go on with a sample that was begun")
    parser.add_argument("--retry", action="store_true", help="the same, and try its survivors once more")
    parser.add_argument("--collected", action="store_true",
                        help="use the coverage that is there, also where tests have changed since")
    parser.add_argument("--list", action="store_true", help="print what would be tried first, and try nothing")
    parser.add_argument("--root", default=here.parent.parent, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--equivalent", default=here / "equivalent", help=argparse.SUPPRESS)
    try:
        return Session(parser.parse_args()).run()
    except (ValueError, RuntimeError) as error:
        print(f"tools/check mutants: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""tools/check mutants, tested with a small program: faults that its tests notice, and faults that they do not.

Usage: test_mutants.py WORK_FOLDER; prints TAP.
"""

import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

try:
    import changes
    import reach
    import sample
    import suite
    import trial
except ImportError:
    print("1..0 # SKIP tree-sitter and tree-sitter-c are not installed")
    sys.exit(0)

# A change, and what must come of it: verdict and, where it is caught, the test.
EXPECTED = [
    ("src/below/sum.c", "arithmetic", "total += values[i];", "total -= values[i];", "caught", "sum"),
    ("src/below/sum.c", "off by one", "for (size_t i = 0; i < count; i++)",
     "for (size_t i = 0; i < count - 1; i++)", "caught", "sum"),
    ("src/below/sum.c", "comparison", "if (values[i] > 0)", "if (values[i] >= 0)", "survived", None),
    ("src/below/sum.c", "arithmetic", "return value + 7;", "return value - 7;", "unreached", None),
    ("src/above/mean.c", "arguments swapped", "return ratio(", None, "none", None),
    ("src/above/mean.c", "arguments swapped", "*result = ratio(sum(own, count * EACH), (double)count);",
     "*result = ratio((double)count, sum(own, count * EACH));", "caught", "mean"),
    ("src/above/mean.c", "arithmetic", "*result = ratio(sum(own, count * EACH), (double)count);",
     "*result = ratio(sum(own, count / EACH), (double)count);", "equivalent", None),
    ("src/above/mean.c", "comparison", "for (size_t i = 0; i < count; i++) /* a zero loses its sign */",
     "for (size_t i = 0; i <= count; i++) /* a zero loses its sign */", "caught", "mean"),
    ("src/above/mean.c", "condition dropped", "if (count == 0)", "if (0 && (count == 0))", "survived", None),
    ("src/above/mean.c", "statement dropped", "free(own);", ";", "caught", "mean"),
    ("tools/mean.c", "constant", 'printf("%s than 1: %g\\n", result > 1 ? "more" : "less", result);',
     'printf("%s than 1: %g\\n", result > 1 ? "less" : "less", result);', "caught", "mean"),
    ("tools/mean.c", "constant", 'printf("%s than 1: %g\\n", result > 1 ? "more" : "less", result);',
     'printf("%s than 1: %g\\n", result > 1 ? "more" : "more", result);', "survived", None),
    ("src/below/sum.c", "arithmetic", "double *made = malloc(count * sizeof *made);",
     "double *made = malloc(count / sizeof *made);", "caught", "mean"),
    ("src/above/names.c", "constant", 'static const entry row = {"most", 8};',
     'static const entry row = {"most", 9};', "caught", "names"),
    ("tools/mean.c", "comparison", "for (int i = 1; i < count && given < MOST; i++)",
     "for (int i = 1; i <= count && given < MOST; i++)", "caught", "mean"),
    ("tools/mean.c", "arithmetic", "for (int i = 1; i < count && given < MOST; i++)",
     "for (int i = 1; i < count && given < MOST; i--)", "caught", "mean"),
]


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, title, found=""):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {title}")
        if not good:
            print(f"# {found}")

    def finish(self):
        print(f"1..{self.count}")
        return int(self.failed > 0)


def command(work, *words):
    return subprocess.run([sys.executable, HERE / "mutants.py", "--root", work / "program", "--folder", work / "kept",
                           "--jobs", "1", *words], capture_output=True, text=True, check=False)


def check_changes(tap, work):
    root = work / "program"
    rooms = sample.read_changes(root, sample.files_of(root))
    every = [change for units in rooms.values() for found in units.values() for change in found]
    tap.ok(set(rooms) == {"below", "above", "tools"}, "rooms are the folders of src/, and tools", set(rooms))
    covered = reach.Reach(root, work / "kept")
    covered.tree.synchronize()
    covered.collect(2, lambda text: print(f"# {text}"))
    with open(covered.tree.source / "src/below/sum.c", "a", encoding="utf-8") as file:
        file.write("int sum_that_none_calls(void);\nint sum_that_none_calls(void)\n{\n    return 1;\n}\n")
    again = [covered.tree.ninja(jobs=2).stdout]
    covered.collect(2, again.append)
    tap.ok(len(again) == 1 and "Linking" in again[0], "another library is no other test", again)
    covered.tree.synchronize()
    one = trial.Trial(root, work / "kept", 0, trial.Tried(work), lambda text: print(f"# {text}"))
    one.prepare()
    before = (root / "src/below/sum.c").read_bytes()
    sanitized = set()
    for file, kind, old, new, verdict, by in EXPECTED:
        found = [change for change in every if (change.file, change.kind, change.before) == (file, kind, old)
                 and new in (None, change.after)]
        if verdict == "none":
            tap.ok(not found, f"{file}: nothing like {old}", found)
            continue
        if not found:
            tap.ok(False, f"{file}: a change of {old}", [change.after for change in every if change.file == file])
            continue
        result = one.try_change(found[0], covered, covered.totals(), 60)
        tap.ok(result["verdict"] == verdict and result.get("by") == by, f"{verdict}: {old} -> {new}", result)
        sanitized |= {old} if result.get("sanitized") else set()
    tap.ok(sanitized == {"for (size_t i = 0; i < count; i++) /* a zero loses its sign */"},
           "sanitizers see a write out of bounds that nothing else shows", sanitized)
    tap.ok((one.tree.source / "src/below/sum.c").read_bytes() == before, "the tree is what it was")
    survivor = next(entry for entry in EXPECTED if entry[4] == "survived")
    kept, covered.tests["mean"]["skips"] = covered.tests["mean"]["skips"], -1
    change = next(change for change in every if (change.file, change.kind, change.before) == survivor[:3])
    result = one.try_change(change, covered, covered.totals(), 60)
    tap.ok(result["verdict"] == "survived", "a check that is skipped without the change, too, notices nothing", result)
    covered.tests["mean"]["skips"] = kept
    broken = next(change for change in every if change.file == "src/below/sum.c")
    result = one.try_change(broken._replace(replacement=b"}"), covered, covered.totals(), 60)
    tap.ok(result["verdict"] == "refused", "refused: what does not compile", result)


def check_sampling(tap, work):
    root = work / "program"
    rooms = sample.read_changes(root, sample.files_of(root))

    def drawn(seed):
        return [list(sample.order(units, f"{seed} {room}")) for room, units in sorted(rooms.items())]

    tap.ok(drawn(1) == drawn(1), "the same seed draws the same")
    tap.ok(drawn(1) != drawn(2), "another seed draws something else")
    sizes = {room: len(units) for room, units in rooms.items()}
    tap.ok(all(sum(sample.share(sizes, count).values()) == count for count in (9, 20, 200)),
           "a sample's parts are as many as it", sizes)
    first = next(iter(drawn(1)))
    units = len({change.unit for change in first})
    tap.ok(len({change.unit for change in first[:units]}) == units, "every function comes before one comes again")


def check_command(tap, work):
    listed = HERE / "program/equivalent"
    room = ["--room", "below", "--equivalent", listed]
    first = command(work, "--sample", "3", *room)
    kept = work / "kept/sample-3-seed-1-below.jsonl"
    lines = kept.read_text(encoding="utf-8") if kept.is_file() else ""
    results = [json.loads(line) for line in lines.splitlines()]
    counted = [entry for entry in results if entry["verdict"] in ("caught", "survived", "unreached")]
    tap.ok(first.returncode in (0, 1) and len(counted) == 3, "a sample of 3", first.stdout + first.stderr)
    again = command(work, "--sample", "3", "--resume", *room)
    scores = [shown.stdout.splitlines()[-2:] for shown in (first, again)]
    tap.ok(kept.read_text(encoding="utf-8") == lines and scores[0] == scores[1],
           "resumed, nothing is tried again, and the score is the same", again.stdout + again.stderr)
    caught = sum(entry["verdict"] == "caught" for entry in counted)
    tap.ok(f"{caught} of 3 caught" in first.stdout, "the score counts what was caught", first.stdout)
    shown = first.stdout.count("\n  - ")
    tap.ok(shown == 3 - caught, "and the others are shown", first.stdout)
    tap.ok(first.returncode == int(caught < 3), "below the goal it exits with 1", first.returncode)
    stale = work / "stale"
    stale.write_text(listed.read_text(encoding="utf-8").replace("values[i] > 0", "values[i] > 5"), encoding="utf-8")
    refused = command(work, "--list", "--equivalent", stale)
    tap.ok(refused.returncode == 2 and "values[i] > 5" in refused.stderr,
           "an entry of the list that no change is any more is refused", refused.stderr)
    stale.write_text("src/below/sum.c\n- if (values[i] > 0)\n+ if (values[i] >= 0)\n", encoding="utf-8")
    refused = command(work, "--list", "--equivalent", stale)
    tap.ok(refused.returncode == 2 and "reason" in refused.stderr, "and one without a reason", refused.stderr)
    refused = command(work, "--list", "--room", "cellar", "--equivalent", listed)
    tap.ok(refused.returncode == 2 and "below" in refused.stderr, "a room that is not there is refused", refused.stderr)


def check_files(tap):
    wide = [file for file in sample.files_of(HERE.parent.parent, {"avx512f"}) if "_avx512" in file]
    rest = sample.files_of(HERE.parent.parent, {"avx2"})
    tap.ok(wide and not set(wide) & set(rest) and len(rest) > 100, "nothing that this processor cannot run", wide)


def check_judge(tap):
    cases = [(0, "ok 1 - a\n1..1\n", ("passed", 0)), (0, "ok 1 - a\nnot ok 2 - b\n1..2\n", ("failed", 0)),
             (1, "ok 1 - a\n1..1\n", ("failed", 0)), (0, "ok 1 - a\n", ("failed", 0)),
             (0, "ok 1 # SKIP none\n1..1\n", ("passed", 1)), (0, "1..0 # SKIP none\n", ("passed", 1)),
             (0, "Bail out! no\n1..1\n", ("failed", 0)), (0, "not ok 1 - a # TODO later\n1..1\n", ("passed", 0))]
    for status, output, expected in cases:
        found = suite.judge(status, output)[:2]
        shown = repr(output).replace("#", "(#)")  # else TAP would be read as it stands there
        tap.ok(found == expected, f"judged {expected[0]}: {status} {shown}", found)


def main():
    work = pathlib.Path(sys.argv[1]).resolve()
    tap = Tap()
    check_judge(tap)
    check_files(tap)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(HERE / "program", work / "program")
    if subprocess.run(suite.sandbox(work) + ["true"], capture_output=True, check=False).returncode:
        print(f"ok {tap.count + 1} - a small program # SKIP bwrap makes no sandbox here\n1..{tap.count + 1}")
        return int(tap.failed > 0)
    check_changes(tap, work)
    check_sampling(tap, work)
    check_command(tap, work)
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())

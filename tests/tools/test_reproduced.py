#!/usr/bin/env python3
"""What reproduced.py compares: each thing that differs from what was written down is told, and nothing else is.
Prints TAP."""

import reproduced

EXPECTED = [line.split(" ") for line in """\
finding loss half 2 1 0.5 within read table note
finding loss median ~ ~ ~ within read table ~
file curve.csv 3 2
column curve.csv ours:loss 5
picture curve.gp title|x|y|ours|theirs
picture other.gp ~
cell ci one
trainings ci 1 recipe=a.ini""".splitlines()]


def found():
    half = {"what": "loss", "quantity": "half", "ours": 2.0, "standard_error": 0.01, "target": 1.0, "tolerance": 0.5,
            "criterion": "within", "evidence": "read", "source": "table", "note": "note"}
    return ([half, dict(half, quantity="median", ours=9.0, target=None, tolerance=3.0, note="any")],
            {"curve.csv": (3, 2, {"ours:loss": 5.0, "ours:x": 1.0})},
            {"curve.gp": "title|x|y|ours|theirs", "other.gp": "any"},
            [["cell", "ci", "one"], ["trainings", "ci", "1", "recipe=a.ini"]])


def change_finding(**to):
    def change(findings, *_):
        findings[0].update(to)
    return change


# What is done to what was found, and whether it is told.
CASES = [
    ("nothing", lambda *all_of_it: None, False),
    ("ours, within a part in 1,000", change_finding(ours=2.0019), False),
    ("ours, beyond", change_finding(ours=2.0021), True),
    ("ours, below", change_finding(ours=1.9979), True),
    ("no ours", change_finding(ours=None), True),
    ("a target within rounding", change_finding(target=1.0009), False),
    ("another target", change_finding(target=1.0011), True),
    ("no target", change_finding(target=None), True),
    ("another tolerance", change_finding(tolerance=0.501), True),
    ("another criterion", change_finding(criterion="at most"), True),
    ("another source", change_finding(source="figure"), True),
    ("other evidence", change_finding(evidence="computed"), True),
    ("another name", change_finding(what="error"), True),
    ("another note", change_finding(note="another"), True),
    ("one finding less", lambda findings, *_: findings.pop(), True),
    ("one more", lambda findings, *_: findings.append(findings[0]), True),
    ("a row more", lambda _, files, *__: files.update({"curve.csv": (4, 2, {"ours:loss": 5.0})}), True),
    ("a column more", lambda _, files, *__: files.update({"curve.csv": (3, 3, {"ours:loss": 5.0})}), True),
    ("a mean within its distance",
     lambda _, files, *__: files.update({"curve.csv": (3, 2, {"ours:loss": 5.004})}), False),
    ("a mean beyond", lambda _, files, *__: files.update({"curve.csv": (3, 2, {"ours:loss": 5.006})}), True),
    ("a column by another name", lambda _, files, *__: files.update({"curve.csv": (3, 2, {"ours:x": 5.0})}), True),
    ("no file", lambda _, files, *__: files.clear(), True),
    ("a file more", lambda _, files, *__: files.update({"more.csv": (1, 1, {})}), True),
    ("curves in another order",
     lambda _, __, pictures, ___: pictures.update({"curve.gp": "title|x|y|theirs|ours"}), True),
    ("other words of a picture that no seed leaves alone",
     lambda _, __, pictures, ___: pictures.update({"other.gp": "many"}), False),
    ("a picture more", lambda _, __, pictures, ___: pictures.update({"more.gp": "title"}), True),
    ("another cell", lambda _, __, ___, parts: parts.__setitem__(0, ["cell", "ci", "two"]), True),
    ("other trainings", lambda _, __, ___, parts: parts.__setitem__(1, ["trainings", "ci", "1", "recipe=b.ini"]), True),
]


def main():
    count = 0
    for name, change, is_told in CASES:
        have = found()
        change(*have)
        told = list(reproduced.differences(EXPECTED, *have))
        count += 1
        print(f"{'ok' if bool(told) == is_told else 'not ok'} {count} - {name}: {'told' if is_told else 'not told'}")
        for line in told if bool(told) != is_told else []:
            print(f"# {line}")
    for name, right in (
            ("numbers left out", reproduced.without_numbers("ytics (0.05, 0.1, 2e-3) of -7 in L2; nan") ==
             "ytics (#) of # in L#; #"),
            ("a number that rounding leaves alone is written down", reproduced.steady([2.0, 2.00001]) == "2"),
            ("one that it moves is not", reproduced.steady([2.0, 2.0001]) == "~"),
            ("nor one that is missing at times", reproduced.steady([2.0, None]) == "~"),
            ("none at all is", reproduced.steady([None, None]) == "null"),
            ("the mean of a column's absolute values", list(reproduced.column_means(
                [["a", "b", "c"], ["-1", "word", "5"], ["2", "3", ""]])) == [("a", 1.5), ("c", 5.0)]),
            ("a picture's words", reproduced.words_of('set title "T 1" x\nset xlabel "x"\nset ylabel "y"\n'
                                                      "plot 'f' title \"ours\", 'f' title \"theirs\"") ==
             "T # | x | y | ours | theirs"),
            ("the settings of trainings", reproduced.settings_of(
                ["runs/a  r.ini  train.steps=5 train.seed=1", "runs/b  q.ini  train.steps=7 train.seed=2"]) ==
             "recipe=q.ini|r.ini train.steps=5|7")):
        count += 1
        print(f"{'ok' if right else 'not ok'} {count} - {name}")
    print(f"1..{count}")


if __name__ == "__main__":
    main()

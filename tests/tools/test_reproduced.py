#!/usr/bin/env python3
"""What reproduced.py compares: each thing that differs from what was written down is told, and nothing else is.
Prints TAP."""

import reproduced

EXPECTED = [line.split(" ") for line in """\
finding loss half 2 0.1 1 0.5 within read table note
finding loss median ~ ~ ~ ~ within read table ~
file curve.csv 3 2
column curve.csv 1 5 0.25
picture curve.gp abc
picture other.gp ~
cell ci one
trainings ci 1 def""".splitlines()]


def found():
    half = {"what": "loss", "quantity": "half", "ours": 2.0, "standard_error": 0.01, "target": 1.0, "tolerance": 0.5,
            "criterion": "within", "evidence": "read", "source": "table", "note": "note"}
    return ([half, dict(half, quantity="median", ours=9.0, target=None, tolerance=3.0, note="any")],
            {"curve.csv": (3, 2, [5.0, 1.0])}, {"curve.gp": "abc", "other.gp": "any"},
            [["cell", "ci", "one"], ["trainings", "ci", "1", "def"]])


def change_finding(**to):
    def change(findings, *_):
        findings[0].update(to)
    return change


# What is done to what was found, and whether it is told.
CASES = [
    ("nothing", lambda *all_of_it: None, False),
    ("ours, within its distance and six standard errors", change_finding(ours=2.159), False),
    ("ours, beyond", change_finding(ours=2.161), True),
    ("ours, below", change_finding(ours=1.839), True),
    ("no ours", change_finding(ours=None), True),
    ("a target within rounding", change_finding(target=1.019), False),
    ("another target", change_finding(target=1.021), True),
    ("no target", change_finding(target=None), True),
    ("another tolerance", change_finding(tolerance=0.61), True),
    ("another criterion", change_finding(criterion="at most"), True),
    ("another source", change_finding(source="figure"), True),
    ("other evidence", change_finding(evidence="computed"), True),
    ("another name", change_finding(what="error"), True),
    ("another note", change_finding(note="another"), True),
    ("one finding less", lambda findings, *_: findings.pop(), True),
    ("one more", lambda findings, *_: findings.append(findings[0]), True),
    ("a row more", lambda _, files, *__: files.update({"curve.csv": (4, 2, [5.0, 1.0])}), True),
    ("a column more", lambda _, files, *__: files.update({"curve.csv": (3, 3, [5.0, 1.0, 1.0])}), True),
    ("a mean within its distance", lambda _, files, *__: files.update({"curve.csv": (3, 2, [5.2, 1.0])}), False),
    ("a mean beyond", lambda _, files, *__: files.update({"curve.csv": (3, 2, [5.3, 1.0])}), True),
    ("a column without a number", lambda _, files, *__: files.update({"curve.csv": (3, 2, [None, 1.0])}), True),
    ("no file", lambda _, files, *__: files.clear(), True),
    ("a file more", lambda _, files, *__: files.update({"more.csv": (1, 1, [1.0])}), True),
    ("another script", lambda _, __, pictures, ___: pictures.update({"curve.gp": "abd"}), True),
    ("another script of a picture that no seed leaves alone",
     lambda _, __, pictures, ___: pictures.update({"other.gp": "abd"}), False),
    ("a picture more", lambda _, __, pictures, ___: pictures.update({"more.gp": "abc"}), True),
    ("another cell", lambda _, __, ___, parts: parts.__setitem__(0, ["cell", "ci", "two"]), True),
    ("other trainings", lambda _, __, ___, parts: parts.__setitem__(1, ["trainings", "ci", "1", "deg"]), True),
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
    masked = reproduced.without_numbers("ytics (0.05, 0.1, 2e-3) of -7 in L2; nan")
    print(f"{'ok' if masked == 'ytics (#) of # in L#; #' else 'not ok'} {count + 1} - numbers left out: "
          f"{masked.replace('#', '(#)')}")
    print(f"1..{count + 1}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Does compile.py notice what it is there for? faults.py FORMS COMPILERS

Plants faults in the text of a form and compiles it for one target of each vendor: a fused multiply-add in a strict
kernel, an array in private memory, a text that no compiler takes. Then a compiler that is missing, and the file of
limits. TAP.
"""
import pathlib
import subprocess
import sys
import tempfile

import compile as check
import limits
import targets

HERE = pathlib.Path(__file__).parent

# program whose text gets the fault, right text, wrong text, kernel that must be named, word of the complaint; targets
# that do not see it
FAULTS = [
    ("a fused multiply-add in a strict kernel", "gram", "POLYNOMIALS(coefficient)",
     "POLYNOMIALS(coefficient) value[0] = fma(value[0], value[1], value[2]);", "gram_groups", "strict", ()),
    ("an array in private memory", "peak",
     "STORE_LANES(LOAD_LANES(b + i * LANES) + s * LOAD_LANES(c + i * LANES), a + i * LANES);",
     "{ float kept[64]; for (uint k = 0; k < count; k++) kept[(k * k + i) & 63] = b[k] + s; a[i] = kept[i & 63]; }",
     "peak_triad", "stack", ()),
    ("a text that is no OpenCL C", "peak",
     "__kernel void peak_triad(", "__kernel void peak_triad(nothing, ", "", "nothing", ()),
    ("a macro with ...", "peak",
     "__kernel void peak_triad(", "\n#define ANY(...) __VA_ARGS__\n__kernel void peak_triad(", "", "variadic",
     ("dg2",)),
]


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, passed, name, notes=()):
        self.count += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.count} - {name}")
        for note in () if passed else notes:
            print(f"# {note}")

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}")


def complaints(form, target, bounds):
    try:
        return check.judge(form, target, check.measure(form, target), bounds)
    except targets.Failed as failure:
        return [str(failure)]


def plant(tap, forms, tools, bounds):
    chosen = [target for target in targets.all_targets(tools) if target.name in targets.SHORT]
    for name, program, right, wrong, kernel, word, blind in FAULTS:
        form = next(form for form in forms if form["program"] == program and check.belongs(form, chosen[0]))
        text = form["text"].read_text(encoding="utf-8")
        tap.ok(right in text, f"{name}: cl/ holds what it is planted in", [f"no '{right}': plant it elsewhere"])
        for target in (target for target in chosen if target.name not in blind):
            if target.missing():
                tap.skip(f"{name} for {target.name}", f"no compiler for {target.name}: {target.missing()}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "faulty.cl"
                path.write_text(text.replace(right, wrong), encoding="utf-8")
                said = complaints({**form, "text": path}, target, bounds)
            tap.ok(any(kernel in line and word in line for line in said), f"{name} is seen for {target.name}", said)
            tap.ok(not complaints(form, target, bounds), f"{name}: nothing is seen without it for {target.name}")


def missing_compiler(tap, forms):
    """Without what is fetched, every GPU's compiler is missing."""
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run([sys.executable, HERE / "compile.py", "--short", "--only", "peak", forms, empty,
                               pathlib.Path(empty) / "table"], stdout=subprocess.PIPE, text=True, check=False)
    for name in targets.SHORT:
        line = next((line for line in done.stdout.splitlines() if f"all forms for {name} " in line), "")
        tap.ok(line.startswith("ok") and "# SKIP no compiler" in line and "not fetched" in line,
               f"a compiler for {name} that is missing is a skip with its reason", done.stdout.splitlines())


def limits_file(tap):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "limits"
        path.write_text("a/k gfx* stack <= 8 known # remark\n* * stack <= 0 rule\na/* * waves >= 50 half\n"
                        "z/k * stack <= 0 gone\n", encoding="utf-8")
        bounds = limits.read(path)
        inside = limits.exceeded(bounds, "a/k", "gfx942", targets.Figures(stack=8, waves=50))
        outside = limits.exceeded(bounds, "a/k", "dg2", targets.Figures(stack=8, waves=49))
        tap.ok(not inside, "the first limit that fits holds", inside)
        tap.ok(len(outside) == 2 and "rule" in outside[0] and "half" in outside[1],
               "a figure beyond its limit is named with the reason", outside)
        tap.ok(limits.unused(bounds) == ["z/k * stack <= 0 gone"], "a limit that holds for no kernel is named")
        path.write_text("a/k * stack <= 8\n", encoding="utf-8")
        try:
            limits.read(path)
            refused = False
        except ValueError:
            refused = True
        tap.ok(refused, "a limit without a reason is refused")


def main():
    forms, tools = pathlib.Path(sys.argv[1]), targets.Tools(sys.argv[2])
    tap = Tap()
    plant(tap, check.read_forms(forms), tools, limits.read(HERE / "limits"))
    missing_compiler(tap, forms)
    limits_file(tap)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compiles every program in every form for GPUs that are not there, and judges what the compilers say.

compile.py [--short] [--only PATTERN] [--jobs N] FORMS COMPILERS TABLE

FORMS: what gpu-forms wrote. COMPILERS: the folder that compilers.sh filled. TABLE: where all figures go, a line for
each kernel of each form on each target. --short: one target of each vendor, and of programs with many forms each form
for one vendor. --only: programs of such a name.

Prints a table of each kernel's worst figures and TAP, a test point for each form and target: it compiles, it holds the
kernels that the host creates, no strict kernel has a fused multiply-add in its machine code, and no figure is beyond
its limit (file `limits`).
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import sys
import tempfile

import limits
import targets

FIGURES = ("registers", "stack", "spills", "parked", "local", "waves")
FEW = 10  # forms of a program that --short compiles for every vendor


def read_forms(folder):
    """Forms in their order: dictionaries with text (a path), options, program, devices, and kernels: name to row of the
    index."""
    forms = {}
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        form = forms.setdefault(row["form"], {**row, "text": folder / row["text"], "kernels": {}, "devices": set()})
        form["devices"].add(row["device"])
        form["kernels"][row["kernel"]] = row
    return list(forms.values())


def title(form):
    return f"{form['program']} {form['options'].replace('-cl-std=CL1.2 ', '')}"


def belongs(form, target):
    """A GPU gets what a device of its kind asks for. SPIR-V is anybody's who has no options of their own."""
    return target.device in form["devices"] if target.device else "-cl-nv" not in form["options"]


def measure(form, target):
    """Figures of the form's kernels on the target, waves filled in. Raises targets.Failed."""
    strict = [name for name, row in form["kernels"].items() if row["strict"]]
    with tempfile.TemporaryDirectory() as folder:
        kernels = target.compile(form["text"], form["options"], pathlib.Path(folder), strict)
    for name, kernel in kernels.items():
        if name in form["kernels"]:
            kernel.local += form["kernels"][name]["local_bytes"]
            kernel.waves = target.waves(kernel)
    return {name: kernel for name, kernel in kernels.items() if name in form["kernels"]}


def judge(form, target, kernels, bounds):
    """What is wrong, as lines."""
    wrong = [f"{name}: not there" for name in form["kernels"] if name not in kernels]
    for name, kernel in kernels.items():
        wrong += [f"{name} is strict, and has: {line}" for line in kernel.contracted[:3]]
        if target.name != "spirv":
            wrong += limits.exceeded(bounds, f"{form['program']}/{name}", target.name, kernel)
    return wrong


def share_out(pairs):
    """One pair of each form, its target by turns, of programs with many forms; all pairs of the others."""
    forms = {}
    for form, target in pairs:
        forms.setdefault(form["program"], {}).setdefault(form["form"], []).append((form, target))
    for of_program in forms.values():
        for turn, of_form in enumerate(of_program.values()):
            yield from [of_form[turn % len(of_form)]] if len(of_program) > FEW else of_form


def compile_all(pairs, jobs):
    """A future for each pair, in their order. Compilers are processes of their own: threads wait for them."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from ((form, target, future) for (form, target), future in
                    [(pair, pool.submit(measure, *pair)) for pair in pairs])


def row_of(kernel):
    return [getattr(kernel, figure) for figure in FIGURES]


def print_table(worst, names, file):
    """Kernels by targets: registers, stack, spills, waves; local memory is the same everywhere."""
    def cells(kernel, target):
        found = worst.get((kernel, target))
        return f"{found[0]:4}{found[1]:5}{found[2]:4}{found[5]:4}%" if found else ""
    kernels = list(dict.fromkeys(kernel for kernel, _ in worst))
    wide = max(map(len, kernels))
    print("# registers, bytes of stack, spills, waves in percent: the worst of all forms; bytes of local memory",
          file=file)
    print(f"# {'':{wide}}  local" + "".join(f" | {name:^18}" for name in names), file=file)
    for kernel in kernels:
        local = max(figures[4] for (name, _), figures in worst.items() if name == kernel)
        print(f"# {kernel:{wide}} {local:6}" + "".join(f" | {cells(kernel, name):18}" for name in names), file=file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("forms", type=pathlib.Path)
    parser.add_argument("compilers", type=pathlib.Path)
    parser.add_argument("table", type=pathlib.Path)
    arguments = parser.parse_args()
    bounds = limits.read(pathlib.Path(__file__).with_name("limits"))
    forms = [form for form in read_forms(arguments.forms) if fnmatch.fnmatchcase(form["program"], arguments.only)]
    chosen = targets.all_targets(targets.Tools(arguments.compilers))
    if arguments.short:
        chosen = [target for target in chosen if target.name in (*targets.SHORT, "spirv")]
    there = [target for target in chosen if not target.missing()]
    count = failed = 0
    for target in chosen:
        if target not in there:
            count += 1
            print(f"ok {count} - all forms for {target.name} # SKIP no compiler for {target.name}: {target.missing()}")
    pairs = [(form, target) for form in forms for target in there if belongs(form, target)]
    if arguments.short:
        pairs = list(share_out(pairs))
    # Long ones first, so that none is left alone at the end.
    pairs.sort(key=lambda pair: -pair[0]["text"].stat().st_size)
    worst = {}
    arguments.table.parent.mkdir(parents=True, exist_ok=True)
    with arguments.table.open("w", encoding="utf-8") as table:
        print("target", "kernel", *FIGURES, "form", sep="\t", file=table)
        for form, target, future in compile_all(pairs, arguments.jobs):
            count += 1
            try:
                kernels = future.result()
                wrong = judge(form, target, kernels, bounds)
            except targets.Failed as failure:
                kernels, wrong = {}, str(failure).splitlines()
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {count} - {title(form)} for {target.name}", flush=True)
            for line in wrong:
                print(f"# {line}")
            for name, kernel in kernels.items() if target.name != "spirv" else ():
                print(target.name, name, *row_of(kernel), title(form), sep="\t", file=table)
                key = f"{form['program']}/{name}", target.name
                worst[key] = [min(pair) if figure == "waves" else max(pair)
                              for figure, *pair in zip(FIGURES, row_of(kernel), worst.get(key, row_of(kernel)))]
    if worst:
        print_table(worst, [target.name for target in there if target.name != "spirv"], sys.stdout)
    if not arguments.short and arguments.only == "*" and len(there) == len(chosen):
        for bound in limits.unused(bounds):
            count, failed = count + 1, failed + 1
            print(f"not ok {count} - a limit that holds for no kernel: {bound}")
    print(f"1..{count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

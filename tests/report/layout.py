#!/usr/bin/env python3
"""Reports as Chromium lays them out: nothing is cut off, no row is tall for what is out of sight, charts can be read on
a phone. layout.js measures, and finds each fault that is planted here. Prints TAP.

Arguments: iclab, the folder of recipes [, --pictures FOLDER: keeps the upper part of each report as a PNG].
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import browser

HERE = pathlib.Path(__file__).parent
CHARTS = (HERE / "charts.js").read_text(encoding="utf-8")
WIDTHS = (1200, 800, 420)
SCHEMES = ("light", "dark")
PICTURE_HEIGHT = 1000

# A fault, and what has to be said of it.
FAULTS = (
    ("document.querySelector('main').insertAdjacentHTML('beforeend', "
     "'<p style=\"width:3000px;max-width:none\">wide</p>')",
     "the page is"),
    ("document.querySelector('main').insertAdjacentHTML('beforeend', "
     "'<p style=\"width:60px;overflow:hidden;white-space:nowrap\">a text that is cut off at its end</p>')",
     "overflows"),
    ("document.querySelector('td').style.paddingTop = '0'; document.querySelector('tbody tr').style.height = '200px'",
     "px high; what is seen of it needs"),
    ("document.querySelectorAll('svg text').forEach((text) => text.style.fontSize = '3px')", "of a chart is"),
    ("document.querySelector('svg').querySelectorAll('text').forEach((text) => "
     "text.parentNode.setAttribute('transform', 'translate(100,100)'))", "overlap"),
    ("document.querySelector('svg text').parentNode.setAttribute('transform', 'translate(-90,5)')", "leaves its chart"),
)


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, passed, name, notes=()):
        self.count += 1
        self.failed += not passed
        print(f"{'' if passed else 'not '}ok {self.count} - {name}")
        for note in list(notes)[:20]:
            print(f"# {note}")

    def done(self):
        print(f"1..{self.count}")
        return self.failed > 0


def make_reports(iclab, recipes, work, has_plain_names):
    """One of each command that leaves a report: {name: path}."""
    surroundings = {**os.environ, "ICLAB_RECIPES": recipes}

    def run(*arguments):
        result = subprocess.run([iclab, *map(str, arguments)], env=surroundings, cwd=work, capture_output=True,
                                text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"iclab {' '.join(map(str, arguments))}: {result.stderr}")

    device = ("--device", "cpu", "--quiet")
    # A long name that holds markup, and no blank at which it could be broken.
    hostile = "" if has_plain_names else "<b>of&a-name-that-is-longer-than-a-phone-is-wide-and-holds-markup"
    if has_plain_names:
        recipe = "quickstart"
    else:
        recipe = work / f"quickstart{hostile}.ini"
        shutil.copy(pathlib.Path(recipes, "quickstart.ini"), recipe)
    run("train", recipe, *device, "--steps", 1000, "--set", "eval.sequences=5000", "--out", "runs/first")
    run("inspect", "runs/first", *device, "--sequences", 1000)
    run("eval", "runs/first", *device, "--over", "task.n=10,20,40", "--set", "eval.sequences=2000", "--out", "over")
    run("eval", "runs/first", *device, "--over", "task.n=20,40,task.noise=fixed:1,fixed:3,\"choice:1,3\"",
        "--set", "eval.sequences=2000", "--out", "over-two")
    sweep = work / "sweep.ini"
    sweep.write_text("[sweep]\nrecipe = quickstart\n[set]\ntrain.steps = 100\ntrain.growth = 0\ntrain.batch = 128\n"
                     "eval.sequences = 500\n[grid]\nmodel.layers = 1, 2, 3\n"
                     "task.noise = \"choice:1,3\", fixed:1\ntrain.seed = 1, 2\n", encoding="utf-8")
    run("sweep", sweep, *device, "--out", "sweep")
    data = work / f"swiss{hostile}.csv"
    text = pathlib.Path(recipes, "../data/swiss.csv").read_text(encoding="utf-8")
    data.write_text(text.replace("Fertility", f"Fertility{hostile}"), encoding="utf-8")
    run("train", "predict", *device, "--steps", 300, "--set", "eval.every=0", "--out", "runs/predict")
    run("predict", "runs/predict", *device, "--data", data.name, "--target", 1, "--repeats", 2, "--out", "predicted")
    run("reproduce", "versatile-layers", "--scale", "ci", *device, "--out", "repro")
    return {"train": work / "runs/first/report.html", "inspect": work / "runs/first/inspect/report.html",
            "eval-over": work / "over/report.html", "eval-over-two": work / "over-two/report.html",
            "sweep": work / "sweep/report.html",
            "sweep-cell": work / "sweep/noise-fixed-1_layers-2_seed-1/report.html",
            "predict": work / "predicted/report.html", "reproduce": work / "repro/versatile-layers-ci/report.html"}


def check_report(tap, page, measure, name, path, pictures):
    for width in WIDTHS:
        for scheme in SCHEMES:
            page.show(path, width, 900, scheme)
            if pictures:
                page.picture(pictures / f"{name}-{width}-{scheme}.png", width, PICTURE_HEIGHT)
            page.evaluate(CHARTS)
            found = page.evaluate(measure)
            tap.ok(not found["complaints"], f"{name} at {width} pixels, {scheme}", found["complaints"])


def check_faults(tap, page, measure, path):
    for fault, words in FAULTS:
        page.show(path, 1200, 900, "light")
        page.evaluate(CHARTS)
        page.evaluate(fault)
        complaints = page.evaluate(measure)["complaints"]
        tap.ok(any(words in line for line in complaints), f"a planted fault is found: {words}", complaints[:1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("iclab")
    parser.add_argument("recipes")
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    program = browser.find()
    for needed in (program, shutil.which("gnuplot")):
        if needed is None:
            print("1..0 # SKIP Chromium or gnuplot is not installed")
            return 0
    tap = Tap()
    measure = (HERE / "layout.js").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="iclab-layout-") as work:
        reports = make_reports(os.path.abspath(arguments.iclab), os.path.abspath(arguments.recipes),
                               pathlib.Path(work), arguments.pictures is not None)
        page = browser.Browser(program)
        try:
            for name, path in reports.items():
                check_report(tap, page, measure, name, path, arguments.pictures)
            check_faults(tap, page, measure, reports["train"])
        finally:
            page.close()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())

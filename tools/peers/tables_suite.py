"""The twenty tables of tools/peers/tables, read from the files of Debian's packages, and the predictors on them.

A split of seed s, from 100 on, puts rows in the order numpy.random.default_rng(s).permutation(n); the last
max(n // 5, 5) are predicted from the others. The error of a predictor is the sum of its squared errors over all splits,
over that of the mean of the rows learned from. Rows with holes and columns of text are left out, and of more than 600
rows 500 are drawn, by numpy.random.default_rng(0). None of the predictors is tuned to a table, but the rule of the
weights of iclab's mixture was chosen among eleven on the nine tables of fewer than 140 rows. Mean ranks are among the
five that are RANKED, and for iclab's own among these and itself. "over ridge" is the largest error of any table over
that of ridge.
"""
import argparse
import gzip
import math
import os
import pathlib
import sys
import time
import warnings
import xml.etree.ElementTree

import numpy
import pandas

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_ROWS, DRAWN_ROWS = 600, 500

# ---- The tables: a function of the folder of unpacked packages that gives a frame, and the target's column ----


def sklearn_data(folder):
    return folder / "usr/lib/python3/dist-packages/sklearn/datasets/data"


def statsmodels_csv(path):
    return lambda folder: pandas.read_csv(folder / "usr/lib/python3/dist-packages/statsmodels" / path)


def diabetes(folder):
    features = numpy.loadtxt(gzip.open(sklearn_data(folder) / "diabetes_data_raw.csv.gz"))
    frame = pandas.DataFrame(features, columns=[f"x{i}" for i in range(features.shape[1])])
    return frame.assign(target=numpy.loadtxt(gzip.open(sklearn_data(folder) / "diabetes_target.csv.gz")))


def boston(folder):
    return pandas.read_csv(sklearn_data(folder) / "boston_house_prices.csv", skiprows=1)


def shipped(name):
    return lambda folder: pandas.read_csv(ROOT / "tools" / "data" / f"{name}.csv")


def star98(folder):
    frame = statsmodels_csv("datasets/star98/star98.csv")(folder)
    frame = frame.assign(share=frame["PR50M"] / frame["MATHTOT"])
    return frame[["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE", "AVYRSEXP", "AVSALK", "PERSPENK", "PTRATIO",
                  "PCTAF", "PCTCHRT", "PCTYRRND", "share"]]


def gretl_root(file):
    content = file.read_bytes()
    return xml.etree.ElementTree.fromstring(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)


def gretl(path):
    """A file of gretl: XML, compressed or not, with a row of numbers for each observation."""

    def read(folder):
        root = gretl_root(folder / "usr/share/gretl/data" / path)
        names = [variable.get("name") for variable in root.iter("variable")]
        missing = next(root.iter("observations")).get("missval", "NA")
        rows = [[math.nan if word in (missing, "NA") else float(word) for word in (one.text or "").split()]
                for one in root.iter("obs")]
        return pandas.DataFrame(rows, columns=names)

    return read


def mroz(folder):
    """The 428 women who worked."""
    frame = gretl("misc/mroz87.gdt")(folder)
    frame = frame[frame["WW"] > 0]
    return frame.assign(wage=numpy.log(frame["WW"]))


# A name, its reader, the target, and columns that tell the target or say who a row is.
TABLES = {
    "diabetes": (diabetes, "target", []),
    "boston": (boston, "MEDV", []),
    "swiss": (shipped("swiss"), "Fertility", []),
    "states": (shipped("states"), "Life Exp", []),
    "birth weight": (statsmodels_csv("genmod/tests/results/stata_lbw_glm.csv"), "bwt", ["id", "low"]),
    "autos": (statsmodels_csv("gam/tests/results/autos.csv"), "price", ["symbol", "loss"]),
    "motorcycle": (statsmodels_csv("gam/tests/results/motorcycle.csv"), "accel", []),
    "star98": (star98, "share", []),
    "statecrime": (statsmodels_csv("datasets/statecrime/statecrime.csv"), "murder", ["violent"]),
    "scotvote": (statsmodels_csv("datasets/scotland/scotvote.csv"), "YES", []),
    "engel": (statsmodels_csv("datasets/engel/engel.csv"), "foodexp", []),
    "growth": (gretl("misc/mrw.gdt"), "gdpgrow", ["gdp85"]),
    "griliches": (gretl("misc/griliches.gdt"), "lw",
                  ["rns80", "mrt80", "smsa80", "age80", "s80", "expr80", "tenure80", "lw80", "year"]),
    "mroz87": (mroz, "wage", ["LFP", "WHRS", "WW", "RPWG", "HHRS", "FAMINC", "MTR", "HW"]),
    "homes": (gretl("ramanathan/data7-24.gdt"), "salepric", []),
    "college": (gretl("ramanathan/data7-9.gdt"), "colgpa", []),
    "cars": (gretl("ramanathan/data7-12.gdt"), "price", []),
    "poverty": (gretl("ramanathan/data4-6.gdt"), "povrate", []),
    "afdc": (gretl("ramanathan/data4-17.gdt"), "afdc", []),
    "bike sharing": (gretl("misc/bikesharing.gdt"), "cnt", ["casual", "registered"]),
}


# Files of gretl that TABLES reads.
READ = ("misc/bikesharing", "misc/griliches", "misc/mroz87", "misc/mrw", "ramanathan/data4-6", "ramanathan/data4-17",
        "ramanathan/data7-9", "ramanathan/data7-12", "ramanathan/data7-24")


def other_tables(folder):
    """Cross-sections of gretl that chose nothing here: 20 to 600 rows without holes, 2 to 20 features that vary. The
    target is the first column, if it has ten values and is not the number of the row."""
    found = {}
    for file in sorted((folder / "usr/share/gretl/data").glob("*/*.gdt")):
        name = f"{file.parent.name}/{file.stem}"
        if name in READ or gretl_root(file).get("type") not in (None, "cross-section"):
            continue
        frame = gretl(f"{name}.gdt")(folder).dropna(axis=1, how="all").dropna()
        frame = frame.loc[:, frame.nunique() > 1]
        if not (20 <= len(frame) <= MOST_ROWS and 3 <= frame.shape[1] <= 21):
            continue
        target = frame.iloc[:, 0]
        if target.nunique() >= 10 and sorted(target) != list(range(1, len(target) + 1)):
            found[name] = (lambda _, made=frame: made, frame.columns[0], [])
    return found


def read(table, folder):
    """Features [n, d] and targets [n]."""
    reader, target, excluded = table
    frame = reader(folder).drop(columns=excluded).select_dtypes("number").dropna()
    features = frame.drop(columns=target).to_numpy(float)
    targets = frame[target].to_numpy(float)
    if len(targets) > MOST_ROWS:
        kept = numpy.random.default_rng(0).permutation(len(targets))[:DRAWN_ROWS]
        features, targets = features[kept], targets[kept]
    return features, targets


# ---- Predictors: a function of features, targets and queries that gives predictions by name, and the shares of targets
# in intervals by the same names where it has any ----

RANKED = ("ridge", "5 neighbours", "forest", "boosting", "process")


def sklearn_predictors():
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.linear_model import RidgeCV
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1.0)
    return {
        "ridge": make_pipeline(StandardScaler(), RidgeCV(numpy.logspace(-3, 4, 29))),
        "5 neighbours": make_pipeline(StandardScaler(), KNeighborsRegressor(5)),
        "forest": RandomForestRegressor(200, random_state=0, n_jobs=1),
        "boosting": GradientBoostingRegressor(n_estimators=200, learning_rate=0.05, max_depth=3, random_state=0),
        "process": make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True)),
    }


def predict_sklearn(made, name, features, targets, queries):
    if name != "process":
        return made.fit(features, targets).predict(queries), None
    means, deviations = made.fit(features, targets).predict(queries, return_std=True)
    return means, (means - 1.2815515655446004 * deviations, means + 1.2815515655446004 * deviations)


def predict_ours(iclab, features, targets, queries, model):
    """Predictions and intervals of 80 % by name: of each method, of the one that is best on rows held out, "choice",
    and of their mixture, which is iclab's answer."""
    found = iclab.regress(features, targets, queries, model=model, device="cpu", repeats=1, importances=False)
    single = [name for name in found if name not in ("mean", "prediction", "mixture")
              and not name.startswith(("low_", "high_"))]
    answers = {f"iclab {name}": (found[name], None) for name in single}
    errors = {name: found.scores.row(name)["mse"] for name in (*single, "mean")}
    answers["iclab choice"] = (found[min(errors, key=errors.get)], None)
    if "model" in found:
        alone = iclab.regress(features, targets, queries, model=model, device="cpu", methods="model", held_out=False)
        answers["iclab model"] = (alone["prediction"], (alone["low_80"], alone["high_80"]))
    answers["iclab"] = (found["prediction"], (found["low_80"], found["high_80"]))
    return answers


# ---- The suite ----


class Tally:
    """Of one predictor on one table: squared errors, targets in intervals of 80 %, seconds."""

    def __init__(self):
        self.squares, self.inside, self.asked, self.seconds = 0.0, 0, 0, 0.0

    def add(self, answer, truth, seconds):
        predictions, interval = answer
        self.squares += float(numpy.sum((predictions - truth) ** 2))
        self.seconds += seconds
        if interval is not None:
            self.inside += int(numpy.sum((interval[0] <= truth) & (truth <= interval[1])))
            self.asked += len(truth)


def run_table(iclab, features, targets, splits, with_sklearn, model):
    """A tally by name, and the squared errors of the mean."""
    tallies, of_mean, n = {}, 0.0, len(targets)
    held = max(n // 5, 5)
    for s in splits:
        order = numpy.random.default_rng(s).permutation(n)
        known, asked = order[:-held], order[-held:]
        of_mean += float(numpy.sum((targets[asked] - targets[known].mean()) ** 2))
        start = time.perf_counter()
        answers = predict_ours(iclab, features[known], targets[known], features[asked], model)
        seconds = time.perf_counter() - start
        for name, answer in answers.items():
            tallies.setdefault(name, Tally()).add(answer, targets[asked], seconds)
        for name, made in (sklearn_predictors() if with_sklearn else {}).items():
            start = time.perf_counter()
            answer = predict_sklearn(made, name, features[known], targets[known], features[asked])
            tallies.setdefault(name, Tally()).add(answer, targets[asked], time.perf_counter() - start)
    return tallies, of_mean


def rank(errors, name):
    """Among the five, or for one of ours among these and itself; equal errors share the mean of their ranks."""
    others = [errors[other] for other in RANKED if other != name]
    return 1 + sum(other < errors[name] for other in others) + sum(other == errors[name] for other in others) / 2


def print_summary(results, names):
    ridge = "ridge" if "ridge" in names else "iclab ridge"
    print(f"\n{'predictor':24} {'geometric mean':>14} {'mean rank':>9} {'over ridge':>10} {'in 80 %':>8} "
          f"{'seconds':>8}")
    for name in names:
        errors = [of[name] for of, _ in results]
        inside = sum(tallies[name].inside for _, tallies in results)
        asked = sum(tallies[name].asked for _, tallies in results)
        ranks = [rank(of, name) for of, _ in results] if all(other in names for other in RANKED) else []
        print(f"{name:24} {math.exp(sum(map(math.log, errors)) / len(errors)):14.4f} "
              f"{f'{sum(ranks) / len(ranks):.2f}' if ranks else '-':>9} "
              f"{max(of[name] / of[ridge] for of, _ in results):10.2f} "
              f"{f'{inside / asked:.3f}' if asked else '-':>8} "
              f"{sum(tallies[name].seconds for _, tallies in results):8.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=ROOT / "build")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--model")
    options = parser.parse_intermixed_args()
    os.environ.setdefault("ICLAB_RECIPES", str(ROOT / "tools" / "recipes"))
    os.environ.setdefault("ICLAB_LIBRARY", str(next(iter(sorted(options.build.glob("libiclab*.so"))), "")))
    sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tools")]
    import iclab

    warnings.simplefilter("ignore")  # scikit-learn's, of a likelihood without a peak
    splits = range(options.first, options.first + options.splits)
    results, names = [], []
    tables = other_tables(options.folder) if options.tables == "others" else TABLES
    for table in tables if options.tables == "others" else options.tables.split(","):
        features, targets = read(tables[table], options.folder)
        tallies, of_mean = run_table(iclab, features, targets, splits, not options.ours, options.model)
        if not names:
            names = list(tallies)
            print("squared error over that of the mean\n" + f"{'table':20} {'n':>4} {'d':>3} "
                  + " ".join(f"{name.replace('gaussian_', ''):>16}" for name in names))
        errors = {name: tally.squares / of_mean for name, tally in tallies.items()}
        print(f"{table:20} {len(targets):4} {features.shape[1]:3} "
              + " ".join(f"{errors[name]:16.3f}" for name in names), flush=True)
        results.append((errors, tallies))
    print_summary(results, names)


if __name__ == "__main__":
    main()

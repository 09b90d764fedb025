"""Fifteen series of tools/peers/tables --series, read from the files of Debian's packages, and the forecasts of
iclab.regress on them, one row ahead.

The rows are held out in the order of time (folds of rolling origins); of more than 600 rows the last 600 are taken. The
error of a method is its mean squared error over that of the last value, which is what a forecast has to beat: prices
are in logarithms, so that the last value is a guess of no return. A star stands where the best method of the series is
not better by two standard errors, which allow for correlated errors. `mean` learns the mean of all rows before.
"""
import argparse
import lzma
import math
import os
import pathlib
import sys

import numpy
import rdata
from tables_suite import ROOT, gretl, statsmodels_csv

MOST_ROWS = 600

# ---- The series: a function of the folder of unpacked packages that gives the values in the order of time ----


def column(reader, name):
    return lambda folder: reader(folder)[name].to_numpy(float)


def logarithm(reader, name):
    return lambda folder: numpy.log(reader(folder)[name].to_numpy(float))


def months(folder):
    """A row of the file is a year."""
    return statsmodels_csv("datasets/elnino/elnino.csv")(folder).iloc[:, 1:].to_numpy(float).ravel()


def monthly_co2(folder):
    """Means of the weeks of a month; the months without any are interpolated."""
    frame = statsmodels_csv("datasets/co2/co2.csv")(folder)
    means = frame["co2"].groupby(frame["date"] // 100).mean()
    return means.interpolate().to_numpy(float)


def returns(folder):
    return 100 * numpy.diff(logarithm(gretl("misc/djclose.gdt"), "djclose")(folder))


def r_data_set(name, folder):
    """A matrix or table of R's package datasets. R keeps what a package has in one file, each piece by itself: its
    length in four bytes, the letter Z for xz, and then LZMA2 without a header, as R compresses this package. The index
    beside it tells where a piece begins and how long it is."""
    data = folder / "usr/lib/R/library/datasets/data"
    index = rdata.read_rds(data / "Rdata.rdx")
    start, length = index["variables"][name]
    piece = (data / "Rdata.rdb").read_bytes()[start:start + length]
    if piece[4:5] != b"Z":
        sys.exit(f"{name}: Rdata.rdb holds it in another form than xz")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    parsed = rdata.parser.parse_data(lzma.decompress(piece[5:], lzma.FORMAT_RAW, filters=filters), extension=".rds")
    return rdata.conversion.convert(parsed, constructor_dict={"mts": lambda values, _: values})


def stock_index(name):
    """The closing prices of 1991 to 1998, on business days."""
    return lambda folder: numpy.log(r_data_set("EuStockMarkets", folder).sel(dim_1=name).to_numpy())


EQUIPMENT = statsmodels_csv("datasets/elec_equip/elec_equip.csv")
MACRO = statsmodels_csv("datasets/macrodata/macrodata.csv")

# A name, its reader, lags, and the rows of a season.
SERIES = {
    "sunspots": (column(statsmodels_csv("datasets/sunspots/sunspots.csv"), "SUNACTIVITY"), 10, 11),
    "nile": (column(statsmodels_csv("datasets/nile/nile.csv"), "volume"), 8, 0),
    "el nino": (months, 12, 12),
    "co2": (monthly_co2, 13, 12),
    "equipment": (column(EQUIPMENT, "STS.M.I7.W.TOVT.NS0016.4.000"), 13, 12),
    "air passengers": (column(gretl("misc/bjg.gdt"), "lg"), 13, 12),
    "inflation": (column(MACRO, "infl"), 8, 0),
    "unemployment": (column(MACRO, "unemp"), 8, 0),
    "lira per dollar": (logarithm(gretl("misc/hamilton.gdt"), "EXRITL"), 8, 0),
    "dow jones": (logarithm(gretl("misc/djclose.gdt"), "djclose"), 8, 0),
    "its returns": (returns, 8, 0),
    "dax": (stock_index("DAX"), 8, 0),
    "smi": (stock_index("SMI"), 8, 0),
    "cac": (stock_index("CAC"), 8, 0),
    "ftse": (stock_index("FTSE"), 8, 0),
}

FOLDS = 10  # of series as long as these, unless others are asked for
METHODS = ("mean", "last_season", "ols", "ridge", "neighbours", "gaussian_process", "model", "mixture")


def read(name, folder):
    values = SERIES[name][0](folder)
    if not numpy.isfinite(values).all():
        sys.exit(f"{name}: {numpy.sum(~numpy.isfinite(values))} values are missing")
    return values[-MOST_ROWS:]


def after_first(found, values, total, folds):
    """Squared errors from the second origin on: of the method that was best up to each origin, of the mixture, and of
    the last value; and how many targets lie in the mixture's intervals of 80 %, and of how many."""
    held, truth = found.held_out, values[found.held_out["row"]]
    ends = [total * (k + 1) // (folds + 1) - (total - len(truth)) for k in range(folds + 1)]
    squares = {name: (held[name] - truth) ** 2 for name in ("last_value", *METHODS[:-1]) if name in held}
    choice = 0.0
    for first, end in zip(ends[1:], ends[2:]):
        best = min(squares, key=lambda name, to=first: float(squares[name][:to].sum()))
        choice += float(squares[best][first:end].sum())
    rest = slice(ends[1], None)
    inside = (held["low_80"] <= truth) & (truth <= held["high_80"])
    return (choice, float(((held["prediction"] - truth)[rest] ** 2).sum()), float(squares["last_value"][rest].sum()),
            int(inside[rest].sum()), len(truth[rest]))


def print_after_first(found):
    """`found` has what after_first returns of each series."""
    ratios = [[of[k] / of[2] for of in found] for k in range(2)]
    choice, mixture = (math.exp(sum(map(math.log, ratio)) / len(ratio)) for ratio in ratios)
    inside = sum(of[3] for of in found) / sum(of[4] for of in found)
    print(f"from the second origin on, geometric mean: {choice:.3f} of the method that was best before, {mixture:.3f} "
          f"of the mixture, with {inside:.3f} of the targets in its intervals of 80 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=ROOT / "build")
    parser.add_argument("--series", default=",".join(SERIES))
    parser.add_argument("--ahead", type=int, default=1)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--model")
    options = parser.parse_intermixed_args()
    os.environ.setdefault("ICLAB_RECIPES", str(ROOT / "tools" / "recipes"))
    os.environ.setdefault("ICLAB_LIBRARY", str(next(iter(sorted(options.build.glob("libiclab*.so"))), "")))
    sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tools")]
    import iclab

    print("squared error over that of the last value; *: within two standard errors of the best\n"
          + f"{'series':16} {'n':>4} {'lags':>4} " + " ".join(f"{name[:11]:>12}" for name in ("last_value", *METHODS)))
    errors, wins, later = {}, {}, []
    for name in options.series.split(","):
        _, lags, season = SERIES[name]
        values = read(name, options.folder)
        found = iclab.regress(None, values, lags=lags, ahead=options.ahead, season=season, folds=options.folds,
                              importances=False, model=options.model)
        scores = {row["predictor"]: row for row in found.scores.rows()}
        unit = scores["last_value"]["mse"]
        later.append(after_first(found, values, len(values) - max(lags + options.ahead - 1, season),
                                 options.folds or FOLDS))
        cells = []
        for method in ("last_value", *METHODS):
            score = scores.get(method)
            if score is None:
                cells.append(f"{'-':>12}")
                continue
            is_near = not score["minus_best"] > 2 * score["minus_best_se"]
            cells.append(f"{score['mse'] / unit:11.3f}{'*' if is_near else ' '}")
            errors.setdefault(method, []).append(score["mse"] / unit)
            wins[method] = wins.get(method, 0) + is_near
        print(f"{name:16} {len(values):4} {lags:4} " + " ".join(cells), flush=True)
    means = {method: math.exp(sum(map(math.log, found)) / len(found)) for method, found in errors.items()}
    count = len(options.series.split(","))
    print(f"{'geometric mean':26} " + " ".join(
        f"{means[method]:11.3f} " if len(errors.get(method, ())) == count else f"{'-':>12}"
        for method in ("last_value", *METHODS)))
    print(f"{'stars':26} " + " ".join(f"{wins.get(method, 0):11} " for method in ("last_value", *METHODS)))
    print_after_first(later)


if __name__ == "__main__":
    main()

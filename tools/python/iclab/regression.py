"""A table's target predicted without a trained run: the methods, held-out errors and intervals of `iclab predict`."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, NamedTuple, Sequence

import numpy

from . import _arguments as arguments
from . import _library as library
from ._devices import Device, Handle, open_device
from .errors import InputError
from .prediction import Rows, held_rows, learned_rows
from .tables import Table

INTERVALS = ("low_80", "low_50", "high_50", "high_80")


def method_names() -> list[str]:
    """What predicts, the mean first."""
    count = library.constants["ICL_METHODS"]
    return [library.words(library.function("icl_method_name")(i)) for i in range(count)]


class Mixture(NamedTuple):
    """What rows held out say of the methods: icl_method_mixture."""

    weights: tuple[float, ...]
    margin_50: float
    margin_80: float
    least_width: float


class Regression(Table):
    """A row for each one asked for: `prediction` and the intervals low_80 to high_80, low_50 to high_50 of the method
    `answer`, then the prediction of each method. `scores` has errors on held-out rows, the share of targets in the
    intervals, and the weights in the mixture; `held_out` the held-out predictions, `importances` what permuting a
    feature adds to the answer's relative_mse; all three are empty where none were asked for. `best` is the method of
    the least held-out error. `mixture` is what `regress_rows` takes to mix again without rows held out."""

    best: str
    answer: str
    mixture: Mixture | None
    scores: Table
    held_out: Table
    importances: Table


def _methods(methods: str | Sequence[str] | None) -> int:
    """A bit for each; 0 for all of them."""
    known = method_names()
    bits = 0
    for method in [methods] if isinstance(methods, str) else methods or []:
        if method not in known:
            raise InputError(f"methods: {method!r}: expected {', '.join(known)}")
        bits |= 1 << known.index(method)
    return bits


def regress(
    features: Any,
    targets: Any,
    fresh: Any = None,
    *,
    model: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    methods: str | Sequence[str] | None = None,
    held_out: bool = True,
    importances: bool = True,
    folds: int = 0,
    repeats: int = 0,
    context: int = 0,
    seed: int = 1,
    lags: int = 0,
    ahead: int = 0,
    season: int = 0,
) -> Regression:
    """Predicts rows `fresh`, or those whose target is NaN, from all others, with intervals, by each of `methods` (the
    usual ones unless named). What predicts is their "mixture", weighted by held-out errors; where methods are named
    without it, the best one of the least held-out error, and without held-out rows the last of them.
    Methods but mean, ols and ridge learn from at most `context` rows (0: 500). "model" is a model of tables on `device`
    (default "cpu"): that of the run folder `model`, of task.family = tables, or without one the model that ships.

    With `lags` the rows are a series in the order of time: each target is forecast from so many targets before it, the
    last of which stands `ahead` rows before its own (0: 1), and from the features there; features may be None. Rows are
    held out in the order of time, each forecast from rows before it, and the row after the last one is predicted.
    `season`: its value of so many rows before is a feature and the method "last_season"."""
    labelled, new = learned_rows(features, targets, fresh, lags, ahead, season, repeats)
    return regress_rows(
        labelled,
        new,
        model=model,
        device=device,
        methods=methods,
        held_out=held_out,
        importances=importances,
        folds=folds,
        repeats=repeats,
        context=context,
        seed=seed,
    )


def regress_rows(
    labelled: Rows,
    fresh: Rows | None,
    *,
    model: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    methods: str | Sequence[str] | None = None,
    held_out: bool = True,
    mixture: Mixture | None = None,
    importances: bool = True,
    folds: int = 0,
    repeats: int = 0,
    context: int = 0,
    seed: int = 1,
) -> Regression:
    """The work of regress, for rows that stay from call to call; `mixture` of an earlier call for one without rows held
    out."""
    most_rows, stop = library.constants["ICL_TABLE_MAX_ROWS"], ctypes.c_int(0)
    asked_for = _methods(methods)
    usual = asked_for in (0, 1 << library.constants["ICL_METHOD_MIXTURE"])
    if model is None and (usual or asked_for >> library.constants["ICL_METHOD_MODEL"] & 1):
        model = library.take_text("icl_table_model_locate")
    opened = None if model is None else open_device("cpu" if device is None else device)
    given = _as_struct(mixture)
    params = library.struct(
        "icl_regression_params",
        table=ctypes.addressof(labelled.table),
        fresh=None if fresh is None else ctypes.addressof(fresh.table),
        model=None if model is None else library.encoded(model),
        backend=None if opened is None else opened.pointer,
        methods=asked_for,
        mixture=None if mixture is None else ctypes.addressof(given),
        folds=arguments.count("folds", folds, 2, most_rows, default=True),
        repeats=arguments.count("repeats", repeats, 1, 10000, default=True),
        context=arguments.count("context", context, 1, most_rows, default=True),
        seed=arguments.seed("seed", seed),
        without_held_out=not held_out,
        without_importance=not importances,
        without_options=True,
        stop=ctypes.addressof(stop),
    )
    handle = Handle("icl_regression_outcome_destroy")
    with opened or contextlib.nullcontext():
        library.call_until(stop, "icl_regress", ctypes.byref(params), handle.slot)
    return _read(library.at("icl_regression_outcome", handle.pointer.value or 0), labelled)


def _as_struct(mixture: Mixture | None) -> Any:
    made = library.struct("icl_method_mixture")
    for name, value in (mixture._asdict() if mixture is not None else {}).items():
        setattr(made, name, type(made.weights)(*value) if name == "weights" else value)
    return made


def _forecasts(address: int | None, rows: int) -> dict[str, numpy.ndarray[Any, Any]]:
    """A copy of [rows][ICL_METHODS] forecasts: an array [rows, methods] for each member."""
    methods = library.constants["ICL_METHODS"]
    members = [field[0] for field in library.declared.struct("icl_forecast")._fields_]
    values = numpy.empty((0, methods, len(members)))
    if address and rows > 0:
        count = rows * methods * len(members)
        values = numpy.array((ctypes.c_double * count).from_address(address)).reshape(rows, methods, len(members))
    return {member: values[:, :, i] for i, member in enumerate(members)}


def _table(address: int | None, rows: int, answer: int, ran: list[int]) -> dict[str, Any]:
    names, found = method_names(), _forecasts(address, rows)
    columns = {"prediction": found["mean"][:, answer], **{name: found[name][:, answer] for name in INTERVALS}}
    return {**columns, **{names[i]: found["mean"][:, i] for i in ran}}


def _read(outcome: Any, labelled: Rows) -> Regression:
    names = method_names()
    ran = [i for i in range(len(names)) if outcome.methods >> i & 1]
    made = Regression(_table(outcome.forecasts, outcome.predicted, outcome.answer, ran))
    made.best, made.answer, mixed = names[outcome.best], names[outcome.answer], outcome.mixture
    made.mixture = None
    if names.index("mixture") in ran:
        made.mixture = Mixture(tuple(mixed.weights), mixed.margin_50, mixed.margin_80, mixed.least_width)
    which, places, title = held_rows(outcome, labelled, bool(outcome.heldout))
    values = _table(outcome.heldout, outcome.labelled if outcome.heldout else 0, outcome.answer, ran)
    made.held_out = Table({**places, **{name: column[which] for name, column in values.items()}})
    columns = ("mse", "se", "relative_mse", "minus_best", "minus_best_se", "coverage_50", "coverage_80")
    made.scores = Table.from_rows(
        [
            {
                "predictor": names[i],
                **{column: getattr(outcome.scores[i], column) for column in columns},
                "weight": outcome.mixture.weights[i],
            }
            for i in ran
            if outcome.heldout
        ],
        title,
    )
    features = outcome.features if outcome.importances else 0
    count = 2 * features
    pairs = numpy.array((ctypes.c_double * count).from_address(outcome.importances)) if count else numpy.empty(0)
    known = labelled.names if labelled.names is not None else range(1, features + 1)
    made.importances = Table(
        {
            "feature": [str(name) for name in known][:features],
            "importance": pairs.reshape(-1, 2)[:, 0],
            "se": pairs.reshape(-1, 2)[:, 1],
        }
    )
    return made

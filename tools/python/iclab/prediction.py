"""A trained model applied in context to a user's arrays, beside classical regressions."""

from __future__ import annotations

import ctypes
import logging
import os
from typing import Any

import numpy

from . import _arguments as arguments
from . import _library as library
from . import _tensors as tensors
from ._devices import Device, Handle, open_device
from .errors import InputError
from .recipes import Recipe
from .tables import Table

_INPUTS = ("auto", "standardized", "whitened")
_MOST_REPEATS = 10000  # and prompts, as `iclab predict` has them

_logger = logging.getLogger("iclab")


def predictor_names(outcome: Any = None) -> list[str]:
    """The model, then what it is compared with; without an outcome those of a table that is no series."""
    count = library.constants["ICL_TABLE_PREDICTORS"]
    if outcome is not None:
        count = library.function("icl_predictor_count")(ctypes.byref(outcome))
    return [library.words(library.function("icl_predictor_name")(i)) for i in range(count)]


class Prediction(Table):
    """A column for each predictor, the model's first, and a row for each one asked for. `scores` has errors on
    held-out rows, `held_out` their predictions; both are empty where none were asked for. `notes` are warnings, a
    sentence each: what `iclab predict` prints below its table. They are logged, too."""

    scores: Table
    held_out: Table
    notes: list[str]


class Rows:
    """Rows and their targets, laid out as the library reads them: once, for many predictions."""

    def __init__(self, features: Any, targets: Any = None, *, like: Rows | None = None) -> None:
        """`like`: the rows that the model learns from, whose columns are found in these by name. Features may be None:
        the targets are a series, and make features themselves."""
        name = "the table" if like is None else "the new rows"
        given = numpy.empty((len(targets), 0)) if features is None else features
        rows = arguments.matrix(name, given)
        self.names = [] if features is None else arguments.column_names(features)
        places = None if like is None else arguments.places(name, self.names, like.names)
        rows = rows if places is None else rows[:, places]
        if targets is not None:
            rows = numpy.column_stack((rows, arguments.labels("targets", targets, len(rows))))
        self._lay_out(name, numpy.ascontiguousarray(rows))

    def _column_names(self, count: int) -> list[str]:
        """Those of a data frame, and "target"; else numbers from 1."""
        given = [*map(str, self.names), "target"][:count] if self.names is not None else []
        return given if len(given) == count else [str(i + 1) for i in range(count)]

    def __getstate__(self) -> tuple[Any, ...]:
        return self.name, self.names, self.values

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        name, self.names, values = state
        self._lay_out(name, values)

    def _lay_out(self, name: str, rows: numpy.ndarray[Any, Any]) -> None:
        self.name, self.values = name, rows
        self.lines = numpy.arange(1, len(rows) + 1, dtype=numpy.uintp)
        count = rows.shape[1]
        self._numbers = numpy.arange(1, count + 1, dtype=numpy.uintp)
        self._names = (ctypes.c_char_p * count)(*(name.encode() for name in self._column_names(count)))
        self._name = ctypes.create_string_buffer(name.encode())
        self.table = library.struct(
            "icl_table",
            name=ctypes.addressof(self._name),
            rows=rows.shape[0],
            columns=count,
            values=tensors.pointer(self.values),
            lines=tensors.pointer(self.lines),
            names=ctypes.addressof(self._names),
            numbers=tensors.pointer(self._numbers),
        )


class Series(Rows):
    """Rows in the order of time with the values before them as features, made by the library (icl_table_lag)."""

    def __init__(self, rows: Rows, lags: int, ahead: int, season: int) -> None:
        self.name, self._handle = rows.name, Handle("icl_table_destroy")
        series = library.struct("icl_time_series", lags=lags, ahead=ahead, season=season)
        library.call("icl_table_lag", ctypes.byref(rows.table), ctypes.byref(series), self._handle.slot)
        self.table = library.at("icl_table", self._handle.pointer.value or 0)
        names = (ctypes.c_char_p * (self.table.columns - 1)).from_address(self.table.names)
        self.names = [library.words(name) for name in names]
        self.lines = numpy.array((ctypes.c_size_t * self.table.rows).from_address(self.table.lines))


def learned_rows(
    features: Any, targets: Any, fresh: Any, lags: int, ahead: int, season: int, repeats: int, prompts: int = 0
) -> tuple[Rows, Rows | None]:
    """The rows that are learned from, as a series if there are lags, and the new ones."""
    if targets is None:
        raise InputError("targets = None: expected [rows], with NaN where one is to be predicted")
    most_rows = library.constants["ICL_TABLE_MAX_ROWS"]
    lags = arguments.count("lags", lags, 1, library.constants["ICL_REGRESSION_MAX_FEATURES"], default=True)
    ahead = arguments.count("ahead", ahead, 1, most_rows, default=True)
    season = arguments.count("season", season, 1, most_rows, default=True)
    if lags == 0:
        if ahead or season or features is None:
            word = "ahead" if ahead else "season" if season else "features = None"
            raise InputError(f"{word} without lags: expected lags of 1 or more, which make a series")
        labelled = Rows(features, targets)
        return labelled, None if fresh is None else Rows(fresh, like=labelled)
    for word, given in (("fresh", fresh is not None), ("repeats", repeats), ("prompts", prompts)):
        if given:
            raise InputError(f"lags and {word}: expected one of them: the rows are a series, in the order of time")
    return Series(Rows(features, targets), lags, ahead, season), None


def held_rows(outcome: Any, labelled: Rows, held_out: bool) -> tuple[slice, dict[str, numpy.ndarray[Any, Any]], str]:
    """Which of the labelled rows were held out, a column `row` of their places in a series, and a title."""
    which, count = slice(outcome.held_from, outcome.labelled), outcome.labelled - outcome.held_from
    if not held_out:
        return slice(0, 0), {}, ""
    if outcome.series.lags == 0:
        return which, {}, f"{count} rows held out in {outcome.folds} parts, {outcome.repeats} times"
    places = numpy.array((ctypes.c_size_t * outcome.labelled).from_address(outcome.rows))[which]
    title = f"{count} rows of a series in {outcome.folds} parts, each forecast from the rows before it"
    return which, {"row": labelled.lines[places].astype(int) - 1}, title


def predict_rows(
    folder: str | os.PathLike[str],
    recipe: Recipe,
    labelled: Rows,
    fresh: Rows | None,
    *,
    device: str | Device | None = None,
    held_out: bool = True,
    folds: int = 0,
    repeats: int = 0,
    context: int = 0,
    prompts: int = 0,
    seed: int = 1,
    inputs: str = "auto",
) -> Prediction:
    """The work of Run.predict, for rows that stay from call to call."""
    opened, most_rows = open_device(device), library.constants["ICL_TABLE_MAX_ROWS"]
    stop = ctypes.c_int(0)
    params = library.struct(
        "icl_predict_params",
        backend=opened.pointer,
        folder=library.encoded(folder),
        recipe=recipe.pointer,
        table=ctypes.addressof(labelled.table),
        fresh=None if fresh is None else ctypes.addressof(fresh.table),
        folds=arguments.count("folds", folds, 2, most_rows, default=True),
        repeats=arguments.count("repeats", repeats, 1, _MOST_REPEATS, default=True),
        context=arguments.count("context", context, 1, most_rows, default=True),
        prompts=arguments.count("prompts", prompts, 1, _MOST_REPEATS, default=True),
        seed=arguments.seed("seed", seed),
        inputs=arguments.word("inputs", inputs, _INPUTS),
        without_held_out=not held_out,
        without_options=True,
        stop=ctypes.addressof(stop),
    )
    handle = Handle("icl_predict_outcome_destroy")
    with opened:
        library.call_until(stop, "icl_predict", ctypes.byref(params), handle.slot)
    made = _read(library.at("icl_predict_outcome", handle.pointer.value or 0), labelled, held_out)
    made.notes = _notes(handle, labelled)
    for note in made.notes:
        _logger.warning("%s", note)
    return made


def _notes(outcome: Handle, labelled: Rows) -> list[str]:
    notes = library.struct("icl_text")
    try:
        library.call("icl_predict_notes", outcome, ctypes.byref(labelled.table), ctypes.byref(notes))
        return library.words(ctypes.string_at(notes.bytes, notes.length)).splitlines() if notes.bytes else []
    finally:
        library.function("icl_text_release")(ctypes.byref(notes))


def _matrix(address: int | None, rows: int) -> numpy.ndarray[Any, Any]:
    """A copy of [rows][ICL_PREDICTORS]."""
    columns = library.constants["ICL_PREDICTORS"]
    if not address or rows == 0:
        return numpy.empty((0, columns))
    return numpy.array((ctypes.c_double * (rows * columns)).from_address(address)).reshape(rows, columns)


def _read(outcome: Any, labelled: Rows, held_out: bool) -> Prediction:
    names = predictor_names(outcome)
    which, places, title = held_rows(outcome, labelled, held_out)
    values = _matrix(outcome.predictions, outcome.predicted)
    made = Prediction({name: values[:, i] for i, name in enumerate(names)})
    values = _matrix(outcome.heldout, outcome.labelled)
    made.held_out = Table({**places, **{name: values[which, i] for i, name in enumerate(names)}})
    columns = ("mse", "se", "minus_model", "minus_model_se", "r_squared")
    made.scores = Table.from_rows(
        [
            {"predictor": name, **{column: getattr(score, column) for column in columns}}
            for name, score in zip(names, outcome.scores)
            if held_out
        ],
        title,
    )
    return made

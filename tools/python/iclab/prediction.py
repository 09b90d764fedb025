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
from .recipes import Recipe
from .tables import Table

_INPUTS = ("auto", "standardized", "whitened")
_MOST_REPEATS = 10000  # and prompts, as `iclab predict` has them

_logger = logging.getLogger("iclab")


def predictor_names() -> list[str]:
    """The model, then what it is compared with."""
    count = library.constants["ICL_PREDICTORS"]
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
        """`like`: the rows that the model learns from, whose columns are found in these by name."""
        name = "the table" if like is None else "the new rows"
        rows, self.names = arguments.matrix(name, features), arguments.column_names(features)
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
    made = _read(library.at("icl_predict_outcome", handle.pointer.value or 0), held_out)
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


def _read(outcome: Any, held_out: bool) -> Prediction:
    names = predictor_names()
    values = _matrix(outcome.predictions, outcome.predicted)
    made = Prediction({name: values[:, i] for i, name in enumerate(names)})
    values = _matrix(outcome.heldout, outcome.labelled)
    made.held_out = Table({name: values[:, i] for i, name in enumerate(names)})
    columns = ("mse", "se", "minus_model", "minus_model_se", "r_squared")
    made.scores = Table.from_rows(
        [
            {"predictor": name, **{column: getattr(score, column) for column in columns}}
            for name, score in zip(names, outcome.scores)
            if held_out
        ],
        f"{outcome.labelled} rows held out in {outcome.folds} parts, {outcome.repeats} times" if held_out else "",
    )
    return made

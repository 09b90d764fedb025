"""A trained model applied in context to a user's arrays, beside classical regressions."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy

from . import _library as library
from . import _tensors as tensors
from ._devices import Device, Handle, open_device
from .errors import InputError
from .recipes import Recipe
from .tables import Table

_INPUTS = ("auto", "standardized", "whitened")


def predictor_names() -> list[str]:
    """The model, then what it is compared with."""
    count = library.constants["ICL_PREDICTORS"]
    return [library.words(library.function("icl_predictor_name")(i)) for i in range(count)]


class Prediction(Table):
    """A column for each predictor, the model's first, and a row for each one asked for. `scores` has errors on
    held-out rows, `held_out` their predictions; both are empty where none were asked for."""

    scores: Table
    held_out: Table


class Rows:
    """Rows and their targets, laid out as the library reads them: once, for many predictions."""

    def __init__(self, features: Any, targets: Any = None) -> None:
        rows = numpy.asarray(features, numpy.float64)
        if rows.ndim != 2:
            raise InputError(f"rows of shape {rows.shape}: expected [rows, features]")
        if not numpy.isfinite(rows).all():
            raise InputError("a feature is NaN or infinite: expected finite numbers")
        if targets is not None:
            labels = numpy.asarray(targets, numpy.float64)
            if labels.shape != rows.shape[:1]:
                raise InputError(f"targets of shape {labels.shape}: expected [{rows.shape[0]}], one for each row")
            if numpy.isinf(labels).any():
                raise InputError("a target is infinite: expected a finite number, or NaN where it is to be predicted")
            rows = numpy.column_stack((rows, labels))
        self._lay_out(numpy.ascontiguousarray(rows))

    def __getstate__(self) -> numpy.ndarray[Any, Any]:
        return self.values

    def __setstate__(self, values: numpy.ndarray[Any, Any]) -> None:
        self._lay_out(values)

    def _lay_out(self, rows: numpy.ndarray[Any, Any]) -> None:
        self.values = rows
        self.lines = numpy.arange(1, len(rows) + 1, dtype=numpy.uintp)
        count = rows.shape[1]
        self._numbers = numpy.arange(1, count + 1, dtype=numpy.uintp)
        self._names = (ctypes.c_char_p * count)(*(str(i + 1).encode() for i in range(count)))
        self._name = ctypes.create_string_buffer(b"the array")
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
    seed: int = 0,
    inputs: str = "auto",
) -> Prediction:
    """The work of Run.predict, for rows that stay from call to call."""
    if inputs not in _INPUTS:
        raise InputError(f"inputs {inputs!r}: expected one of {', '.join(_INPUTS)}")
    opened = open_device(device)
    params = library.struct(
        "icl_predict_params",
        backend=opened.pointer,
        folder=library.encoded(folder),
        recipe=recipe.pointer,
        table=ctypes.addressof(labelled.table),
        fresh=None if fresh is None else ctypes.addressof(fresh.table),
        folds=folds,
        repeats=repeats,
        context=context,
        prompts=prompts,
        seed=seed,
        inputs=_INPUTS.index(inputs),
        without_held_out=not held_out,
    )
    handle = Handle("icl_predict_outcome_destroy")
    with opened:
        library.call("icl_predict", ctypes.byref(params), handle.slot)
    return _read(library.at("icl_predict_outcome", handle.pointer.value or 0), held_out)


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

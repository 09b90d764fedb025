"""Tasks whose sequences come from arrays: rows of an array, or windows of a stream of symbols."""

from __future__ import annotations

from typing import Any, Mapping

import numpy

from . import _arguments as arguments
from .errors import InputError
from .own_predictors import Function
from .own_tasks import Array, Task
from .tasks import TaskShape


def task_of_data(
    inputs: Any,
    targets: Any = None,
    *,
    name: str = "data",
    length: int = 64,
    held_out: float = 0.1,
    predictors: Mapping[str, Function] | None = None,
) -> Task:
    """A task of sequences that are there.

    inputs: whole numbers [N], a stream, of which sequences are windows of `length`; whole numbers [N, T], sequences of
    symbols; or real numbers [N, T, p]. targets: of whole numbers [N, S], the classes at the last S positions, or of
    real numbers [N, S] or [N, S, q]; left out, every position is to tell the next one.

    Trainings draw from the first part of the rows, with replacement, and evaluations from the last one: `held_out` of
    all rows, which should therefore be in an order that makes the parts alike, or of the stream, whose parts share no
    symbol.
    """
    values = arguments.numbers("inputs", inputs)
    is_symbols = values.dtype.kind in "iu"
    if values.ndim not in ((1, 2) if is_symbols else (3,)) or 0 in values.shape:
        raise InputError(f"inputs of type {values.dtype}, shape {list(values.shape)}: {_EXPECTED}")
    gap = 0
    if values.ndim == 1:
        if targets is not None:
            raise InputError("targets beside a stream of symbols: expected none, or sequences [N, T]")
        gap = length = arguments.count("length", length, 1, max(len(values) // 4, 1))
        values = numpy.lib.stride_tricks.sliding_window_view(values, length + 1)
    if targets is None:
        if values.shape[1] < 2:
            raise InputError("sequences of one position and no targets: expected two positions or more")
        shown, wanted = values[:, :-1], values[:, 1:]
    else:
        shown, wanted = values, arguments.numbers("targets", targets)
    return Task(
        _Rows(shown, wanted, held_out, gap).sample, _shape_of(shown, wanted), name=name, predictors=predictors,
    )


_EXPECTED = "expected whole numbers [N] or [N, T], or real numbers [N, T, p]"


def _shape_of(shown: Array, wanted: Array) -> TaskShape:
    positions = shown.shape[1]
    if wanted.shape[:1] != shown.shape[:1] or not 2 <= wanted.ndim <= 3 or not 1 <= wanted.shape[1] <= positions:
        raise InputError(
            f"targets of shape {list(wanted.shape)} beside {list(shown.shape)}: expected [N, S] or [N, S, q], S from 1 "
            f"to {positions}"
        )
    sizes: dict[str, Any] = {"positions": positions, "first_scored": positions - wanted.shape[1]}
    symbols = 0
    if shown.ndim == 2:
        symbols = int(shown.max()) + 1
    else:
        sizes["inputs"] = shown.shape[2]
    if wanted.dtype.kind in "iu":
        classes = int(wanted.max()) + 1
        if symbols and wanted.base is shown.base:  # the next symbol is one of all
            symbols = classes = max(symbols, classes)
        sizes.update(outputs=classes, loss="cross-entropy")
    else:
        sizes["outputs"] = wanted.shape[2] if wanted.ndim == 3 else 1
    return TaskShape(symbols=symbols, **sizes)


class _Rows:
    """Rows for trainings before a place, and for evaluations behind it and a gap of rows."""

    def __init__(self, shown: Array, wanted: Array, held_out: float, gap: int) -> None:
        count, self._gap = len(shown), gap
        if not 0 < held_out < 1 or not 1 <= round(count * held_out) - gap < count - gap:
            raise InputError(f"held_out = {held_out!r} of {count} sequences: expected a share with some on each side")
        self._shown, self._wanted, self._place = shown, wanted, count - round(count * held_out)

    def sample(self, random: numpy.random.Generator, size: int, purpose: str) -> tuple[Array, Array]:
        ends = (self._place + self._gap, len(self._shown)) if purpose == "evaluation" else (0, self._place)
        rows = random.integers(*ends, size)
        return self._shown[rows], self._wanted[rows]

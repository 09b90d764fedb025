"""Arguments as the library takes them. Every function of the package converts and checks what it is given here: whole
numbers within their limits, words, devices' seeds, and arrays of numbers, whatever library they come from."""

from __future__ import annotations

import operator
from typing import Any, Sequence

import numpy

from .errors import InputError

LARGEST_SEED = 2**32 - 1
LARGEST_COUNT = 2**63 - 1
LARGEST_STEP = 2**64 - 1

Array = numpy.ndarray[Any, Any]


# ---- Numbers and words ----


def count(name: str, value: Any, least: int, most: int, *, default: bool = False) -> int:
    """A whole number from `least` to `most`; with `default` also 0, which asks for the library's own choice."""
    try:
        number = -1 if isinstance(value, (bool, numpy.bool_)) else operator.index(value)
    except TypeError:
        number = -1
    if least <= number <= most or (default and number == 0):
        return number
    words = f"a whole number from {least} to {most}" + (", or 0 for the default" if default else "")
    raise InputError(f"{name} = {value!r}: expected {words}")


def seed(name: str, value: Any) -> int:
    return count(name, value, 0, LARGEST_SEED)


def random_state(name: str, value: Any, default: int) -> int:
    """A seed of what scikit-learn takes as random_state: None, a whole number, or a generator, which is drawn from."""
    if value is None:
        return default
    if isinstance(value, numpy.random.RandomState):
        return int(value.randint(0, 2**32, dtype=numpy.uint32))
    if isinstance(value, numpy.random.Generator):
        return int(value.integers(0, 2**32, dtype=numpy.uint32))
    return seed(name, value)


def word(name: str, value: Any, words: Sequence[str]) -> int:
    """The place of a word among those that are allowed."""
    if value not in words:
        raise InputError(f"{name} = {value!r}: expected one of {', '.join(words)}")
    return words.index(value)


def function(name: str, value: Any) -> None:
    """Refuses what cannot be called; None is none."""
    if value is not None and not callable(value):
        raise InputError(f"{name} = {value!r}: expected a function")


# ---- Arrays ----


def unmasked(values: Any) -> Any:
    """A masked array with NaN where it is masked; everything else as it is."""
    if isinstance(values, numpy.ma.MaskedArray):
        is_real = values.dtype.kind in "biuf"
        return numpy.ma.filled(values.astype(numpy.float64), numpy.nan) if is_real else values.data
    return values


def _number(name: str, value: Any) -> float:
    """An element of an array of objects. pandas.NA and None are missing."""
    if value is None or type(value).__name__ == "NAType":
        return numpy.nan
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} holds {repr(value)[:60]}: expected numbers") from None


def numbers(name: str, values: Any) -> Array:
    """An array of real numbers, as the type that they have. What is masked or missing is NaN."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InputError(f"{name}: a sparse matrix: expected an array, such as its .toarray()")
    try:
        array = numpy.asarray(unmasked(values))
    except (TypeError, ValueError) as failure:
        raise InputError(f"{name}: {failure}: expected an array of numbers") from None
    if array.dtype.kind == "O":
        flat = [_number(name, value) for value in array.ravel()]
        return numpy.array(flat, numpy.float64).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} is of type {array.dtype}: expected real numbers")
    return array


def doubles(name: str, values: Any) -> Array:
    """In row-major order and aligned: the array itself where it is that, without a copy."""
    return numpy.require(numbers(name, values), numpy.float64, ["C", "ALIGNED"])


def sequences(name: str, values: Any) -> Array:
    """The same for inputs [B, T, p], of doubles where the values are doubles; everything else, and symbols [B, T], as
    floats."""
    array = numbers(name, values)
    is_double = array.dtype == numpy.float64 and array.ndim != 2
    return numpy.require(array, numpy.float64 if is_double else numpy.float32, ["C", "ALIGNED"])


# ---- Rows of a table ----


def column_names(values: Any) -> list[Any] | None:
    """The labels of a data frame's columns; None of an array, which has none."""
    columns = getattr(values, "columns", None)
    return None if columns is None else list(columns)


def matrix(name: str, values: Any) -> Array:
    """Finite features [rows, features]."""
    rows = doubles(name, values)
    if rows.ndim != 2:
        raise InputError(f"{name} of shape {rows.shape}: expected [rows, features]")
    lost = numpy.argwhere(~numpy.isfinite(rows))
    if len(lost):
        row, column = lost[0]
        label = (column_names(values) or range(rows.shape[1]))[column]
        raise InputError(
            f"{name}: a feature is NaN, masked or infinite in row {row} of column {label!r}, where 0 is the first row: "
            "expected finite numbers"
        )
    return rows


def labels(name: str, values: Any, rows: int) -> Array:
    """Targets [rows]; NaN where one is to be predicted."""
    targets = doubles(name, values)
    if targets.shape != (rows,):
        raise InputError(f"{name} of shape {targets.shape}: expected [{rows}], one for each row")
    if numpy.isinf(targets).any():
        raise InputError(f"{name}: a target is infinite: expected a finite number, or NaN where it is to be predicted")
    return targets


def places(name: str, names: list[Any] | None, wanted: list[Any] | None) -> list[int] | None:
    """Where the wanted columns stand among these, by name; None where either has no names: then places are theirs."""
    if names is None or wanted is None or names == wanted:
        return None
    for column in wanted:
        if names.count(column) != 1 or wanted.count(column) != 1:
            raise InputError(
                f"{name}: column {column!r} stands there {names.count(column)} times, and {wanted.count(column)} times "
                "in the table: expected it once in both; numpy.asarray takes the names away"
            )
    return [names.index(column) for column in wanted]

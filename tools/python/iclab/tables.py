"""Tables: columns by name as arrays of NumPy, shown as text and in notebooks."""

from __future__ import annotations

import csv
import html
import math
import os
from typing import Any, Dict, Iterable, Mapping, Sequence

import numpy

from .errors import InputError


def _array(values: Sequence[Any]) -> numpy.ndarray[Any, Any]:
    """None is NaN among numbers. Lists and texts stay objects."""
    plain = [math.nan if value is None else value for value in values]
    if all(isinstance(value, (bool, numpy.bool_)) for value in plain):
        return numpy.array(plain, bool)
    if all(isinstance(value, (int, numpy.integer)) and not isinstance(value, bool) for value in plain):
        return numpy.array(plain, numpy.int64)
    if all(isinstance(value, (int, float, numpy.number)) for value in plain):
        return numpy.array(plain, numpy.float64)
    made = numpy.empty(len(plain), object)
    made[:] = ["" if value is None else value for value in values]
    return made


def _text(value: Any) -> str:
    if isinstance(value, (float, numpy.floating)):
        return "" if math.isnan(value) else f"{value:.5g}"
    return str(value)


class Table(Dict[str, "numpy.ndarray[Any, Any]"]):
    """table["mse"] is a column; table.row(0) and, where rows have a name, table.row("ridge") are dictionaries, as
    table.rows() gives them; table.to_pandas() is a data frame, table.plot("n", "mse", by="predictor") a picture."""

    def __init__(self, columns: Mapping[str, Any], title: str = "") -> None:
        self.title = title
        super().__init__(
            (name, values if isinstance(values, numpy.ndarray) else _array(values)) for name, values in columns.items()
        )
        for name, values in self.items():
            if len(values) != self.row_count:
                raise InputError(f"column {name} of {len(values)} rows: expected {self.row_count}, as the first has")

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]], title: str = "") -> Table:
        names = list(dict.fromkeys(name for row in rows for name in row))
        return cls({name: [row.get(name) for row in rows] for name in names}, title)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], title: str = "") -> Table:
        """A file that iclab wrote: an empty field is NaN."""
        with open(path, newline="", encoding="utf-8") as file:
            names, *rows = [*csv.reader(file)] or [[]]
        for line, row in enumerate([names, *rows], 1):
            if len(row) != len(names) or not names:
                raise InputError(f"{os.fspath(path)}:{line}: {len(row)} fields: expected {len(names) or 'a header'}")
        columns: dict[str, Any] = {}
        for i, name in enumerate(names):
            texts = [row[i] for row in rows]
            try:
                columns[name] = numpy.array([float(text) if text else math.nan for text in texts])
            except ValueError:
                columns[name] = texts
        return cls(columns, title)

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"{name}: expected one of {', '.join(self)}")

    @property
    def row_count(self) -> int:
        return len(next(iter(self.values()))) if self else 0

    def row(self, which: int | str) -> dict[str, Any]:
        """A row by number, or by what its first column says."""
        if isinstance(which, str):
            names = [str(name) for name in next(iter(self.values()), ())]
            if names.count(which) != 1:
                known = ", ".join(dict.fromkeys(names))
                raise KeyError(f"{which}: {names.count(which)} rows of this name: expected one of {known}")
            which = names.index(which)
        return {name: values[which] for name, values in self.items()}

    def with_numbers(self, names: Iterable[str]) -> Table:
        """Turns columns of texts that are all numbers into numbers. Returns the table itself."""
        for name in names:
            try:
                self[name] = numpy.array([float(text) for text in self[name]])
            except (KeyError, ValueError):
                pass
        return self

    def to_pandas(self) -> Any:
        """A pandas.DataFrame, for which pandas is needed."""
        try:
            import pandas
        except ImportError as failure:
            raise InputError(f"to_pandas: {failure}: expected the package pandas") from None
        return pandas.DataFrame(dict(self))

    def plot(self, x: str, y: str, *, by: str | None = None, error: str | None = None, axes: Any = None) -> Any:
        """Draws column y over column x, a line for each value of column `by`, with `error` (such as "se") as bars.
        Returns the axes, of matplotlib, which is needed; new ones where `axes` is left out."""
        try:
            import matplotlib.pyplot
        except ImportError as failure:
            raise InputError(f"plot: {failure}: expected the package matplotlib") from None
        if axes is None:
            axes = matplotlib.pyplot.subplots()[1]
        curves = [None] if by is None else list(dict.fromkeys(self[by]))
        for curve in curves:
            rows = [i for i in range(self.row_count) if by is None or self[by][i] == curve]
            bars = None if error is None else self[error][rows]
            axes.errorbar(self[x][rows], self[y][rows], yerr=bars, label=None if curve is None else str(curve))
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_title(self.title)
        if by is not None:
            axes.legend(title=by)
        return axes

    def rows(self) -> list[dict[str, Any]]:
        return [self.row(i) for i in range(self.row_count)]

    def _cells(self, most: int) -> list[list[str]]:
        """The first rows and the last, at most `most` of them, with dots between."""
        count = self.row_count
        kept = list(range(count)) if count <= most else [*range(most // 2), -1, *range(count - most // 2, count)]
        return [["…" if i < 0 else _text(values[i]) for values in self.values()] for i in kept]

    def __repr__(self) -> str:
        lines = [list(self), *self._cells(20)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self))]
        shown = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        return "\n".join([self.title] * bool(self.title) + shown)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in self._cells(60)
        )
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def example_table(name: str) -> Table:
    """A table that iclab brings along: "swiss" or "states"; tools/data/README.md says what they hold."""
    from . import _library as library

    folder = library.INSTALLED / "share" / "iclab" / "data"
    folder = folder if folder.is_dir() else library.SOURCES / "tools" / "data"
    known = sorted(path.stem for path in folder.glob("*.csv"))
    if name not in known:
        raise InputError(f"example_table({name!r}): expected one of {', '.join(known)}")
    return Table.from_csv(folder / f"{name}.csv", name)

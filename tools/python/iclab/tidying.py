"""Tables as people have them, made columns of numbers by pandas."""

from __future__ import annotations

import csv
import io
import itertools
import os
import pathlib
import re
import statistics
from typing import Any, Sequence

from . import _arguments as arguments
from .errors import FileError, InputError

MOST_CATEGORIES = 64

_MISSING = {"", *"na n/a #n/a <na> n.a. nan -nan null none nil nat ? . - -- missing".split()}
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "blanks"}
_BLANKS = " \t\u00a0\u202f\u2009"
_UNIT = r"(%|\$|€|£|¥|₹|USD|EUR|GBP|CHF|JPY)?"
_DIGITS = rf"([\d.,'’{_BLANKS}]*\d[.,]?(?:[eE][-+]?\d+)?)"
_NUMBER = re.compile(rf"^{_UNIT}[{_BLANKS}]*([-+−]?)[{_BLANKS}]*{_UNIT}[{_BLANKS}]*{_DIGITS}[{_BLANKS}]*{_UNIT}$")
_TIME = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:[ap]m)?\s*(?:z|[-+]\d\d:?\d\d)?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY = (r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{4}[-/]\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d\d)"
        rf"|(?:\d{{1,2}}[-/., ]*)?{_MONTH}[-/., ]*(?:\d{{1,2}},? )?\d{{2,4}})")
_DATE = re.compile(rf"(?i){_DAY}(?:[t ]{_TIME})?$|{_TIME}$")
_DAY_AND_MONTH = re.compile(r"^(\d{1,2})([-/.])(\d{1,2})\2\d")
_IDENTIFIER = re.compile(r"(?i:id|index|idx|row|row ?names?|rowid|key|no\.?|nr\.?|uuid|guid|number|#|i|sample|case"
                         r"|record|unnamed.*|column \d+|.*[_ ]id)$|.*I[dD]$")


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as failure:
        raise InputError(f"read_table: {failure}: expected the package pandas, 2.0 or newer") from None
    return pandas


# ---- Text ----


def _text(source: Any) -> tuple[str, str]:
    """The name of the table in messages, and its text."""
    if hasattr(source, "read"):
        content, name = source.read(), getattr(source, "name", "the table")
    else:
        name = os.fspath(source)
        try:
            content = pathlib.Path(name).read_bytes()
        except OSError as failure:
            raise FileError(f"{name}: {failure.strerror}") from None
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return name, content if isinstance(content, str) else content.decode(encoding)
    except UnicodeDecodeError as failure:
        raise InputError(f"{name}: {failure}: expected UTF-8 or UTF-16") from None


def _rows(text: str, separator: str, strict: bool) -> list[tuple[int, list[str]]]:
    """Lines and fields, without what is empty."""
    if separator == " ":
        text = "\n".join(re.sub("[ \t]+", " ", line).strip() for line in text.splitlines())
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=strict)
    rows, line = [], 1
    for row in reader:
        rows.append((line, [field.strip() for field in row]))
        line = reader.line_num + 1
    return [(line, row) for line, row in rows if any(row)]


def _is_value(field: str) -> bool:
    return field.lower() in _MISSING or bool(_NUMBER.match(field) or _DATE.match(field))


def _score(text: str, separator: str) -> tuple[float, float]:
    """How well a separator takes lines apart: the share of lines with as many fields as most, and that share weighted
    by how many fields are numbers or dates."""
    rows = [row for _, row in _rows(text, separator, False)]
    width = statistics.mode(map(len, rows)) if rows else 0
    fields = [field for row in rows[1:] for field in row]
    share = sum(map(_is_value, fields)) / max(len(fields), 1)
    even = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0
    return even, even * (0.25 + share)


def _separator(text: str) -> str:
    """Tabs, semicolons and bars that take every line apart leave no doubt about blanks, which texts have, too."""
    scores = {one: _score(text, one) for one in _SEPARATORS}
    sure = [one for one in "\t;|" if scores[one][0] == 1]
    return max([",", *sure] if sure else scores, key=lambda one: scores[one][1])


def _cells(pandas: Any, source: Any, separator: str | None, header: bool | None, steps: list[str]) -> tuple[str, Any]:
    """A frame of texts, NaN where there is none, by the lines of the file."""
    name, text = _text(source)
    declared = re.match(r"\ufeff?sep=(.)\r?\n", text)
    text = text[declared.end() :] if declared else text.lstrip("\ufeff")
    try:
        if separator is None:
            separator = declared[1] if declared else _separator(text[:65536])
        rows = _rows(text, separator, True)
    except (csv.Error, TypeError) as failure:
        raise InputError(f"{name}: {failure}: expected fields in quotes where they hold a separator") from None
    if not rows:
        raise InputError(f"{name}: empty: expected a table")
    if separator != ",":
        steps.append(f"fields are separated by {_SEPARATORS.get(separator, repr(separator))}")
    width = statistics.mode(len(row) for _, row in rows)
    rows = [(line, row if any(row[width:]) else row[:width]) for line, row in rows]
    first = next(i for i, (_, row) in enumerate(rows) if len(row) == width)
    if first > 0 and len(rows[first - 1][1]) == width - 1 and any(map(_is_value, rows[first][1])):
        first -= 1  # R's write.table has no name above row names; a separator may end every line but this
        rows[first] = (rows[first][0], [""] + rows[first][1] if any(row[-1] for _, row in rows[first + 1 :])
                       else rows[first][1] + [""])
    if first > 0:
        steps.append(f"{first} line{'s' * (first > 1)} above the table: left out")
    for line, row in rows[first:] + [one for one in rows[:first] if len(one[1]) > width]:
        if len(row) != width:
            raise InputError(f"{name}:{line}: {len(row)} fields: expected {width}, as most lines have")
    names = _names(name, rows[first], header)
    body = rows[first + (names is not None) :]
    frame = pandas.DataFrame([row for _, row in body], index=[line for line, _ in body], dtype=object)
    frame.columns = names or [str(i + 1) for i in range(width)]
    return name, frame.mask(frame.apply(lambda column: column.str.lower().isin(_MISSING)))


def _names(name: str, first: tuple[int, list[str]], header: bool | None) -> list[str] | None:
    """Names of columns, each once; None where the first row has none."""
    line, row = first
    numbers = [field for field in row if field and _NUMBER.match(field)]
    if header is None and numbers and len(numbers) < sum(map(bool, row)):
        raise InputError(f"{name}:{line}: names and numbers in the first line: expected header=True or header=False")
    if header is None and len(numbers) > 1 and numbers == [*map(str, range(len(numbers)))]:
        raise InputError(f"{name}:{line}: the first line counts 0, 1, …: expected header=True or header=False")
    if not (not numbers if header is None else header):
        return None
    names: list[str] = []
    for i, field in enumerate(row, 1):
        plain = " ".join(field.split()) or f"column {i}"
        turns = (f"{plain}.{turn}" if turn > 1 else plain for turn in itertools.count(1))
        names.append(next(one for one in turns if one not in names))
    return names


# ---- Columns ----


def _refuse(place: str, wrong: Any, expected: str) -> None:
    """The first of the cells that are wrong, if there is one."""
    if len(wrong) > 0:
        raise InputError(f"{place}: {wrong.iloc[0][:60]!r} in line {wrong.index[0]}: expected {expected}; "
                         f"exclude=[{wrong.name!r}] leaves the column out")


def _parts(cells: Any) -> Any:
    """Sign, digits and unit of what is a number, NaN where none is."""
    found = cells.str.extract(_NUMBER)
    unit = found[0].fillna(found[2]).fillna(found[4]).fillna("no unit")
    return found[[1, 3]].set_axis(["sign", "digits"], axis=1).assign(unit=unit)


def _plain(digits: Any, decimal: str) -> Any:
    """Digits as Python has them, and NaN where they are no number with this decimal mark."""
    gap = f"[{',' if decimal == '.' else '.'}'’{_BLANKS}]"
    pattern = rf"(?:\d*|[1-9]\d{{0,2}}({gap})\d{{3}}(?:\1\d{{3}})*)(?:[{decimal}]\d*)?(?:[eE][-+]?\d+)?"
    valid = digits.str.fullmatch(pattern).fillna(False).astype(bool)
    return digits.where(valid).str.replace(gap, "", regex=True).str.replace(decimal, ".", regex=False)


def _decimal(name: str, columns: dict[str, Any]) -> str:
    """The mark that numbers show; a point where they show none."""
    shown: dict[str, str] = {}
    doubtful = None
    for column, found in columns.items():
        point, comma = (_plain(found.digits, mark).notna() for mark in ".,")
        shown.update({mark: column for mark, only in ((".", point & ~comma), (",", comma & ~point)) if only.any()})
        digits = found.digits.dropna()
        grouped, hundreds = (digits[digits.str.fullmatch(p)] for p in (r"[1-9]\d{0,2}[.,]\d{3}", r"[1-9]\d\d"))
        if doubtful is None and len(grouped) > 0 and (len(hundreds) > 0 or grouped.str.contains(",").any()):
            doubtful = f"{name}: {column}: {grouped.iloc[0]}"
    if len(shown) == 2:
        raise InputError(f"{name}: decimal points in {shown['.']}, decimal commas in {shown[',']}: expected one of "
                         f"them; exclude=[{shown[',']!r}] leaves a column out")
    if doubtful and not shown:
        raise InputError(f"{doubtful}: a decimal mark, or one between thousands: expected decimal='.' or decimal=','")
    return next(iter(shown), ".")


def _numbers(place: str, cells: Any, parts: Any, decimal: str, steps: list[str]) -> Any:
    plain = _plain(parts.digits, decimal)
    _refuse(place, cells[cells.notna() & plain.isna()], "a number")
    present = plain.notna()
    units = parts.unit[present].unique()
    for unit in units[:1]:
        _refuse(place, cells[present & (parts.unit != unit)], f"numbers in {unit}")
    if len(units) > 0 and units[0] != "no unit":
        steps.append(f"{cells.name}: numbers in {units[0]}, which is taken off")
    grouped = int((plain[present] != parts.digits[present].str.replace(decimal, ".", regex=False)).sum())
    if grouped:
        steps.append(f"{cells.name}: thousands put together in {grouped}")
    return plain.astype(float) * parts.sign.isin(["-", "−"]).map({True: -1.0, False: 1.0})


def _dates(pandas: Any, place: str, cells: Any, dayfirst: bool | None, steps: list[str]) -> Any:
    """Days since 1970-01-01, or hours of times of day."""
    parts = cells.str.extract(_DAY_AND_MONTH)
    unclear, (day, month) = parts[0].notna(), ((parts[group].astype(float) > 12).any() for group in (0, 2))
    if dayfirst is None and (day != month or not day and (parts[1].dropna() == ".").all()):
        dayfirst = not month
    if dayfirst is None or (month if dayfirst else day):
        _refuse(place, cells[unclear], "dates that dayfirst=True or dayfirst=False fits")
    times = cells.str.match(f"(?i){_TIME}$").fillna(False).astype(bool)
    is_time = bool((times | cells.isna()).all())
    _refuse(place, cells[times & (not is_time)], "a date")
    texts = "1970-01-01 " + cells if is_time else cells
    settings = {"errors": "coerce", "format": "mixed", "utc": True}
    moments = pandas.to_datetime(texts.mask(unclear), **settings)  # dayfirst would swap 2024-01-03, too
    moments = moments.fillna(pandas.to_datetime(texts.where(unclear), dayfirst=bool(dayfirst), **settings))
    _refuse(place, cells[cells.notna() & moments.isna()], "a date")
    steps.append(f"{cells.name}: " + ("times of day as hours" if is_time else "dates as days since 1970-01-01"))
    return (moments - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(hours=1 if is_time else 24)


def _why_left_out(values: Any, is_text: bool, one_hot: bool) -> str | None:
    present = values.dropna()
    count, rows = present.nunique(), len(present)
    rises = not is_text and count == rows > 2 and present.is_monotonic_increasing
    reasons = {
        "no value in any row": rows == 0,
        "the same value in every row": count == 1 and rows > 1,
        "another text in every row": is_text and count == rows > 2,
        f"text, {count} categories": is_text and (count > MOST_CATEGORIES or not one_hot),
        "an identifier by its name": rises and (present % 1 == 0).all() and _IDENTIFIER.match(str(values.name)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


# ---- All of it ----


def read_table(source: Any, *, target: str | None = None, exclude: Sequence[str] = (), separator: str | None = None,
               decimal: str | None = None, header: bool | None = None, dayfirst: bool | None = None,
               one_hot: bool = True) -> Any:
    """A table as people have it as a pandas.DataFrame of numbers: a path, a file that is open, or a data frame.

    It recognises the separator (comma, semicolon, tab, bar, blanks), the decimal mark, thousands that stand apart,
    units, dates and times of day, missing values, which become NaN, and lines that are no rows. Text becomes a column
    of 0 and 1 for each of its categories, or goes with one_hot=False. Columns that are no features go, but for the
    `target`. What was done stands in frame.attrs["steps"], a sentence each. Raises InputError where a table can be read
    in two ways, with the argument that decides it."""
    pandas = _pandas()
    if decimal is not None:
        arguments.word("decimal", decimal, ".,")
    steps: list[str] = []
    if isinstance(source, pandas.DataFrame):
        source, separator, header = io.StringIO(source.to_csv(index=False)), ",", True
    name, cells = _cells(pandas, source, separator, header, steps)
    excluded = [exclude] if isinstance(exclude, str) else list(exclude)
    for column in [*excluded, *([] if target is None else [target])]:
        if column not in cells:
            raise InputError(f"{name}: no column {column!r}: expected one of {', '.join(cells)}")
    cells = cells.drop(columns=excluded)
    numeric, texts = {}, set()
    for column in cells:
        present = cells[column].dropna()
        found, dates = _parts(cells[column]), int(present.str.match(_DATE).sum())
        if 2 * (len(present) - dates - found.digits.notna().sum()) > len(present):
            texts.add(column)
        elif 2 * dates <= len(present):
            numeric[column] = found
    decimal = decimal or _decimal(name, numeric)
    if decimal == ",":
        steps.append("numbers have a decimal comma")
    pieces = []
    for column in cells:
        values, place, is_text = cells[column], f"{name}: {column}", column in texts
        if is_text and column == target:
            _refuse(place, values.dropna(), "numbers in the target")
        if column in numeric:
            values = _numbers(place, values, numeric[column], decimal, steps).rename(column)
        elif not is_text:
            values = _dates(pandas, place, values, dayfirst, steps)
        why = None if column == target else _why_left_out(values, is_text, one_hot)
        if why is not None:
            steps.append(f"{column}: {why}: left out")
            continue
        if values.isna().any():
            steps.append(f"{column}: {int(values.isna().sum())} missing")
        if is_text:
            made = pandas.get_dummies(values, prefix=column, prefix_sep="=", dtype=float)
            steps.append(f"{column}: a column of 0 and 1 for each of {made.shape[1]} categories")
            values = made.where(values.notna(), axis=0)
        pieces.append(values)
    if not pieces:
        raise InputError(f"{name}: no column of numbers: expected at least one")
    made = pandas.concat(pieces, axis=1).reset_index(drop=True)
    made.attrs["steps"] = steps
    return made

"""Tables as they come, for tables.py: their cells, what can be odd about them, and the same tables by hand."""

import re

MOST_FEATURES = 8  # of the model


class Column:
    """Cells as they are written, with decimal points and no unit, and what they become."""

    def __init__(self, name, cells, use="feature", style=None):
        self.name = name
        self.cells = cells  # decimal numbers as text, None for a gap, or text in a column that is not of numbers
        self.use = use  # feature, target, category, or junk: is left out
        self.style = style or (lambda cell, table: cell.replace(".", table.decimal))


class Table:
    def __init__(self, draw):
        self.draw = draw
        self.rows = draw.randint(14, 24)
        self.separator, self.decimal, self.line_end = ",", ".", "\n"
        self.mark, self.trailing, self.quoted, self.has_header, self.is_utf16 = False, False, False, True, False
        self.blank_lines = False
        self.gap = "NA"
        self.target = "y"
        self.options = []  # from the start
        self.fixes = {}  # option named by a refusal: what is appended then
        self.refusals = 0  # expected, at least
        self.drops = False
        self.fills = False
        self.longer = None  # a table with more rows, for one with too few
        self.columns = [self.numbers(name) for name in ["a", "b", "c"][: draw.randint(2, 3)]]
        self.columns.append(Column("y", self.respond(), "target"))

    def number(self, low=-60, high=60):
        return f"{self.draw.uniform(low, high):.2f}"

    def numbers(self, name, low=-60, high=60):
        return Column(name, [self.number(low, high) for _ in range(self.rows)])

    def respond(self):
        return [
            f"{sum((i + 1) * float(c.cells[row]) for i, c in enumerate(self.columns)) / 7 + self.draw.gauss(0, 3):.2f}"
            for row in range(self.rows)
        ]

    def insert(self, column):
        self.columns.insert(self.draw.randrange(len(self.columns) + 1), column)

    def features(self):
        return [c for c in self.columns if c.use == "feature"]

    # -- as it comes --

    def field(self, text):
        if (
            self.quoted
            or self.separator in text
            or re.search(r'["\n\r]', text)
            or (self.separator == " " and not text)
        ):
            return '"' + text.replace('"', '""') + '"'
        return text

    def cell(self, column, row):
        cell = column.cells[row]
        return self.field(self.gap if cell is None else column.style(cell, self))

    def text(self):
        lines = [[self.field(c.name) for c in self.columns]] if self.has_header else []
        lines += [[self.cell(c, row) for c in self.columns] for row in range(self.rows)]
        end = (self.separator if self.trailing else "") + self.line_end
        text = "".join(self.separator.join(line) + end for line in lines)
        if self.blank_lines:
            text = self.line_end + text.replace(self.line_end, self.line_end * 2, 3)
        return text

    def bytes(self):
        if self.is_utf16:
            return self.text().encode("utf-16")
        return (b"\xef\xbb\xbf" if self.mark else b"") + self.text().encode()

    # -- the same by hand --

    def plain(self, applied):
        """CSV of what is used, under the options applied."""
        one_hot = "--one-hot" in self.options + list(applied)
        used = []
        for column in self.columns:
            if column.use == "feature":
                used.append((column.cells, lambda cell: cell))
            elif column.use == "category" and one_hot:
                for level in sorted({cell for cell in column.cells if cell is not None}):
                    used.append((column.cells, lambda cell, level=level: "1" if cell == level else "0"))
        used.append(([c for c in self.columns if c.use == "target"][0].cells, lambda cell: cell))
        lines = [",".join([f"x{i}" for i in range(len(used) - 1)] + ["y"])]
        for row in range(self.rows):
            if all(cells[row] is not None for cells, _ in used):
                lines.append(",".join(become(cells[row]) for cells, become in used))
        return "\n".join(lines) + "\n"


# ---- Traits ----
# Each changes a table. Those of REFUSED have it refused until an option is given.


def grouped(cell, table, mark):
    whole, _, rest = cell.lstrip("-").partition(".")
    text = f"{int(whole):,}".replace(",", mark) + (table.decimal + rest if rest else "")
    return ("-" if cell.startswith("-") else "") + text


def semicolons(table):
    table.separator = ";"


def tabs(table):
    table.separator = "\t"


def bars(table):
    table.separator = "|"


def blanks(table):
    table.separator = " "


def decimal_commas(table):
    table.decimal = ","


def windows(table):
    table.line_end, table.mark = "\r\n", True


def trailing(table):
    table.trailing = table.separator != " "


def quotes(table):
    table.quoted = True


def blank_lines(table):
    table.blank_lines = True


def line_breaks(table):
    texts = [f'row {row},\nof "{table.draw.randint(0, 9)}"; and | more' for row in range(table.rows)]
    table.insert(Column("a comment,\nlong", texts, "junk", lambda cell, _: cell))


def thousands(table):
    column = table.numbers("big", 1000, 90000)
    column.style = lambda cell, table: grouped(cell, table, "." if table.decimal == "," else ",")
    table.insert(column)


def thousands_by_blanks(table):
    column = table.numbers("big", 1000, 9000000)
    mark = table.draw.choice(["\u00a0", "\u202f", "'", "\u2019"])
    column.style = lambda cell, table: grouped(cell, table, mark)
    table.insert(column)


def with_unit(table, name, before, after):
    column = table.numbers(name, 0, 100)
    column.style = lambda cell, table: before + cell.replace(".", table.decimal) + after
    table.insert(column)


def percent(table):
    with_unit(table, "share", "", table.draw.choice(["%", " %"]))


def currency(table):
    with_unit(table, "price", *table.draw.choice([("$", ""), ("", " €"), ("£", ""), ("EUR ", "")]))


def constant(table):
    table.insert(Column("always", ["3.50"] * table.rows, "junk"))


def empty(table):
    table.insert(Column("never", [None] * table.rows, "junk"))


def identifier(table):
    name = table.draw.choice(["id", "ID", "index", "customer_id", "" if table.separator != " " else "row"])
    table.insert(Column(name, [str(100 + 3 * row) for row in range(table.rows)], "junk"))


def names(table):
    table.insert(Column("name", [f"person {row}" for row in range(table.rows)], "junk", lambda cell, _: cell))


def duplicated(table):
    table.columns.insert(0, table.numbers("b"))
    table.insert(table.numbers("a"))


def unnamed(table):
    table.insert(table.numbers("" if table.separator != " " else "unnamed"))


def text_left_out(table):
    cells = [table.draw.choice(["red", "green", "blue"]) for _ in range(table.rows)]
    table.insert(Column("colour", ["red", "green", *cells[2:]], "category", lambda cell, _: cell))


def categories(table):
    text_left_out(table)
    table.options.append("--one-hot")


def no_header(table):
    table.has_header = False
    table.target = str(1 + [c.use for c in table.columns].index("target"))
    table.columns = [c for c in table.columns if c.use in ("feature", "target")]
    table.target = str(1 + [c.use for c in table.columns].index("target"))


def missing_dropped(table):
    table.gap = table.draw.choice(["" if table.separator != " " else "NA", "NA", "N/A", "NaN", "null", "?", "-"])
    for column in table.draw.sample(table.features(), 2):
        for row in table.draw.sample(range(table.rows), 2):
            column.cells[row] = None
    table.fixes["--drop-missing"] = ["--drop-missing"]


def missing_imputed(table):
    missing_dropped(table)
    del table.fixes["--drop-missing"]
    table.fixes["--impute"] = ["--impute", table.draw.choice(["mean", "median"])]
    table.fills = True


def missing_targets(table):
    table.gap = "NA"
    target = [c for c in table.columns if c.use == "target"][0]
    for row in table.draw.sample(range(table.rows), 3):
        target.cells[row] = None
    table.fixes["--predict"] = ["--predict"]


def excluded(table, column):
    table.insert(column)
    column.use = "junk"
    name = column.name
    table.fixes["--exclude"] = ["--exclude", name]


def dates(table):
    pattern = table.draw.choice(
        ["{0}-{1:02}-{2:02}", "{2:02}.{1:02}.{0}", "{1}/{2}/{0}", "{0}-{1:02}-{2:02} 12:30:00"]
    )
    cells = [pattern.format(2020 + row % 3, 1 + row % 12, 1 + row % 28) for row in range(table.rows)]
    excluded(table, Column("day", cells, style=lambda cell, _: cell))


def text_among_numbers(table):
    column = table.numbers("grade")
    for row in table.draw.sample(range(table.rows), 2):
        column.cells[row] = "twelve"
    excluded(table, column)


def two_units(table):
    column = table.numbers("mixed", 1, 9)
    odd = table.draw.randrange(1, table.rows)
    column.style = lambda cell, table: cell.replace(".", table.decimal) + ("" if cell == column.cells[odd] else "%")
    column.cells[odd] = "0.05"
    excluded(table, column)


def two_decimals(table):
    column = table.numbers("other")
    column.style = lambda cell, table: cell.replace(".", "," if table.decimal == "." else ".")
    excluded(table, column)
    # The message names the column with commas, which is the other one where the table has them.
    if table.decimal == ",":
        table.decimal = "."


def ambiguous_thousands(table):
    for column in table.columns:
        if column.use in ("feature", "target"):
            column.cells = [cell and str(round(float(cell))) for cell in column.cells]
    column = Column("big", [str(table.draw.randint(1000, 999999)) for _ in range(table.rows)])
    column.style = lambda cell, table: grouped(cell, table, ",")
    table.insert(column)
    if table.draw.random() < 0.5:
        table.fixes["--decimal"] = ["--decimal", "point"]
    else:  # the same text is thousandths then
        column.cells = [f"{float(cell) / 1000:.3f}" for cell in column.cells]
        column.style = lambda cell, table: cell.replace(".", ",")
        table.fixes["--decimal"] = ["--decimal", "comma"]


def text_target(table):
    table.insert(
        Column("verdict", [table.draw.choice(["yes", "no"]) for _ in range(table.rows)], "junk", lambda c, _: c)
    )
    table.target = "verdict"
    table.fixes["--target"] = ["--target", "y"]


def constant_target(table):
    table.insert(Column("flat", ["7"] * table.rows, "junk"))
    table.target = "flat"
    table.fixes["--target"] = ["--target", "y"]


def ambiguous_target(table):
    table.insert(Column("y", [table.number() for _ in range(table.rows)]))
    first, second = [i for i, c in enumerate(table.columns) if c.name == "y"]
    is_first = table.columns[first].use == "target"
    table.fixes["--target"] = ["--target", str(1 + (first if is_first else second))]


def odd_separator(table):
    table.separator = table.draw.choice([":", "~", "^"])
    table.fixes["--separator"] = ["--separator", table.separator]


def numbers_as_names(table):
    table.insert(table.numbers("1990"))
    table.fixes["--header"] = ["--header", "yes"]


def few_rows(table):
    table.longer = table.text()
    table.fixes["--data"] = []
    table.rows = table.draw.randint(1, 3)


def few_rows_for_folds(table):
    table.rows = 4
    table.options += ["--folds", "5"]
    table.fixes["--folds"] = ["--folds", "4"]


def many_features(table):
    for i in range(MOST_FEATURES):
        table.columns.insert(0, table.numbers(f"more{i}"))
    extra = len(table.features()) - MOST_FEATURES
    out = table.draw.sample(table.features(), extra)
    for column in out:
        column.use = "junk"
    table.fixes["--exclude"] = ["--exclude", ",".join(c.name for c in out)]


def utf16(table):
    table.is_utf16 = True
    table.fixes["--data"] = []


DIALECTS = [semicolons, tabs, bars, blanks, decimal_commas, windows, trailing, quotes, blank_lines]
CONTENTS = [
    line_breaks,
    thousands,
    thousands_by_blanks,
    percent,
    currency,
    constant,
    empty,
    identifier,
    names,
    duplicated,
    unnamed,
    text_left_out,
    categories,
]
REFUSED = [
    missing_dropped,
    missing_imputed,
    missing_targets,
    dates,
    text_among_numbers,
    two_units,
    two_decimals,
    ambiguous_thousands,
    text_target,
    constant_target,
    ambiguous_target,
    odd_separator,
    numbers_as_names,
    few_rows,
    few_rows_for_folds,
    many_features,
    utf16,
]
LAST = [no_header]  # takes columns away, so it comes last, and alone

# What takes the same thing in two ways.
APART = [
    {semicolons, tabs, bars, blanks, odd_separator},
    {text_left_out, categories, no_header},
    {missing_dropped, missing_imputed, missing_targets, few_rows, few_rows_for_folds, empty},
    {dates, text_among_numbers, two_units, two_decimals, many_features, no_header},
    {missing_targets, many_features, text_target, constant_target, ambiguous_target},
    {text_target, constant_target, ambiguous_target, no_header},
    {
        ambiguous_thousands,
        thousands,
        thousands_by_blanks,
        percent,
        currency,
        decimal_commas,
        two_decimals,
        many_features,
        numbers_as_names,
        unnamed,
        duplicated,
        text_among_numbers,
        dates,
        two_units,
        ambiguous_target,
        constant,
        few_rows,
    },
    {blanks, unnamed, line_breaks, thousands_by_blanks, trailing, currency, percent, names},
    {few_rows, utf16},
    {few_rows, few_rows_for_folds, text_left_out, categories, identifier, names, line_breaks, text_target},
    {
        many_features,
        thousands,
        thousands_by_blanks,
        percent,
        currency,
        duplicated,
        unnamed,
        categories,
        ambiguous_target,
        numbers_as_names,
    },
    {duplicated, ambiguous_target},
]


def choose(draw):
    """Some of a dialect, some contents, and up to three reasons to refuse, none of which meets its opposite."""
    wanted = draw.sample(DIALECTS, draw.randint(1, 3)) + draw.sample(CONTENTS, draw.randint(1, 3))
    wanted += draw.sample(REFUSED + LAST, draw.randint(0, 3))
    chosen = []
    for trait in wanted:
        if not any(trait in group and set(chosen) & group for group in APART):
            chosen.append(trait)
    return [trait for group in (DIALECTS, CONTENTS, REFUSED, LAST) for trait in group if trait in chosen]

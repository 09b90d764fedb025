"""Tables for tables.py, a row for each: a name, the text, arguments of iclab.read_table, the columns that it gives or a
part of its refusal, a part of one of its steps, and what the command makes of it with --one-hot: SAME, the same
numbers, OTHER, something else that its page describes, or a pattern of its refusal."""

SAME, OTHER = "the same", "another reading"
NAN = float("nan")
PLAIN = {"a": [1.5, -4.25, 0.5], "b": [2, 1234.5, 7], "y": [3, 6, 8]}
XY = {"x": [1, 3, 6], "y": [2, 4, 5]}
BIG = {"a": [1234, 5678], "y": [1.5, 2]}
PAIR = {"a": [1, 3], "y": [2, 4]}
DAYS = [19723, 19725, 19753]
MARK = "a decimal mark, or one between thousands: expected decimal='.' or decimal=','"
NOT_PLAIN = "not a plain number .* .iclab.read_table in Python reads it"


def many(count):
    return "c,y\n" + "".join(f"k{row % count:02},{row}\n" for row in range(2 * count))


def levels(count):
    columns = {f"c=k{level:02}": [float(row % count == level) for row in range(2 * count)] for level in range(count)}
    return {**columns, "y": [*range(2 * count)]}


ROWS = [
    # Separators, quotes, lines
    ("commas", "a,b,y\n1.5,2,3\n-4.25,1234.5,6\n0.5,7,8\n", {}, PLAIN, None, SAME),
    ("no line end behind the last line", "a,b,y\n1.5,2,3\n-4.25,1234.5,6\n0.5,7,8", {}, PLAIN, None, SAME),
    ("semicolons", "a;b;y\n1.5;2;3\n-4.25;1234.5;6\n0.5;7;8\n", {}, PLAIN, "separated by semicolons", SAME),
    ("decimal commas", "a;b;y\n1,5;2;3\n-4,25;1234,5;6\n0,5;7;8\n", {}, PLAIN, "a decimal comma", SAME),
    ("tabs", "a\tb\ty\n1.5\t2\t3\n-4.25\t1234.5\t6\n0.5\t7\t8\n", {}, PLAIN, "separated by tabs", SAME),
    ("tabs, decimal commas", "a\tb\ty\n1,5\t2\t3\n-4,25\t1234,5\t6\n0,5\t7\t8\n", {}, PLAIN, "decimal comma", SAME),
    ("bars", "a|b|y\n1.5|2|3\n-4.25|1234.5|6\n0.5|7|8\n", {}, PLAIN, "separated by bars", SAME),
    ("bars, decimal commas", "a|b|y\n1,5|2|3\n-4,25|1234,5|6\n0,5|7|8\n", {}, PLAIN, "decimal comma", SAME),
    ("blanks", "a b  y\n 1.5 2 3 \n-4.25  1234.5\t6\n0.5 7 8", {}, PLAIN, "separated by blanks", "reads blanks"),
    ("blanks, decimal commas", "a b y\n1,5 2 3\n-4,25 1234,5 6\n0,5 7 8\n", {}, PLAIN, "separated by blanks",
     "reads blanks"),
    ("quotes between blanks", '"a" "b" y\n"1.5" 2 3\n-4.25 1234.5 6\n0.5 7 8\n', {}, PLAIN, "separated by blanks",
     "behind a closing quote"),
    ("quoted decimal commas", 'a,b,y\n"1,5",2,3\n"-4,25","1234,5",6\n"0,5",7,8\n', {}, PLAIN, "decimal comma", NOT_PLAIN),
    ("CRLF and a byte order mark", "\ufeffa;b;y\r\n1,5;2;3\r\n-4,25;1234,5;6\r\n0,5;7;8\r\n", {}, PLAIN, None, SAME),
    ("CR alone", "a,b,y\r1.5,2,3\r-4.25,1234.5,6\r0.5,7,8\r", {}, PLAIN, None, SAME),
    ("quotes about everything", '"a","b","y"\n"1.5","2","3"\n"-4.25","1234.5","6"\n"0.5","7","8"\n', {}, PLAIN, None,
     SAME),
    ("blanks about fields", " a ,\tb, y \n 1.5,2\t, 3\n-4.25 , 1234.5 ,6\n0.5,7,8\n", {}, PLAIN, None, SAME),
    ("blank lines", "\na,b,y\n\n1.5,2,3\n\n-4.25,1234.5,6\n0.5,7,8\n\n\n", {}, PLAIN, None, SAME),
    ("separators at the ends of lines", "a;b;y;\n1,5;2;3;\n-4,25;1234,5;6;\n0,5;7;8;\n", {}, PLAIN, "no value", SAME),
    ("and not of the first", "a;b;y\n1,5;2;3;\n-4,25;1234,5;6;\n0,5;7;8;\n", {}, PLAIN, "no value",
     "a line of 4 columns: expected 3.* iclab.read_table"),
    ("a line that names the separator", "sep=;\r\na;b;y\r\n1,5;2;3\r\n-4,25;1234,5;6\r\n0,5;7;8\r\n", {}, PLAIN,
     "separated by semicolons", 'no column "y"'),
    ("any other separator, when told", "a:b:y\n1.5:2:3\n-4.25:1234.5:6\n0.5:7:8\n", {"separator": ":"}, PLAIN, "':'",
     "of one column"),
    ("UTF-16", "a;b;y\n1,5;2;3\n-4,25;1234,5;6\n0,5;7;8\n".encode("utf-16"), {}, PLAIN, None, "not UTF-8"),
    ("line ends in quotes", '"long\nname",y\n1,2\n3,4\n', {}, {"long name": [1, 3], "y": [2, 4]}, None, SAME),
    ("commas within texts", "c;x;y\nu,v;1;2\nw,z;3;4\nu,v;6;5\n", {"one_hot": False}, XY, "2 categories", OTHER),
    ("lines of empty fields", "a,y\n1,2\n,\n3,4\n,\n,\n", {}, PAIR, None, "a line of empty fields: .* iclab.read_table"),
    ("lines above the names", "Report\n2024\na,y\n1,2\n3,4\n", {}, PAIR, "2 lines above the table", "no column"),
    ("R's names of rows", '"x" "y"\n"u" 1 2\n"v" 3 4\n"w" 6 5\n', {}, XY, "another text in every row", "behind a closing"),
    ("a line that is too long", "a,y\n1,2\n3,4,5\n6,7\n", {}, ":3: 3 fields: expected 2", None, "a line of 3 columns"),
    ("a line that is too short", "a,b,y\n1,2,3\n4\n6,7,8\n", {}, ":3: 1 fields: expected 3", None, "a line of 1 column"),
    ("an open quote", 'a,y\n1,"2\n3,4\n', {}, "expected fields in quotes", None, "never closed"),
    ("nothing", "\n \n", {}, "empty: expected a table", None, "empty"),
    # Names
    ("no names", "1.5,2\n3,4\n", {}, {"1": [1.5, 3], "2": [2, 4]}, None, 'no column "y"'),
    ("names, when told", "5,y\n1,2\n3,4\n", {"header": True}, {"5": [1, 3], "y": [2, 4]}, None,
     "text in column 2 and a number in column 1"),
    ("names and numbers", "5,y\n1,2\n3,4\n", {}, "expected header=True or header=False", None, "--header yes"),
    ("names that count", "0,1,2\n4,5,6\n7,8,9\n", {}, "the first line counts 0, 1", None, "counts 0, 1"),
    ("names that count, when told", "0,1\n4,5\n7,8\n", {"header": True}, {"0": [4, 7], "1": [5, 8]}, None, "counts 0"),
    ("names behind a gap that count", ",0,1\n4,5,6\n7,8,9\n", {}, "the first line counts 0, 1", None, "counts 0"),
    ("names twice and none", "x,x,,y\n1,2,3,4\n5,6,8,7\n", {},
     {"x": [1, 5], "x.2": [2, 6], "column 3": [3, 8], "y": [4, 7]}, None, SAME),
    ("an unknown column", "a,y\n1,2\n3,4\n", {"exclude": ["z"]}, "no column 'z': expected one of a, y", None, SAME),
    # Thousands and decimal marks
    ("thousands by points", "a;b;y\n1,5;2;3\n-4,25;1.234,5;6\n0,5;7;8\n", {}, PLAIN, "b: thousands put together in 1",
     NOT_PLAIN),
    ("thousands by commas", 'a,b,y\n1.5,2,3\n-4.25,"1,234.5",6\n0.5,7,8\n', {}, PLAIN, "thousands", NOT_PLAIN),
    ("by blanks", "a;b;y\n1.5;2;3\n-4.25;1 234.5;6\n0.5;7;8\n", {}, PLAIN, "thousands", NOT_PLAIN),
    ("by narrow blanks", "a;b;y\n1.5;2;3\n-4.25;1\u202f234.5;6\n0.5;7;8\n", {}, PLAIN, "thousands", NOT_PLAIN),
    ("by apostrophes", "a;b;y\n1.5;2;3\n-4.25;1'234.5;6\n0.5;7;8\n", {}, PLAIN, "thousands", NOT_PLAIN),
    ("by typographic ones", "a;b;y\n1.5;2;3\n-4.25;1’234.5;6\n0.5;7;8\n", {}, PLAIN, "thousands", NOT_PLAIN),
    ("a comma that is either", "a;y\n1,234;1\n5,678;2\n", {}, "a: 1,234: " + MARK, None, "--decimal comma, or iclab.read_table"),
    ("a point, when told", "a;y\n1,234;1.5\n5,678;2\n", {"decimal": "."}, BIG, "thousands put together in 2", NOT_PLAIN),
    ("a comma, when told", "a;y\n1,234;1\n5,678;2\n", {"decimal": ","}, {"a": [1.234, 5.678], "y": [1, 2]}, None,
     "--decimal comma"),
    ("another column's point", "a;y\n1,234;1.5\n5,678;2\n", {}, BIG, "a: thousands put together in 2", NOT_PLAIN),
    ("another column's comma", "a;y\n1.234;1,5\n5.678;2\n", {}, BIG, "a: thousands put together in 2", NOT_PLAIN),
    ("millions", "a;y\n1,234;1\n5,678,901;2\n", {}, {"a": [1234, 5678901], "y": [1, 2]}, "thousands", "--decimal comma"),
    ("points alone", "a;y\n1.234;1\n5.678;2\n", {}, {"a": [1.234, 5.678], "y": [1, 2]}, None, SAME),
    ("a point beside three digits", "a;y\n1.234;1\n987;2\n", {}, "a: 1.234: " + MARK, None, "--decimal point, or iclab.read_table"),
    ("and two digits", "a;y\n1.234;1\n98;2\n", {}, {"a": [1.234, 98], "y": [1, 2]}, None, SAME),
    ("a point and a comma", "a;b;y\n1,5;1.5;1\n2;3;2\n", {}, "decimal points in b, decimal commas in a", None,
     "--exclude a"),
    ("without one of them", "a;b;y\n1,5;1.5;1\n2;3;2\n", {"exclude": ["a"]}, {"b": [1.5, 3], "y": [1, 2]}, None,
     "--exclude a"),
    ("signs and exponents", "a,y\n+1.5e3,-2E-2\n.5,5.\n", {}, {"a": [1500, 0.5], "y": [-0.02, 5]}, None, SAME),
    ("a typographic minus", "a,y\n−1.5,2\n3,4\n", {}, {"a": [-1.5, 3], "y": [2, 4]}, None, NOT_PLAIN),
    ("groups of two digits", "a,y\n12 34,1\n5,2\n6,3\n", {}, "'12 34' in line 2: expected a number", None, 'text "12 34"'),
    # Units
    ("per cent and dollars", "a;b;y\n5 %;$1,200.5;1\n7%;$3;2\n", {}, {"a": [5, 7], "b": [1200.5, 3], "y": [1, 2]},
     "b: numbers in $, which is taken off", NOT_PLAIN),
    ("euros behind", "a;y\n5,5 €;1\n7 €;2\n", {}, {"a": [5.5, 7], "y": [1, 2]}, "numbers in €", NOT_PLAIN),
    ("EUR before", "a;y\nEUR 5,5;1\nEUR 7;2\n", {}, {"a": [5.5, 7], "y": [1, 2]}, "numbers in EUR", NOT_PLAIN),
    ("minus before a unit", "a,y\n-$5,1\n$-7,2\n", {}, {"a": [-5, -7], "y": [1, 2]}, "numbers in $", NOT_PLAIN),
    ("a target in per cent", "a,y\n5,1%\n6,2%\n", {"target": "y"}, {"a": [5, 6], "y": [1, 2]}, "y: numbers in %",
     NOT_PLAIN),
    ("one without the unit", "a,y\n5%,1\n0.05,2\n7%,3\n", {}, "a: '0.05' in line 3: expected numbers in %; exclude=['a']", None,
     NOT_PLAIN),
    ("two units", "a,y\n5%,1\n$6,2\n", {}, "a: '$6' in line 3: expected numbers in %", None, NOT_PLAIN),
    ("without that column", "a,x,y\n5%,1,2\n$6,3,4\n$5,6,5\n", {"exclude": ["a"]}, XY, None, NOT_PLAIN),
    # Dates
    *[(f"dates: {day}", f"t;y\n{day};1\n{again};2\n{last};3\n", {}, {"t": DAYS, "y": [1, 2, 3]}, "dates as days",
       NOT_PLAIN) for day, again, last in [
           ("2024-01-01", "2024-01-03", "2024-01-31"), ("2024/1/1", "2024/1/3", "2024/1/31"),
           ("1.1.2024", "3.1.2024", "31.1.2024"), ("1/1/2024", "3/1/2024", "31/1/2024"),
           ("1/1/2024", "1/3/2024", "1/31/2024"), ("1/1/24", "1/3/24", "1/31/24"),
           ("1 Jan 2024", "3 Jan 2024", "31 Jan 2024"), ("January 1, 2024", "January 3, 2024", "January 31, 2024")]],
    ("dates with times", "t,y\n2024-01-01 12:00,1\n2024-01-03T06:00:00Z,2\n", {}, {"t": [19723.5, 19725.25], "y": [1, 2]},
     "dates as days", NOT_PLAIN),
    ("months", "t,y\n2024-01,1\n2024-02,2\n", {}, {"t": [19723, 19754], "y": [1, 2]}, "dates as days", NOT_PLAIN),
    ("times of day", "t,y\n12:30,1\n6:45:36,2\n", {}, {"t": [12.5, 6.76], "y": [1, 2]}, "times of day as hours",
     NOT_PLAIN),
    ("times of a clock", "t,y\n9:30 PM,1\n6:45 am,2\n", {}, {"t": [21.5, 6.75], "y": [1, 2]}, "times of day", NOT_PLAIN),
    ("a day that is either", "t,y\n1/2/2024,1\n3/2/2024,2\n", {}, "t: '1/2/2024' in line 2: expected dayfirst=True or", None,
     NOT_PLAIN),
    ("days first, when told", "t,y\n1/2/2024,1\n3/2/2024,2\n", {"dayfirst": True}, {"t": [19754, 19756], "y": [1, 2]},
     "dates as days", NOT_PLAIN),
    ("months first, when told", "t,y\n1/2/2024,1\n3/2/2024,2\n", {"dayfirst": False}, {"t": [19724, 19784], "y": [1, 2]},
     "dates as days", NOT_PLAIN),
    ("days and months first", "t,y\n31/1/2024,1\n1/31/2024,2\n", {}, "expected dayfirst=True or", None, NOT_PLAIN),
    ("a day that is none", "t,y\n2024-01-41,1\n2024-01-03,2\n", {}, "t: '2024-01-41' in line 2: expected a date", None,
     NOT_PLAIN),
    ("a number among dates", "t,y\n2024-01-01,1\n2024-01-03,2\n7,3\n", {}, "t: '7' in line 4: expected a date", None,
     NOT_PLAIN),
    ("a date among numbers", "t,y\n5,1\n6,2\n2024-01-03,3\n", {}, "t: '2024-01-03' in line 4: expected a number", None,
     NOT_PLAIN),
    ("without the dates", "t,x,y\n2024-01-01,1,2\n1/3/24,3,4\n?,6,5\n", {"exclude": ["t"]}, XY, None, NOT_PLAIN),
    # Missing values
    ("what is missing", "a,y\n1,2\nNA,3\n,4\nn/a,5\n?,6\n-,7\nNULL,8\n", {},
     {"a": [1, NAN, NAN, NAN, NAN, NAN, NAN], "y": [2, 3, 4, 5, 6, 7, 8]}, "a: 6 missing", SAME),
    ("a category that is missing", "s,y\nu,1\nv,2\n?,3\nu,4\n", {},
     {"s=u": [1, 0, NAN, 1], "s=v": [0, 1, NAN, 0], "y": [1, 2, 3, 4]}, "s: 1 missing", SAME),
    ("a missing target", "a,y\n1,2\n3,4\n5,NaN\n", {"target": "y"}, {"a": [1, 3, 5], "y": [2, 4, NAN]}, "y: 1 missing",
     SAME),
    ("a date that is missing", "t,y\n2024-01-01,1\n,2\n2024-01-31,3\n", {}, {"t": [19723, NAN, 19753], "y": [1, 2, 3]},
     "t: 1 missing", NOT_PLAIN),
    # What is left out, and text
    ("identifiers by name", "id,x,y\n1,1,2\n2,3,4\n7,6,5\n", {}, XY, "id: an identifier by its name", SAME),
    ("and by another", "customer_id,x,y\n1,1,2\n2,3,4\n7,6,5\n", {}, XY, "customer_id: an identifier", SAME),
    ("rising numbers of any other name", "t,x,y\n1,1,2\n2,3,4\n7,6,5\n", {}, {"t": [1, 2, 7], **XY}, None, SAME),
    ("identifiers that do not rise", "id,x,y\n1,1,2\n7,3,4\n2,6,5\n", {}, {"id": [1, 7, 2], **XY}, None, SAME),
    ("another text in every row", "n,x,y\nann,1,2\nbob,3,4\ncid,6,5\n", {}, XY, "n: another text in every row", SAME),
    ("the same number", "c,x,y\n3.5,1,2\n3.5,3,4\n3.5,6,5\n", {}, XY, "c: the same value in every row", SAME),
    ("the same text", "c,x,y\nu,1,2\nu,3,4\nu,6,5\n", {}, XY, "c: the same value in every row", SAME),
    ("no value", "e,x,y\n,1,2\nNA,3,4\n?,6,5\n", {}, XY, "e: no value in any row", SAME),
    ("a target that is the same", "x,y\n1,3\n2,3\n5,3\n", {"target": "y"}, {"x": [1, 2, 5], "y": [3, 3, 3]}, None, SAME),
    ("categories", "s,x,y\nm,1,2\nf,3,4\nm,6,5\n", {}, {"s=f": [0, 1, 0], "s=m": [1, 0, 1], **XY},
     "s: a column of 0 and 1 for each of 2 categories", SAME),
    ("categories that go", "s,x,y\nm,1,2\nf,3,4\nm,6,5\n", {"one_hot": False}, XY, "s: text, 2 categories", OTHER),
    ("64 categories", many(64), {}, levels(64), "each of 64 categories", SAME),
    ("65 categories", many(65), {}, {"y": [*range(130)]}, "c: text, 65 categories: left out", SAME),
    ("categories of ages", "s,x,y\n0-17,1,2\n18-35,3,4\n0-17,6,5\n", {}, {"s=0-17": [1, 0, 1], "s=18-35": [0, 1, 0], **XY},
     None, SAME),
    ("text in half of the rows", "a,x,y\n1,1,2\n2,3,4\nb,5,6\nc,7,8\n", {}, "a: 'b' in line 4: expected a number; exclude=",
     None, "--exclude a"),
    ("text in more", "a,y\n1,2\nd,4\nb,6\nb,8\n", {},
     {"a=1": [1, 0, 0, 0], "a=b": [0, 0, 1, 1], "a=d": [0, 1, 0, 0], "y": [2, 4, 6, 8]}, "each of 3 categories", SAME),
    ("a target of text", "a,y\n1,yes\n2,no\n3,no\n", {"target": "y"}, "y: 'yes' in line 2: expected numbers in the target", None,
     "the target is text"),
    ("nothing but text", "a,y\nu,p\nu,q\nu,r\n", {}, "no column of numbers", None, "the target is text"),
]

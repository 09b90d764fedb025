"""A hundred tables as people have them: what iclab.read_table makes of each, number for number, its steps and its
refusals; and that the command reads the same numbers or refuses the table in a line that names what reads it.

Argument: the folder of recipes.
"""

import ctypes
import io
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from table_rows import OTHER, ROWS, SAME
from tap import ok, refused

os.environ["ICLAB_RECIPES"] = sys.argv[1]
try:
    import numpy
    import pandas
except ImportError as failure:
    tap.skip("tables as people have them", f"{failure.name} is not installed")
    tap.done()
import iclab  # noqa: E402
from iclab import _library as library  # noqa: E402
from iclab._devices import Handle  # noqa: E402


def same(frame, expected):
    """Numbers that are equal, or missing in both."""
    return list(frame) == list(expected) and list(frame.index) == [*range(len(frame))] and all(
        frame[name].dtype == float and len(frame) == len(values)
        and all(seen == value or (math.isnan(seen) and math.isnan(value)) for seen, value in zip(frame[name], values))
        for name, values in expected.items())


def read_by_command(text):
    """What `iclab predict --target y --one-hot --impute mean --predict` reads, as columns."""
    handle = Handle("icl_table_destroy")
    held = ctypes.create_string_buffer(text, len(text))
    source = library.struct("icl_csv_source", path=library.encoded("table.csv"), text=ctypes.addressof(held),
                            size=len(text))
    params = library.struct("icl_table_params", source=source, target=library.encoded("y"), missing_targets=True,
                            missing=library.constants["ICL_MISSING_KEPT"], one_hot=True)
    library.call("icl_table_read", ctypes.byref(params), handle.slot)
    table = library.at("icl_table", handle.pointer.value)
    values = numpy.ctypeslib.as_array((ctypes.c_double * (table.rows * table.columns)).from_address(table.values))
    names = (ctypes.c_char_p * table.columns).from_address(table.names)
    return pandas.DataFrame(values.reshape(table.rows, table.columns).copy(), columns=[n.decode() for n in names])


def check_command(name, text, expected, verdict):
    """The last column is the target."""
    try:
        seen = read_by_command(text)
    except iclab.InputError as failure:
        line = str(failure)
        return ok(verdict not in (SAME, OTHER) and re.search(verdict, line) and "\n" not in line,
                  f"  the command: {line}", verdict)
    is_same = isinstance(expected, dict) and same(seen, expected)
    return ok(verdict == OTHER or (verdict == SAME and (is_same or not isinstance(expected, dict))),
              "  the command reads the same", seen, expected)


def check_row(folder, name, text, options, expected, step, verdict):
    path = folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if isinstance(expected, str):
        with refused(iclab.InputError, expected, name):
            iclab.read_table(path, **options)
    else:
        frame = iclab.read_table(path, **options)
        steps = frame.attrs["steps"]
        ok(same(frame, expected) and (step is None or any(step in one for one in steps)), name, frame, steps)
    check_command(name, path.read_bytes(), expected, verdict)


def check_uses(folder):
    """Later users of a table can read it, and other sources than a path are read."""
    text = "t;p;y\n" + "".join(f"{1 + i}.1.2024;{i * i % 7},5 %;{2 * i + i % 3},25\n" for i in range(12))
    frame = iclab.read_table(io.StringIO("\ufeff" + text), target="y")
    ok(same(frame, iclab.read_table(io.BytesIO(text.encode()), target="y")), "a file that is open, of text or bytes")
    texts = pandas.DataFrame({"a": ["1,5", "2,5", "4,5"], "y": ["5 %", "6 %", "8 %"]})
    tidied = iclab.read_table(texts, target="y")
    ok(tidied["a"].tolist() == [1.5, 2.5, 4.5] and tidied["y"].tolist() == [5, 6, 8], "a data frame")
    run = iclab.train("predict", device="cpu", steps=20, growth=5, warmup=5, out=folder / "run", evaluate=False)
    features = frame.drop(columns="y")
    by_frame = run.predict(features, frame["y"], features[:3], device="cpu", held_out=False)
    by_array = run.predict(features.to_numpy(), frame["y"].to_numpy(), features[:3].to_numpy(), device="cpu",
                           held_out=False)
    ok((by_frame["model"] == by_array["model"]).all(), "the run predicts from its frame")
    regressor = iclab.InContextRegressor(run).fit(features, frame["y"])
    ok(regressor.predict(features).shape == (12,), "so does the regressor")
    frame.to_csv(folder / "plain.csv", index=False)
    ok(same(read_by_command((folder / "plain.csv").read_bytes()), frame), "the command reads the frame's CSV")
    text = "q,x,y\n" + "".join(f'"a, ""{i % 3}""",{i},{i * i}\n' for i in range(9000))
    large = iclab.read_table(io.StringIO(text))
    ok(len(large) == 9000 and large["y"].iloc[-1] == 8999**2 and large.shape[1] == 5, "a table of many quotes", large)
    with refused(iclab.InputError, "decimal = '!': expected one of", "a decimal mark that is none"):
        iclab.read_table(io.StringIO("a,y\n1,2\n"), decimal="!")
    with refused(iclab.FileError, "No such file", "no file"):
        iclab.read_table(folder / "none.csv")
    with refused(iclab.InputError, "expected UTF-8", "another encoding"):
        iclab.read_table(io.BytesIO(b"a,\xe9\n1,2\n"))
    absent = "import sys; sys.modules['pandas'] = None; import iclab; iclab.read_table('x')"
    failed = subprocess.run([sys.executable, "-c", absent], capture_output=True, text=True, check=False)
    ok("InputError: read_table" in failed.stderr and "expected the package pandas" in failed.stderr,
       "without pandas its package is named", failed.stderr)


with tempfile.TemporaryDirectory() as work:
    ok(len(ROWS) >= 100, f"{len(ROWS)} tables")
    for row in ROWS:
        check_row(pathlib.Path(work), *row)
    check_uses(pathlib.Path(work))
tap.done()

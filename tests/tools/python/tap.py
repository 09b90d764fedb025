"""TAP for the tests of the Python package."""

import contextlib
import sys

count = failed = 0


def ok(passed, name):
    global count, failed
    count += 1
    failed += not passed
    print(f"{'' if passed else 'not '}ok {count} - {name}", flush=True)


def skip(name, reason):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {reason}", flush=True)


@contextlib.contextmanager
def refused(kind, part, name):
    """Within it an exception of this kind comes, whose line holds this part."""
    try:
        yield
    except kind as error:
        ok(part in str(error), f"{name}: {error}")
    else:
        ok(False, f"{name}: nothing was raised")


def done():
    print(f"1..{count}")
    sys.exit(failed != 0)

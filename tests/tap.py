"""TAP for tests in Python, as tests/tap.h and tests/tap.sh are for those in C and bash.

Tests put this folder on sys.path themselves, so that each runs by hand as well.
"""

import contextlib
import sys

count = failed = 0


def ok(passed, name, *notes):
    """A check, whose notes stand below it where it failed. Returns whether it passed."""
    global count, failed
    count += 1
    failed += not passed
    print(f"{'' if passed else 'not '}ok {count} - {name}", flush=True)
    for note in notes if not passed else ():
        print("# " + str(note).replace("\n", "\n# "), flush=True)
    return passed


def report(checks):
    """Prints checks that were made, each a name, whether it passed, and notes, and ends the program."""
    for name, passed, notes in checks:
        for note in notes if passed else ():
            print("#", note)
        ok(passed, name, *notes)
    done()


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
        first, *_ = [*str(error).splitlines(), ""]
        ok(part in str(error), f"{name}: {first}", error)
    else:
        ok(False, f"{name}: nothing was raised")


def done():
    print(f"1..{count}")
    sys.exit(failed != 0)

"""The command, which the package brings along: it runs in a process of its own."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable

from . import _arguments as arguments
from . import _library as library
from .errors import DeviceError, Error, InputError

Log = Callable[[str], Any]

_FAILURES: dict[int, type[Error]] = {2: InputError, 3: DeviceError}


def command() -> list[str]:
    """How to start iclab: $ICLAB_COMMAND, or the command that the package holds."""
    named = os.environ.get("ICLAB_COMMAND")
    path = pathlib.Path(named) if named else library.INSTALLED / "bin" / "iclab"
    if not path.exists():
        raise InputError(f"{path}: no such command: install the package, or name one in ICLAB_COMMAND")
    return [os.fspath(path)]


def main() -> None:
    """The command `iclab` of the environment that the package is installed in."""
    program = command()
    os.execv(program[0], [*program, *sys.argv[1:]])


def _start(line: list[str], log: Log | None) -> tuple[int, bytes, str]:
    """Exit code, standard output, and the last line of the other. Ctrl-C is passed on, and waited for."""
    last = ""
    arguments.function("log", log)
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [*command(), *line],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a terminal's Ctrl-C comes from here, once
        )
        assert process.stderr
        try:
            for said in process.stderr:
                last = said.strip() or last
                if log is not None:
                    log(said.rstrip("\n"))
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
        finally:
            process.stderr.close()
            code = process.wait()
        printed.seek(0)
        return code, printed.read(), last


def _failure(code: int, line: str) -> Error:
    return _FAILURES.get(code, Error)(line[len("iclab: ") :] if line.startswith("iclab: ") else line)


def run(line: list[str], log: Log | None = None) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, 0 or 1, and the objects of JSON that a command prints; log is called with every line that it says
    beside them. Any other code is raised."""
    code, printed, last = _start([*line, "--json"], log)
    if code not in (0, 1):
        raise _failure(code, last)
    return code, [json.loads(row) for row in printed.splitlines()]


def output(line: list[str], log: Log | None = None) -> bytes:
    """The bytes that a command prints, with `log` as above. A code other than 0 is raised."""
    code, printed, last = _start(line, log)
    if code != 0:
        raise _failure(code, last)
    return printed


def options(**values: Any) -> list[str]:
    """The options of a line, without those that are None: out="x" is --out x, top_k=3 is --top-k 3."""
    given = {name.replace("_", "-"): str(value) for name, value in values.items() if value is not None}
    return [word for name, value in given.items() for word in (f"--{name}", value)]

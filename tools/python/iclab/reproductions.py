"""Papers by name. Reproductions belong to the command, which the package brings along; they run in its process."""

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
from ._devices import Device
from .errors import DeviceError, Error, InputError
from .tables import Table

_FAILURES: dict[int, type[Error]] = {2: InputError, 3: DeviceError}


class Reproduction(Table):
    """A row for each number beside the published one. `passed`: every target was met; `folder` holds the report."""

    passed: bool
    folder: pathlib.Path


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


def _run(line: list[str], log: Callable[[str], Any] | None) -> tuple[int, str, str]:
    """Exit code, standard output, and the last line of the other. Ctrl-C is passed on, and waited for."""
    last = ""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
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


def reproductions() -> Table:
    """What there is, with its source and how long each scale takes on two cores."""
    code, printed, last = _run(["reproduce", "--list", "--json"], None)
    if code != 0:
        raise _failure(code, last)
    return Table.from_rows([json.loads(line) for line in printed.splitlines()])


def reproduce(
    name: str,
    *,
    scale: str = "short",
    out: str | os.PathLike[str] = "reproductions",
    only: str | None = None,
    seed: int | None = None,
    device: str | Device | None = None,
    log: Callable[[str], Any] | None = None,
) -> Reproduction:
    """Computes a published table or figure afresh and judges each number beside the published one: `iclab reproduce`.
    log: called with every line that the command says."""
    if not isinstance(name, str) or name.startswith("-"):
        raise InputError(f"reproduce({name!r}): expected a name of iclab.reproductions()")
    arguments.function("log", log)
    folder = pathlib.Path(os.path.abspath(out))
    spec = device.spec if isinstance(device, Device) else device
    line = ["reproduce", name, "--json", "--scale", scale, "--out", os.fspath(folder)]
    for option, value in (("--only", only), ("--seed", seed), ("--device", spec)):
        line += [option, str(value)] * (value is not None)
    code, printed, last = _run(line, log)
    if code not in (0, 1):
        raise _failure(code, last)
    rows = [json.loads(line) for line in printed.splitlines()]
    made = Reproduction.from_rows([row for row in rows if "quantity" in row], name)
    assert isinstance(made, Reproduction)
    made.passed = code == 0
    made.folder = folder / f"{name}-{scale}"
    return made

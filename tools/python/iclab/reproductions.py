"""Papers by name, and studies of one's own. The command computes them, in a process of its own."""

from __future__ import annotations

import os
import pathlib

from . import _command as command
from ._devices import Device, spec_of
from .errors import InputError
from .tables import Table


class Reproduction(Table):
    """A row for each number beside the published one. `passed`: every target was met; `folder` holds the report."""

    passed: bool
    folder: pathlib.Path


def reproductions() -> Table:
    """What there is, with its source and how long each scale takes on two cores."""
    return Table.from_rows(command.run(["reproduce", "--list"])[1])


def reproduce(
    name: str | os.PathLike[str],
    *,
    scale: str = "short",
    out: str | os.PathLike[str] = "reproductions",
    only: str | None = None,
    seed: int | None = None,
    device: str | Device | None = None,
    log: command.Log | None = None,
) -> Reproduction:
    """Computes a published table or figure afresh and judges each number beside the published one: `iclab reproduce`.
    name: of iclab.reproductions(), or the INI file of a study of one's own. log: called with every line that the
    command says."""
    if not isinstance(name, (str, os.PathLike)) or os.fspath(name).startswith("-"):
        raise InputError(f"reproduce({name!r}): expected a name of iclab.reproductions(), or the file of a study")
    folder, study = pathlib.Path(os.path.abspath(out)), os.fspath(name)
    options = command.options(scale=scale, out=folder, only=only, seed=seed, device=spec_of(device))
    code, rows = command.run(["reproduce", study, *options], log)
    made = Reproduction.from_rows([row for row in rows if "quantity" in row], study)
    assert isinstance(made, Reproduction)
    made.passed = code == 0
    made.folder = folder / f"{pathlib.Path(study).stem if study.endswith('.ini') else study}-{scale}"
    return made

"""What the command alone does for a run or a recipe: inspections, sweeps, evaluations over keys, and new text."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any, Iterable, Mapping, Union

from . import _arguments as arguments
from . import _command as command
from . import _registry as registry
from ._devices import Device, spec_of
from .errors import InputError
from .recipes import Recipe, Source, assignment
from .runs import Folder, Run, as_run
from .tables import Table

Grid = Mapping[str, Union[str, Iterable[Any]]]


def _values(name: str, values: str | Iterable[Any]) -> tuple[str, str]:
    """A key's full name, and its values as a grid of the command lists them: a text stands as it is ("1..3",
    "0:1:0.25"), others with commas between, and in quotes where a value holds one."""
    key, text = assignment(name, values)
    if isinstance(values, str):
        return key, text
    try:
        written = [assignment(name, value)[1] for value in values]
    except TypeError:
        raise InputError(f"{name} = {values!r}: expected several values, or a text such as \"1..3\"") from None
    for one in written:
        if '"' in one or "\n" in one:
            raise InputError(f"{name} = {one!r}: expected a value without quotes and line breaks")
    if not written:
        raise InputError(f"{name}: no values: expected one or more")
    return key, ",".join(f'"{one}"' if "," in one else one for one in written)


def _for_command(recipe: Recipe) -> Recipe:
    """Refuses what another process cannot know."""
    for family in registry.named_in(recipe.text("task.family"), recipe.text("model.mixer")):
        raise InputError(
            f"{family.kind} {family.name} is in Python, and this runs in a process of the command: expected families "
            "of the library; run.evaluate and iclab.train take yours, one call for each cell"
        )
    return recipe


# ---- Inspections ----


class Inspection(Table):
    """A row for each number: layer (0: the whole model), what, quantity, value, standard_error, note. str() is the
    report as Markdown; `folder` holds it with its pictures."""

    folder: pathlib.Path

    def __str__(self) -> str:
        return (self.folder / "inspect.md").read_text(encoding="utf-8")


def inspect(
    run: Folder,
    *,
    out: str | os.PathLike[str] | None = None,
    sequences: int | None = None,
    device: str | Device | None = None,
    log: command.Log | None = None,
) -> Inspection:
    """What a trained model computes, as `iclab inspect` says it. out: the folder of the report, RUN/inspect where it is
    left out. sequences: how many fresh ones are measured on."""
    if sequences is not None:
        sequences = arguments.count("sequences", sequences, 1, arguments.LARGEST_COUNT)
    options = command.options(out=out, sequences=sequences, device=spec_of(device))
    run = as_run(run)
    _for_command(run.recipe)
    _, rows = command.run(["inspect", os.fspath(run), *options], log)
    found = Inspection.from_rows([row for row in rows if "quantity" in row], "what the model computes")
    assert isinstance(found, Inspection)
    found.folder = pathlib.Path(os.path.abspath(rows[-1]["folder"]))
    return found


# ---- Evaluations over keys ----


class Evaluations(Table):
    """A row for each cell of a grid and each predictor; the keys of the grid are columns. `folder` holds the report."""

    folder: pathlib.Path


def evaluate_over(
    run: Folder,
    grid: Grid,
    *,
    out: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    log: command.Log | None = None,
    **overrides: Any,
) -> Evaluations:
    """The model beside the reference predictors over one key or two, as `iclab eval --over` has it:
    evaluate_over(run, {"noise": [0, .5, 1]}). Other keywords change keys of the run's recipe in all cells."""
    keys = dict(_values(name, values) for name, values in grid.items())
    changes = dict(assignment(name, value) for name, value in overrides.items())
    lines = [word for key, text in keys.items() for word in ("--over", f"{key}={text}")]
    lines += [word for key, text in changes.items() for word in ("--set", f"{key}={text}")]
    options = command.options(out=out, device=spec_of(device))
    run = as_run(run)
    _for_command(run.recipe)
    _, rows = command.run(["eval", os.fspath(run), *lines, *options], log)
    cells = [row for row in rows if "predictor" in row]
    found = Evaluations.from_rows(cells, "over " + " and ".join(keys)).with_numbers(keys)
    assert isinstance(found, Evaluations)
    found.folder = pathlib.Path(os.path.abspath(rows[-1]["folder"]))
    return found


# ---- Sweeps ----


class Sweep(Table):
    """A row for each cell, with the grid's keys as columns. `means` has the means over seeds with their standard
    errors, `runs` the run folder of every cell, in the order of the rows; `folder` holds the report."""

    folder: pathlib.Path
    means: Table

    @property
    def runs(self) -> list[Run]:
        return [Run(self.folder / str(cell)) for cell in self["cell"]]


def sweep(
    recipe: Source,
    grid: Grid,
    *,
    out: str | os.PathLike[str],
    workers: int | None = None,
    device: str | Device | None = None,
    log: command.Log | None = None,
    **overrides: Any,
) -> Sweep:
    """Trains a recipe on a grid of values and seeds, in processes of the command: `iclab sweep`.

    grid: a list of values, or a text such as "1..3", for each key: {"layers": [1, 2], "seed": "1..3"}, where seed is
    that of the training. Other keywords change keys in all cells. workers: how many processes; one for each core where
    it is left out. The same call again trains only what is not finished, and the grid may be extended meanwhile.
    """
    if workers is not None:
        workers = arguments.count("workers", workers, 1, arguments.LARGEST_COUNT)
    keys = dict(_values("train.seed" if name == "seed" else name, values) for name, values in grid.items())
    chosen = _for_command(Recipe(recipe, **overrides))
    folder = pathlib.Path(os.path.abspath(out))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as beside:
        file = pathlib.Path(beside, "sweep.ini")
        for place in (folder, pathlib.Path(beside)):  # the command keeps sweep.ini, which names recipe.ini beside it
            (place / "recipe.ini").write_text(str(chosen), encoding="utf-8")
        rows = "".join(f"{key} = {text}\n" for key, text in keys.items())
        file.write_text(f"[sweep]\nrecipe = recipe.ini\n[grid]\n{rows}", encoding="utf-8")
        options = command.options(out=folder, workers=workers, device=spec_of(device))
        _, printed = command.run(["sweep", os.fspath(file), *options], log)
    cells = [row for row in printed if "cell" in row]
    found = Sweep.from_rows(cells, f"{len(cells)} trainings").with_numbers(keys)
    assert isinstance(found, Sweep)
    means = [row for row in printed[:-1] if "cell" not in row]
    found.means = Table.from_rows(means, "means over seeds").with_numbers(keys)
    found.folder = folder
    return found


# ---- Text ----


def _prompt(prompt: str | bytes) -> bytes:
    """The bytes of a prompt, which a file hands over: an argument of a command holds no zero byte."""
    try:
        given = prompt.encode("utf-8") if isinstance(prompt, str) else bytes(memoryview(prompt))
    except (TypeError, UnicodeEncodeError) as failure:
        raise InputError(f"prompt: {failure}: expected text or bytes") from None
    if not given:
        raise InputError("prompt: empty: expected at least one byte to go on with")
    return given


def generate(
    run: Folder,
    prompt: str | bytes | None = None,
    *,
    bytes: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    device: str | Device | None = None,
    log: command.Log | None = None,
) -> str | bytes:
    """The new bytes, as `iclab generate` writes them behind a prompt with a model that was trained on text; the
    keywords are its options, and what is left out is the command's default.

    It is a str, of `bytes` bytes in UTF-8, where the text of the training was UTF-8, because it then consists of whole
    characters. It is bytes where that text was not UTF-8, and behind a prompt of bytes, which may end within a
    character."""
    run = as_run(run)
    if bytes is not None:
        bytes = arguments.count("bytes", bytes, 0, arguments.LARGEST_COUNT)
    if top_k is not None:
        top_k = arguments.count("top_k", top_k, 1, arguments.LARGEST_COUNT)
    if seed is not None:
        seed = arguments.seed("seed", seed)
    options = command.options(
        bytes=bytes, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, device=spec_of(device)
    )
    with tempfile.TemporaryDirectory() as beside:
        if prompt is not None:
            file = pathlib.Path(beside, "prompt")
            file.write_bytes(_prompt(prompt))
            options += ["--prompt-file", os.fspath(file)]
        written = command.output(["generate", os.fspath(run), *options], log)
    is_text = isinstance(prompt, (str, type(None))) and run.facts.get("text_is_utf8") is True
    return written.decode("utf-8") if is_text else written

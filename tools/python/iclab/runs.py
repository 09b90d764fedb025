"""Run folders: what a training left, as arrays and tables, and the model at work."""

from __future__ import annotations

import ctypes
import html
import json
import logging
import math
import os
import pathlib
import weakref
from typing import TYPE_CHECKING, Any, Union

import numpy

import iclab_model

from . import _arguments as arguments
from . import _library as library
from . import _tensors as tensors
from ._devices import Device, Handle, open_device
from .errors import InputError
from .evaluation import Evaluation
from .prediction import Prediction, learned_rows, predict_rows
from .recipes import Recipe
from .tables import Table
from .tasks import TaskShape, shape_at

_logger = logging.getLogger("iclab")

if TYPE_CHECKING:
    from .experiments import Evaluations, Inspection
    from .training import ProgressCallback

Folder = Union[str, "os.PathLike[str]", "Run"]


class Run:
    """A run folder, of `iclab train`, iclab.train or iclab.save."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(os.path.abspath(folder))
        self._evaluation: Evaluation | None = None
        self._loaded: _LoadedModel | None = None
        Recipe.of_run(self.folder)  # a folder without one is refused here
        if not (self.folder / "files.txt").exists():
            _logger.warning("%s: no files.txt, as in runs of older versions: damage would not be seen", self.folder)

    def __fspath__(self) -> str:
        return os.fspath(self.folder)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled or copied run is the same folder."""
        return Run, (os.fspath(self.folder),)

    # ---- What it left ----

    @property
    def recipe(self) -> Recipe:
        """recipe.ini, as it is now: a copy, whose changes stay with whoever made them."""
        return Recipe.of_run(self.folder)

    @property
    def evaluation(self) -> Evaluation | None:
        """The last evaluation of this object, else that of result.json; None where there is none."""
        return self._evaluation or Evaluation.of_result(self.result)

    @property
    def positions(self) -> Table:
        """Losses by position of the last evaluation: a row for each predictor and scored position. Empty where one
        position is scored, or nothing was evaluated."""
        evaluation = self.evaluation
        return Table({}) if evaluation is None else evaluation.positions

    def _object(self, name: str) -> dict[str, Any]:
        """A file of JSON; empty where there is none."""
        path = self.folder / name
        try:
            read = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError as failure:
            raise InputError(f"{path}: {failure}: expected the JSON that iclab wrote") from None
        if not isinstance(read, dict):
            raise InputError(f"{path}: expected an object of JSON")
        return read

    def _undamaged(self, name: str) -> pathlib.Path:
        """A file of the run. One that is not as it was written is refused, as where a run is opened."""
        Recipe.of_run(self.folder)
        return self.folder / name

    @property
    def facts(self) -> dict[str, Any]:
        """run.json: version, commit, device, seed, times, and how the training ended."""
        return self._object("run.json")

    @property
    def status(self) -> str:
        """running, finished, interrupted or diverged; "" where the folder does not say."""
        return str(self.facts.get("status", ""))

    def remember(self, evaluation: Evaluation) -> Evaluation:
        """Keeps an evaluation as the last one of this object."""
        self._evaluation = evaluation
        return evaluation

    @property
    def metrics(self) -> Table:
        """metrics.csv: a column for each number, a row for each step."""
        return Table.from_csv(self._undamaged("metrics.csv"))

    def to_tensorboard(self, folder: str | os.PathLike[str]) -> None:
        """Writes `metrics` as scalars into an event file in a folder, for TensorBoard, whose package it needs. Written
        again, as of a run that went on, they take the place of those that lie there."""
        try:
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as failure:
            raise InputError(f"to_tensorboard: {failure}: expected the package tensorboard") from None
        metrics = self.metrics
        steps = metrics["step"]
        names = [name for name in metrics if name != "step"]
        writer = EventFileWriter(os.fspath(folder))
        first = int(steps[0]) if len(steps) > 0 else 0
        writer.add_event(Event(step=first, session_log=SessionLog(status=SessionLog.START)))
        for row, step in enumerate(steps):
            values = [(name, float(metrics[name][row])) for name in names]
            scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values if not math.isnan(value)]
            writer.add_event(Event(step=int(step), summary=Summary(value=scalars)))
        writer.close()

    @property
    def result(self) -> dict[str, Any]:
        """result.json: the table of the last evaluation as rows, with date, host, device and versions."""
        return self._object("result.json")

    @property
    def parameters(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """The model's named matrices, in double precision."""
        tensors_by_name: dict[str, numpy.ndarray[Any, Any]] = iclab_model.read(self._undamaged("model.safetensors"))[1]
        return tensors_by_name

    @property
    def model(self) -> iclab_model.Model:
        """The model in NumPy alone, and in PyTorch, differentiable: Model.predict."""
        return iclab_model.Model(self._undamaged("model.safetensors"))

    # ---- The model at work ----

    def evaluate(self, *, device: str | Device | None = None, **overrides: Any) -> Evaluation:
        """The model beside the reference predictors on fresh sequences, as `iclab eval` has it; keywords change keys
        of the run's recipe."""
        recipe = self.recipe.changed(**overrides)
        opened = open_device(device)
        loaded = _load(self.folder, recipe, opened)
        with opened:
            evaluation = Evaluation.of(opened, loaded, recipe)
        if not overrides:
            self.remember(evaluation)
        return evaluation

    def over(self, *, device: str | Device | None = None, **grid: Any) -> Evaluations:
        """The table of evaluations over one key or two: run.over(noise=[0, .5, 1], n="5:40:5"). evaluate_over has
        keywords for the folder and for other keys."""
        from .experiments import evaluate_over

        return evaluate_over(self, grid, device=device)

    def inspect(self, **options: Any) -> Inspection:
        """What the model computes: iclab.inspect."""
        from .experiments import inspect

        return inspect(self, **options)

    def generate(self, prompt: str | bytes | None = None, **options: Any) -> str | bytes:
        """New text of a model that was trained on text: iclab.generate."""
        from .experiments import generate

        return generate(self, prompt, **options)

    def outputs(self, inputs: Any, *, device: str | Device | None = None) -> numpy.ndarray[Any, Any]:
        """Outputs [B, S, q] of the model for sequences of one's own: inputs [B, T, p] or symbols [B, T], as in a
        Batch. Contexts of regression may have another length than those of training."""
        values = arguments.sequences("inputs", inputs)
        opened, stamp = open_device(device), self._stamp()
        loaded = self._loaded
        if loaded is None or loaded.device is not opened or not loaded.takes(values.shape, stamp):
            loaded = self._loaded = _LoadedModel(self, opened, values.shape, stamp)
        return loaded.outputs(values)

    def _stamp(self) -> tuple[Any, ...]:
        """Another one once the model or the recipe was written again."""
        found = [os.stat(self.folder / name) for name in ("model.safetensors", "recipe.ini")]
        return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in found)

    def predict(
        self,
        features: Any,
        targets: Any,
        fresh: Any = None,
        *,
        device: str | Device | None = None,
        held_out: bool = True,
        folds: int = 0,
        repeats: int = 0,
        context: int = 0,
        prompts: int = 0,
        seed: int = 1,
        inputs: str = "auto",
        lags: int = 0,
        ahead: int = 0,
        season: int = 0,
    ) -> Prediction:
        """In-context predictions for a table of one's own, beside least squares and ridge, as `iclab predict` has them.

        features [m, p] and targets [m] are what the model sees; predicted are the rows of `fresh`, or those whose
        target is NaN or masked. Columns of data frames are matched by name. held_out: also measure errors on rows that
        are held out, which takes most of the time. With lags the rows are a series, as in iclab.regress. The other
        keywords are those of icl_predict_params, 0 its defaults.
        """
        labelled, new = learned_rows(features, targets, fresh, lags, ahead, season, repeats, prompts)
        return predict_rows(
            self.folder,
            self.recipe,
            labelled,
            new,
            device=device,
            held_out=held_out,
            folds=folds,
            repeats=repeats,
            context=context,
            prompts=prompts,
            seed=seed,
            inputs=inputs,
        )

    def resume(
        self,
        *,
        device: str | Device | None = None,
        until_step: int | None = None,
        progress: ProgressCallback = None,
        evaluate: bool = True,
    ) -> Run:
        """Goes on with the training: iclab.resume."""
        from .training import resume

        return resume(self.folder, device=device, until_step=until_step, progress=progress, evaluate=evaluate)

    # ---- In a notebook ----

    def __repr__(self) -> str:
        try:
            status = self.status or "model alone"
        except InputError:
            status = "damaged"
        return f"<iclab run {self.folder}: {status}>"

    def _repr_html_(self) -> str:
        facts = self.facts
        shown = {name: facts[name] for name in ("status", "steps", "seed", "device", "device_name") if name in facts}
        line = ", ".join(f"{html.escape(name)}: {html.escape(str(value))}" for name, value in shown.items())
        evaluation = self.evaluation
        table = evaluation._repr_html_() if evaluation else ""
        return f"<p><b>{html.escape(str(self.folder))}</b> {line}</p>{table}"


def as_run(run: Folder) -> Run:
    return run if isinstance(run, Run) else Run(run)


def evaluate(run: Folder, *, device: str | Device | None = None, **overrides: Any) -> Evaluation:
    """Run.evaluate of a run or of its folder."""
    return as_run(run).evaluate(device=device, **overrides)


def predict(run: Folder, features: Any, targets: Any, fresh: Any = None, **options: Any) -> Prediction:
    """Run.predict of a run or of its folder."""
    return as_run(run).predict(features, targets, fresh, **options)


# ---- A model on a device ----


def _load(folder: pathlib.Path, recipe: Recipe, device: Device) -> Handle:
    trainer = Handle("icl_trainer_destroy", device)
    with device:
        library.call("icl_trained_load", device, library.encoded(folder), recipe, trainer.slot)
    return trainer


class _LoadedModel:
    """A run's model on a device, with a batch for sequences of one shape."""

    def __init__(self, run: Run, device: Device, shape: tuple[int, ...], stamp: tuple[Any, ...]) -> None:
        self.device, self._stamp = device, stamp
        recipe = run.recipe
        self._trainer = _load(run.folder, recipe, device)
        self.shape = self._get_shape()
        is_regression = self.shape.scored == 1 and self.shape.first_scored == self.shape.positions - 1
        if is_regression and len(shape) == 3 and shape[1] not in (self.shape.positions, 0, 1):
            self._trainer = _load(run.folder, recipe.changed(**{"task.n": shape[1] - 1}), device)
            self.shape = self._get_shape()
        expected = (self.shape.positions,) if self.shape.symbols else (self.shape.positions, self.shape.inputs)
        if shape[1:] != expected or shape[0] == 0:
            raise InputError(
                f"inputs of shape {list(shape)}: expected [B, {', '.join(map(str, expected))}], B of 1 or more, the "
                f"task of {run.folder}"
            )
        self._inputs_shape = shape
        self._batch = library.struct("icl_batch")
        task = library.function("icl_trainer_task")(self._trainer)
        purpose = library.constants["ICL_FOR_EVALUATION"]
        with device:
            library.call("icl_batch_create", task, device, purpose, shape[0], ctypes.byref(self._batch))
        weakref.finalize(self, device.end, library.function("icl_batch_release"), ctypes.byref(self._batch))

    def _get_shape(self) -> TaskShape:
        task = library.function("icl_trainer_task")(self._trainer)
        return shape_at(library.function("icl_task_get_shape")(task))

    def takes(self, shape: tuple[int, ...], stamp: tuple[Any, ...]) -> bool:
        return shape == self._inputs_shape and stamp == self._stamp

    def outputs(self, inputs: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        made = numpy.empty((inputs.shape[0], self.shape.scored, self.shape.outputs), numpy.float32)
        with self.device:
            tensors.write(self._batch.inputs, inputs)
            library.call(
                "icl_trainer_predict", self._trainer, ctypes.byref(self._batch), tensors.pointer(made)
            )
        return made

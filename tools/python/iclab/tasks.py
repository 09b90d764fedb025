"""Batches of a task's sequences as arrays, with the bits that the command and every device draw."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy

from . import _arguments as arguments
from . import _library as library
from . import _tensors as tensors
from ._devices import Device, Handle, open_device
from .recipes import Recipe, Source

_PURPOSES = ("training", "evaluation", "fitting")


@dataclass(frozen=True)
class TaskShape:
    """What a task asks: include/iclab/shape.h. A sequence has `positions`, each of `inputs` coordinates or one of
    `symbols`; a model gives `outputs` numbers at each of `scored` positions from `first_scored` on, all others where
    scored is 0, and the loss compares them with the targets: "squared error", "cross-entropy" or "logistic"."""

    positions: int
    inputs: int = 0
    symbols: int = 0
    outputs: int = 1
    first_scored: int = 0
    scored: int = 0
    loss: str = "squared error"

    def __post_init__(self) -> None:
        if self.scored == 0:
            object.__setattr__(self, "scored", self.positions - self.first_scored)


@dataclass(frozen=True)
class Batch:
    """Sequences: inputs [B, T, p] (of regression (x_i, y_i), last the query (x, 0)) or symbols [B, T]; targets
    [B, S, c] of the scored positions; weights [B, S, 1] of their losses, None where all are 1; and what the task says
    beside them, such as the noise and the coefficients of each sequence. With task.sampler = gram a batch for training
    has no inputs but the sides "gram" and "query"."""

    inputs: numpy.ndarray[Any, Any] | None
    targets: numpy.ndarray[Any, Any]
    weights: numpy.ndarray[Any, Any] | None
    sides: dict[str, numpy.ndarray[Any, Any]]
    shape: TaskShape

    def __repr__(self) -> str:
        arrays = {"inputs": self.inputs, "targets": self.targets, "weights": self.weights, **self.sides}
        sizes = [f"{name} {list(array.shape)}" for name, array in arrays.items() if array is not None]
        return f"Batch({', '.join(sizes)})"


def shape_at(address: int) -> TaskShape:
    shape = library.at("icl_task_shape", address)
    sizes = {name: getattr(shape, name) for name in TaskShape.__dataclass_fields__ if name != "loss"}
    return TaskShape(**sizes, loss=library.words(library.function("icl_loss_name")(shape.loss)))


def task_shape(recipe: Source, **overrides: Any) -> TaskShape:
    """The shape of a recipe's task."""
    task = Handle("icl_task_destroy")
    library.call("icl_task_create", Recipe(recipe, **overrides), task.slot)
    return shape_at(library.function("icl_task_get_shape")(task))


def sample(
    recipe: Source,
    size: int | None = None,
    *,
    purpose: str = "training",
    seed: int | None = None,
    step: int = 0,
    device: str | Device | None = "cpu",
    **overrides: Any,
) -> Batch:
    """Draws `size` sequences (train.batch, of evaluation 2,048) of the recipe's task: a function of purpose, seed and
    step alone. Training step k, counted from 0, draws its batch of train.batch sequences with step=k and train.seed;
    `iclab eval` draws 2,048 at a time with purpose="evaluation", step=0, 1, … and eval.seed. These seeds are the
    defaults."""
    number = arguments.word("purpose", purpose, _PURPOSES)
    made = Recipe(recipe, **overrides)
    is_training = purpose == "training"
    size = (made["train.batch"] if is_training else 2048) if size is None else size
    seed = made["train.seed" if is_training else "eval.seed"] if seed is None else seed
    size = arguments.count("size", size, 1, arguments.LARGEST_COUNT)
    seed, step = arguments.seed("seed", seed), arguments.count("step", step, 0, arguments.LARGEST_STEP)
    task = Handle("icl_task_destroy")
    library.call("icl_task_create", made, task.slot)
    opened = open_device(device)
    batch = library.struct("icl_batch")
    with opened:
        try:
            library.call("icl_batch_create", task, opened, number, size, ctypes.byref(batch))
            library.call(
                "icl_task_sample", task, opened, number, seed, step, ctypes.byref(batch)
            )
            return _read(batch, opened, shape_at(library.function("icl_task_get_shape")(task)))
        finally:
            library.function("icl_batch_release")(ctypes.byref(batch))


def _read(batch: Any, device: Device, shape: TaskShape) -> Batch:
    def values(tensor: Any) -> numpy.ndarray[Any, Any] | None:
        return tensors.read(tensor, device.is_double) if tensor.buffer else None

    inputs, targets = values(batch.inputs), values(batch.targets)
    assert targets is not None
    if inputs is not None and shape.symbols > 0:
        inputs = inputs.astype(numpy.int64)
    sides = {
        library.words(side.name): tensors.read(side.tensor, device.is_double)
        for side in batch.sides[: batch.side_count]
    }
    return Batch(inputs, targets, values(batch.weights), sides, shape)

"""Reference predictors of one's own: functions that answer a batch as a model does, and stand beside it in tables."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Callable, Mapping

import numpy

from . import _arguments as arguments
from . import _library as library
from . import _registry as registry
from . import _tensors as tensors
from .errors import InputError
from .tasks import Batch, TaskShape, shape_at

Array = numpy.ndarray[Any, Any]
Function = Callable[[Batch], Any]


class Predictor:
    """A predictor for the library's tasks of one shape, which iclab.task_shape(recipe) gives:

        def nearest(batch):
            ...
            return outputs

        iclab.Predictor("nearest", nearest, iclab.task_shape("quickstart"))

    From then on evaluations of such tasks have its row; eval.predictors chooses it by its name. A task of one's own
    brings its predictors itself (Task). The function is that of Task: a Batch to outputs [B, S, q], for the
    cross-entropy logarithms of probabilities. A later predictor of the same name takes its place."""

    kind = "predictor"

    def __init__(self, name: str, function: Function, shape: TaskShape | Mapping[str, Any]) -> None:
        self.name, self._function = name, function
        self.shape = shape if isinstance(shape, TaskShape) else TaskShape(**shape)
        run = registry.callback(
            "icl_reference_predictor", "predict", f"predictor {name}", predicting(function, self.shape)
        )
        answers = library.callback("icl_predictor_family", "answers", self._answers)
        predictor = library.struct(
            "icl_reference_predictor", name=library.encoded(name), predict=library.address_of(run)
        )
        self._kept = run, answers, predictor
        self.struct = library.struct("icl_predictor_family", predictor=predictor, answers=library.address_of(answers))
        registry.register(self)

    def __repr__(self) -> str:
        return f"<iclab predictor {self.name}>"

    def source(self) -> str:
        return registry.source_of(self._function)

    def _answers(self, task: int) -> bool:
        shape = shape_at(library.function("icl_task_get_shape")(task))
        return dataclasses.astuple(shape) == dataclasses.astuple(self.shape)


def predicting(function: Function, shape: TaskShape) -> Callable[[int, int, int], None]:
    """What the library calls: a predictor, the sequences that are shown, and where the outputs go."""
    arguments.function("a predictor", function)

    def predict(_: int, at: int, outputs: int) -> None:
        shown = library.at("icl_shown_sequences", at)
        found = arguments.numbers("outputs", function(_shown(library.at("icl_batch", shown.batch), shown.count, shape)))
        copied(outputs, fitted("outputs", found, (shown.count, shape.scored, shape.outputs)), ctypes.c_double)

    return predict


def _shown(batch: Any, count: int, shape: TaskShape) -> Batch:
    def values(tensor: Any) -> Array:
        return tensors.read(tensor, False)[:count]

    inputs = values(batch.inputs)
    sides = {library.words(side.name): values(side.tensor) for side in batch.sides[: batch.side_count]}
    weights = values(batch.weights) if batch.weights.buffer else None
    return Batch(inputs.astype(numpy.int64) if shape.symbols else inputs, values(batch.targets), weights, sides, shape)


def fitted(name: str, values: Array, shape: tuple[int, ...]) -> Array:
    """An array of this shape, whose axes of one element, but for the first, may have been left out."""
    kept = [(shape[0], *axes) for axes in (shape[1:], shape[1:-1], [n for n in shape[1:] if n > 1])]
    if values.shape not in kept or values.size != numpy.prod(shape):
        raise InputError(f"{name} of shape {list(values.shape)}: expected {list(shape)}")
    return values.reshape(shape)


def copied(address: int, values: Array | None, kind: Any = ctypes.c_float) -> None:
    """Writes an array to memory of the library that has room for it."""
    assert values is not None
    numpy.ctypeslib.as_array((kind * values.size).from_address(address))[:] = values.reshape(-1)

"""Tasks of one's own: sequences that a function draws, and predictors to compare a model with."""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
from typing import Any, Callable, Mapping, Sequence, Union

import numpy

from . import _arguments as arguments
from . import _library as library
from . import _registry as registry
from . import _tensors as tensors
from .errors import InputError
from .tasks import Batch, TaskShape

Array = numpy.ndarray[Any, Any]
Drawn = Union[Mapping[str, Any], Sequence[Any], Batch]
Predictor = Callable[[Batch], Any]

_PURPOSES = ("training", "evaluation", "fitting")
_LOSSES = ("squared error", "cross-entropy", "logistic")
_OWN = ("inputs", "targets", "weights")  # what is no side
_KEPT = 2  # what of icl_batch.scratch targets and weights take; sides take the rest


class Task:
    """A task that draws its sequences by a function of Python:

        def sample(random, size):
            ...
            return {"inputs": inputs, "targets": targets}

        task = iclab.Task(sample, iclab.TaskShape(positions=20, symbols=3, outputs=3, loss="cross-entropy"))
        run = iclab.train(task=task, steps=1000)

    sample(random, size) draws `size` sequences with a numpy.random.Generator: inputs [B, T, p], or symbols [B, T];
    targets [B, S, c] at the scored positions, without an axis where S or c is 1; optionally weights [B, S] of their
    losses, and under other names what predictors may know, an array [B, ...] each. It returns a mapping, or (inputs,
    targets). The generator is a function of the seed, the purpose and the step alone; with a parameter `purpose` the
    function is told "training", "evaluation" or "fitting". It must draw from that generator alone, so that a run
    repeats: it is called in threads of the library, one call at a time.

    predictors: functions by name; each takes a Batch and returns outputs [B, S, q] as a model's: for the cross-entropy
    logarithms of probabilities. They stand beside the model in every evaluation. `name` is the value of task.family; a
    later task of the same name takes its place. recipe: keys that `train` begins from where it gets no recipe.
    """

    kind = "task"

    def __init__(
        self,
        sample: Callable[..., Drawn],
        shape: TaskShape | Mapping[str, Any],
        *,
        name: str | None = None,
        predictors: Mapping[str, Predictor] | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        arguments.function("sample", sample)
        self._sample = sample
        self._takes_purpose = "purpose" in inspect.signature(sample).parameters
        self.shape = shape if isinstance(shape, TaskShape) else TaskShape(**shape)
        self.recipe = dict(recipe or {})
        self.predictors = dict(predictors or {})
        self.name = name or getattr(sample, "__name__", "own").strip("<>").replace("_", "-")
        loss = arguments.word("shape.loss", self.shape.loss, _LOSSES)
        self._target_size = 1 if loss == 1 else self.shape.outputs
        self._c_shape = library.struct("icl_task_shape", **{**dataclasses.asdict(self.shape), "loss": loss})
        library.call("icl_task_shape_check", ctypes.byref(self._c_shape), self.name.encode())
        drawn = self.draw(2, "training", 1, 0)  # what it draws is checked here, and not within a training
        self._has_weights = drawn.weights is not None
        self._sides = {side.encode(): values.shape[1:] for side, values in drawn.sides.items()}
        self._check_sides()
        self._kept: list[Any] = []
        self.struct = self._family()
        registry.register(self)

    def __repr__(self) -> str:
        return f"<iclab task {self.name}: {self.shape}>"

    def source(self) -> str:
        return "\n".join(map(source_of, [self._sample, *self.predictors.values()]))

    # ---- Drawing ----

    def draw(self, size: int, purpose: str = "training", seed: int = 1, step: int = 0) -> Batch:
        """Sequences as a training or an evaluation draws them, checked against the shape."""
        number = arguments.word("purpose", purpose, _PURPOSES)
        source = numpy.random.Philox(key=[seed, number], counter=[0, 0, step, 0])
        extra = {"purpose": purpose} if self._takes_purpose else {}
        return self._checked(self._sample(numpy.random.Generator(source), size, **extra), size)

    def _checked(self, drawn: Drawn, size: int) -> Batch:
        if isinstance(drawn, Batch):
            drawn = {"inputs": drawn.inputs, "targets": drawn.targets, "weights": drawn.weights, **drawn.sides}
        elif not isinstance(drawn, Mapping):
            drawn = dict(zip(_OWN, drawn))
        missing = [name for name in ("inputs", "targets") if drawn.get(name) is None]
        if missing:
            raise InputError(f"{self.name}: sample returned no {missing[0]}: expected inputs and targets")
        shape = self.shape
        found = {name: arguments.numbers(name, values) for name, values in drawn.items() if values is not None}
        scored = (size, shape.scored)
        self._expect(found, "inputs", (size, shape.positions) + ((shape.inputs,) if shape.inputs else ()))
        self._expect(found, "targets", (*scored, self._target_size))
        if "weights" in found:
            self._expect(found, "weights", (*scored, 1))
        if shape.symbols:
            _check_symbols(f"{self.name}: inputs", found["inputs"], shape.symbols)
        if shape.loss == "cross-entropy":
            _check_symbols(f"{self.name}: targets", found["targets"], shape.outputs)
        sides = {name: values for name, values in found.items() if name not in _OWN}
        for name, values in sides.items():
            if values.shape[:1] != (size,):
                raise InputError(f"{self.name}: {name} of shape {list(values.shape)}: expected [{size}, ...]")
        return Batch(found["inputs"], found["targets"], found.get("weights"), sides, shape)

    def _expect(self, found: dict[str, Array], name: str, shape: tuple[int, ...]) -> None:
        found[name] = _fitted(f"{self.name}: {name}", found[name], shape)

    def _check_sides(self) -> None:
        most = min(library.constants["ICL_MAX_SIDES"], 8 - _KEPT)
        if len(self._sides) > most:
            raise InputError(f"{self.name}: {len(self._sides)} arrays beside the sequences: expected at most {most}")
        for name, extents in self._sides.items():
            if not 1 <= len(extents) <= 3:
                raise InputError(f"{self.name}: {name.decode()}: expected [B, ...] with 2 to 4 axes")

    # ---- The library's family ----

    def _family(self) -> Any:
        functions: dict[str, Callable[..., None]] = {
            "create": self._on_create,
            "batch_create": self._on_batch,
            "draw": self._on_draw,
        }
        calls = {
            member: registry.callback("icl_task_family", member, f"task {self.name}", function)
            for member, function in functions.items()
        }
        if self.predictors:
            first = self._references()
            calls["references"] = library.callback("icl_task_family", "references", lambda _: first)
        self._kept += calls.values()
        members = {member: library.address_of(call) for member, call in calls.items()}
        return library.struct("icl_task_family", name=self.name.encode(), **members)

    def _on_create(self, _: int, task: int) -> None:
        library.at("icl_task", task).shape = self._c_shape

    def _on_batch(self, _task: int, backend: int, _purpose: int, size: int, at: int) -> None:
        batch, shape = library.at("icl_batch", at), self.shape
        inputs = (size, shape.positions) + ((shape.inputs,) if shape.inputs else ())
        tensors.create(backend, inputs, batch.inputs)
        tensors.create(backend, (size, shape.scored, self._target_size), batch.scratch[0])
        batch.targets = batch.scratch[0]
        if self._has_weights:
            tensors.create(backend, (size, shape.scored, 1), batch.scratch[1])
            batch.weights = batch.scratch[1]
        for place, (name, extents) in enumerate(self._sides.items(), _KEPT):
            tensors.create(backend, (size, *extents), batch.scratch[place])
            library.call("icl_batch_add_side", at, name, batch.scratch[place])

    def _on_draw(self, _task: int, purpose: int, seed: int, step: int, at: int) -> None:
        values = library.at("icl_batch_values", at)
        batch = self.draw(values.size, _PURPOSES[purpose], seed, step)
        if (batch.weights is not None) != self._has_weights or {*map(str.encode, batch.sides)} != {*self._sides}:
            raise InputError("sample returned other arrays than in its first call: expected the same names")
        _copy(values.inputs, batch.inputs)
        _copy(values.targets, batch.targets)
        if batch.weights is not None:
            _copy(values.weights, batch.weights)
        for place, (name, extents) in enumerate(self._sides.items()):
            side = batch.sides[name.decode()]
            if side.shape[1:] != extents:
                raise InputError(f"{name.decode()} of shape {list(side.shape)}: expected [B, {extents}]")
            _copy(values.sides[place], side)

    def _references(self) -> int:
        """The predictors as the library has them, ended by one without a name."""
        array = (library.declared.struct("icl_reference_predictor") * (len(self.predictors) + 1))()
        for place, (name, predictor) in enumerate(self.predictors.items()):
            arguments.function(f"predictors[{name!r}]", predictor)
            array[place].name = name.encode()
            call = registry.callback(
                "icl_reference_predictor", "predict", f"predictor {name}", self._predicting(name, predictor)
            )
            array[place].predict = library.address_of(call)
            self._kept.append(call)
        self._kept.append(array)
        return ctypes.addressof(array)

    def _predicting(self, name: str, predictor: Predictor) -> Callable[[int, int, int], None]:
        def predict(_: int, at: int, outputs: int) -> None:
            shown = library.at("icl_shown_sequences", at)
            batch = self._shown(library.at("icl_batch", shown.batch), shown.count)
            found = arguments.numbers("outputs", predictor(batch))
            expected = (shown.count, self.shape.scored, self.shape.outputs)
            _copy(outputs, _fitted("outputs", found, expected), ctypes.c_double)

        return predict

    def _shown(self, batch: Any, count: int) -> Batch:
        def values(tensor: Any) -> Array:
            return tensors.read(tensor, False)[:count]

        inputs = values(batch.inputs)
        sides = {library.words(side.name): values(side.tensor) for side in batch.sides[: batch.side_count]}
        return Batch(
            inputs.astype(numpy.int64) if self.shape.symbols else inputs,
            values(batch.targets),
            values(batch.weights) if batch.weights.buffer else None,
            sides,
            self.shape,
        )


# ---- Small functions ----


def source_of(function: Callable[..., Any]) -> str:
    """A function as it is written."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"# {function!r}: its source is in no file\n"


def _fitted(name: str, values: Array, shape: tuple[int, ...]) -> Array:
    """An array of this shape, whose axes of one element, but for the first, may have been left out."""
    kept = [(shape[0], *axes) for axes in (shape[1:], shape[1:-1], [n for n in shape[1:] if n > 1])]
    if values.shape not in kept or values.size != numpy.prod(shape):
        raise InputError(f"{name} of shape {list(values.shape)}: expected {list(shape)}")
    return values.reshape(shape)


def _check_symbols(name: str, values: Array, count: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() < count):
        raise InputError(f"{name} from {values.min()} to {values.max()}: expected symbols from 0 to {count - 1}")
    if values.dtype.kind == "f" and (values != numpy.floor(values)).any():
        raise InputError(f"{name}: expected whole numbers from 0 to {count - 1}")


def _copy(address: int, values: Array | None, kind: Any = ctypes.c_float) -> None:
    """Writes an array to memory of the library that has room for it."""
    assert values is not None
    numpy.ctypeslib.as_array((kind * values.size).from_address(address))[:] = values.reshape(-1)

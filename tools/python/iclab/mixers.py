"""Mixers of one's own for model.family = sequence: how the positions of a block see each other, as a formula of
iclab.tape."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Union

from . import _arguments as arguments
from . import _library as library
from . import _registry as registry
from .errors import InputError
from .recipes import known_key
from .tape import Variable


@dataclass(frozen=True)
class Matrix:
    """A parameter [inputs, outputs] that begins as N(0, 1 / inputs), or with model.init; smaller with `into_stream`,
    for the last one, whose product is added to the residual stream."""

    inputs: int
    outputs: int
    into_stream: bool = False


@dataclass(frozen=True)
class Constants:
    """Parameters [count] that begin at a value and do not decay: biases, gains, rates."""

    count: int
    value: float = 0.0


@dataclass(frozen=True)
class Block:
    """The block whose mixer is made or run."""

    layer: int
    layers: int
    width: int
    heads: int
    causal: bool


Parameters = Mapping[str, Union[Matrix, Constants]]


class Pass:
    """A run through the mixer of a block: its parameters by name, and the block."""

    def __init__(self, block: Block, parameters: dict[str, Variable]) -> None:
        self.block, self._parameters = block, parameters

    def __getitem__(self, name: str) -> Variable:
        return self._parameters[name]

    def split(self, x: Variable) -> Variable:
        """[B, T, H w] as heads [B, H, T, w]."""
        heads = self.block.heads
        return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swap_axes(1, 2)

    def merge(self, x: Variable) -> Variable:
        """The way back."""
        turned = x.swap_axes(1, 2)
        return turned.reshape(*turned.shape[:2], turned.shape[2] * turned.shape[3])


class Mixer:
    """A word of model.mixer:

        def mix(own, x):
            q, k, v = (own.split(x @ own[name]) for name in ("query", "key", "value"))
            return own.merge(tape.recurrence(q, k, v)) @ own["output"]

        def parameters(block):
            w = block.width
            return {name: iclab.Matrix(w, w) for name in ("query", "key", "value")} | {
                "output": iclab.Matrix(w, w, into_stream=True)}

        iclab.Mixer("plain", mix, parameters)
        iclab.train(..., mixer="plain,softmax")

    mix(own, x) maps x [B, T, width] to [B, T, width]; the tape differentiates it on every device. It is called when a
    step is recorded, in threads of the library. A later mixer of the same name takes its place."""

    kind = "mixer"

    def __init__(
        self, name: str, mix: Callable[[Pass, Variable], Variable], parameters: Callable[[Block], Parameters]
    ) -> None:
        arguments.function("mix", mix)
        arguments.function("parameters", parameters)
        self.name, self._mix, self._parameters = name, mix, parameters
        self._names: list[tuple[str, ...]] = []  # of the blocks' parameters; a block's state is its place
        create = registry.callback("icl_mixer_family", "create", f"mixer {name}", self._on_create)
        run = library.callback("icl_mixer_family", "mix", self._on_mix)
        # model.heads, which only mixers that list it are told
        group = library.struct("icl_recipe_group", rows=ctypes.addressof(known_key("model.heads")), count=1)
        keys = (ctypes.c_void_p * 2)(ctypes.addressof(group), None)
        self._kept = create, run, group, keys
        self.struct = library.struct(
            "icl_mixer_family",
            name=library.encoded(name),
            keys=ctypes.addressof(keys),
            state_size=ctypes.sizeof(ctypes.c_size_t),
            is_two_sided=True,
            create=library.address_of(create),
            mix=library.address_of(run),
        )
        registry.register(self)

    def __repr__(self) -> str:
        return f"<iclab mixer {self.name}>"

    def source(self) -> str:
        return registry.source_of(self._parameters) + "\n" + registry.source_of(self._mix)

    def _on_create(self, _: int, at: int, builder: int) -> None:
        raw = library.at("icl_mixer_block", at)
        named = self._parameters(_block_at(at))
        for name, part in named.items():
            if isinstance(part, Matrix):
                add = "icl_mixer_add_output" if part.into_stream else "icl_mixer_add_matrix"
                library.call(add, builder, name.encode(), part.inputs, part.outputs)
            elif isinstance(part, Constants):
                library.call("icl_mixer_add_constants", builder, name.encode(), part.count, part.value)
            else:
                raise InputError(f"{name} = {part!r}: expected an iclab.Matrix or iclab.Constants")
        if tuple(named) not in self._names:
            self._names.append(tuple(named))
        ctypes.c_size_t.from_address(raw.state).value = self._names.index(tuple(named))

    def _on_mix(self, at: int, x: Any) -> int:
        run = library.at("icl_mixer_pass", at)
        try:
            raw = library.at("icl_mixer_block", run.block)
            names = self._names[ctypes.c_size_t.from_address(raw.state).value]
            variable = library.declared.struct("icl_variable")
            given = (variable * len(names)).from_address(run.parameters) if names else ()
            own = {name: Variable(run.tape, variable(one.index)) for name, one in zip(names, given)}
            entered = Variable(run.tape, variable(x.index))
            made = self._mix(Pass(_block_at(run.block), own), entered)
            if not isinstance(made, Variable) or made.shape != entered.shape:
                raise InputError(f"mix returned {made!r}: expected a variable of shape {list(entered.shape)}")
            return int(made._raw.index)
        except BaseException as raised:
            registry.fail_tape(run.tape, f"mixer {self.name}", raised)
            return int(x.index)


def _block_at(address: int) -> Block:
    raw = library.at("icl_mixer_block", address)
    return Block(raw.layer, raw.layers, raw.width, raw.heads, raw.causal)

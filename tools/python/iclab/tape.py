"""Formulas in the library's ops, differentiated by its tape on any device.

    def loss(weights, inputs, targets):
        return ((inputs @ weights - targets) ** 2).mean()

    value, (slope, _, _) = tape.gradient(loss, weights, inputs, targets, device="cpu")

A Variable takes +, -, *, /, @, ** 2 and slices; the functions here are those of include/iclab/tape.h, which says what
each does, with which gradient. Operands broadcast as arrays of NumPy do; reductions keep their axes, with extent 1. A
mixer of one's own (iclab.Mixer) is such a formula.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Sequence, Union

import numpy

from . import _arguments as arguments
from . import _library as library
from . import _tensors as tensors
from ._devices import Device, Handle, open_device
from .errors import InputError

Array = numpy.ndarray[Any, Any]
Operand = Union["Variable", float, int]


def _kinds(function: str) -> dict[str, int]:
    """Names of the kinds of an op, which kinds.h lists, and their numbers."""
    found: dict[str, int] = {}
    while (name := library.words(library.function(function)(len(found)))) != "unknown":
        found[name] = len(found)
    return found


_UNARY, _BINARY, _REDUCE = (_kinds(f"icl_{kind}_name") for kind in ("unary", "binary", "reduce"))
_NORMS = ("layer", "rms", "unit")


class Variable:
    """A tensor that a tape has recorded. The tape is the library's; a variable of another one, or of a function that
    has returned, is none."""

    __slots__ = ("_tape", "_raw")
    __array_ufunc__ = None  # an array of NumPy beside it is refused here, and not taken for one of objects

    def __init__(self, tape: Any, raw: Any) -> None:
        self._tape, self._raw = tape, raw

    @property
    def shape(self) -> tuple[int, ...]:
        return tensors.shape_of(self._value())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _value(self) -> Any:
        return library.function("icl_tape_value")(self._tape, self._raw)

    def __repr__(self) -> str:
        return f"Variable({list(self.shape)})"

    # ---- Arithmetic ----

    def __add__(self, other: Operand) -> Variable:
        return _binary("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Variable:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Operand) -> Variable:
        return -self + other

    def __mul__(self, other: Operand) -> Variable:
        return _binary("multiply", self, other) if isinstance(other, Variable) else _scaled(self, _number(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Variable:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Variable:
        return reciprocal(self) * other

    def __neg__(self) -> Variable:
        return _scaled(self, -1.0)

    def __abs__(self) -> Variable:
        return absolute(self)

    def __pow__(self, power: float) -> Variable:
        powers = {2: square, 1: _same, 0.5: square_root, -1: reciprocal}
        if power not in powers:
            raise InputError(f"a variable to the power of {power!r}: expected 2, 1, 0.5 or -1")
        return powers[power](self)

    def __matmul__(self, other: Variable) -> Variable:
        return matmul(self, other)

    # ---- Reductions, views ----

    def sum(self, axis: int | Sequence[int] | None = None) -> Variable:
        return _reduce("sum", self, axis)

    def mean(self, axis: int | Sequence[int] | None = None) -> Variable:
        return _reduce("mean", self, axis)

    def max(self, axis: int | Sequence[int] | None = None) -> Variable:
        return _reduce("max", self, axis)

    def reshape(self, *shape: int) -> Variable:
        """Of a view whose numbers do not lie in order: of a copy."""
        value = self._value()
        in_order = library.function("icl_tensor_is_contiguous")(ctypes.byref(value))
        return _recorded(self if in_order else _scaled(self, 1.0), "reshape", len(shape), _sizes(shape))

    def swap_axes(self, first: int, second: int) -> Variable:
        return _recorded(self, "swap_axes", _axis(self, first), _axis(self, second))

    def detach(self) -> Variable:
        """The same numbers, through which no gradient passes."""
        return _recorded(self, "detach")

    def __getitem__(self, places: Any) -> Variable:
        """By slices of step 1 and "...": x[:, 1:], x[..., :3]. A number keeps its axis, with extent 1."""
        given = list(places) if isinstance(places, tuple) else [places]
        if any(place is Ellipsis for place in given):
            i = next(i for i, place in enumerate(given) if place is Ellipsis)
            given[i : i + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        if len(given) > self.ndim:
            raise InputError(f"{len(given)} places in a variable of shape {list(self.shape)}")
        found = self
        for axis, place in enumerate(given):
            extent = found.shape[axis]
            if not isinstance(place, slice):
                place = slice(place, place + 1 or None)
            start, stop, step = place.indices(extent)
            if step != 1:
                raise InputError(f"a slice of step {step}: expected step 1")
            if (start, stop) != (0, extent):
                found = _recorded(found, "slice", axis, start, max(stop - start, 0))
        return found


# ---- Records ----


def _number(value: Any) -> float:
    if isinstance(value, (bool, numpy.bool_)) or not isinstance(value, (int, float, numpy.integer, numpy.floating)):
        raise InputError(f"{type(value).__name__} beside a variable: expected a variable or a number")
    return float(value)


def _same(x: Variable) -> Variable:
    return x


def _sizes(shape: Sequence[int]) -> Any:
    return (ctypes.c_size_t * max(len(shape), 1))(*shape)


def _axis(x: Variable, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise InputError(f"axis {axis} of a variable of shape {list(x.shape)}: there is none")
    return axis % x.ndim


def _finish(tape: Any, raw: Any) -> Variable:
    """The variable, or the exception of the op that failed: errors of a tape are sticky, and come at its end."""
    library.call("icl_tape_status", tape)
    return Variable(tape, raw)


def _recorded(x: Variable, op: str, *values: Any) -> Variable:
    return _finish(x._tape, library.function(f"icl_tape_{op}")(x._tape, x._raw, *values))


def _together(name: str, first: Any, *others: Any) -> None:
    for other in (first, *others):
        if not isinstance(other, Variable):
            raise InputError(f"{name}: {type(other).__name__}: expected a variable")


def _scaled(x: Variable, factor: float) -> Variable:
    return _finish(x._tape, library.function("icl_tape_scale")(x._tape, factor, x._raw))


def _binary(name: str, a: Variable, b: Operand) -> Variable:
    _together(name, a)
    other = b if isinstance(b, Variable) else filled(a, (1,), _number(b))
    return _finish(a._tape, library.function("icl_tape_binary")(a._tape, _BINARY[name], a._raw, other._raw))


def _unary(name: str, x: Variable) -> Variable:
    _together(name, x)
    return _finish(x._tape, library.function("icl_tape_unary")(x._tape, _UNARY[name], x._raw))


def _reduce(name: str, x: Variable, axis: int | Sequence[int] | None) -> Variable:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    bits = sum(1 << one for one in {_axis(x, one) for one in axes})
    return _finish(x._tape, library.function("icl_tape_reduce")(x._tape, _REDUCE[name], bits, x._raw))


def _optional(variable: Variable | None) -> Any:
    return None if variable is None else ctypes.addressof(variable._raw)


# ---- Elementwise ----


def square(x: Variable) -> Variable:
    return _unary("square", x)


def square_root(x: Variable) -> Variable:
    return _unary("square_root", x)


def reciprocal(x: Variable) -> Variable:
    return _unary("reciprocal", x)


def absolute(x: Variable) -> Variable:
    return _unary("absolute", x)


def exp(x: Variable) -> Variable:
    return _unary("exponential", x)


def log(x: Variable) -> Variable:
    return _unary("logarithm", x)


def tanh(x: Variable) -> Variable:
    return _unary("hyperbolic_tangent", x)


def sigmoid(x: Variable) -> Variable:
    return _unary("sigmoid", x)


def relu(x: Variable) -> Variable:
    return _unary("relu", x)


def softplus(x: Variable) -> Variable:
    return _unary("softplus", x)


def silu(x: Variable) -> Variable:
    return _unary("silu", x)


def gelu(x: Variable) -> Variable:
    return _unary("gelu", x)


def sin(x: Variable) -> Variable:
    return _unary("sine", x)


def cos(x: Variable) -> Variable:
    return _unary("cosine", x)


def maximum(a: Variable, b: Operand) -> Variable:
    return _binary("maximum", a, b)


def minimum(a: Variable, b: Operand) -> Variable:
    return _binary("minimum", a, b)


def filled(like: Variable, shape: Sequence[int], value: float) -> Variable:
    """A constant on the tape of `like`."""
    made = library.function("icl_tape_filled")(like._tape, len(shape), _sizes(shape), value)
    return _finish(like._tape, made)


# ---- Products, attention, recurrences ----


def matmul(a: Variable, b: Variable, scale: float = 1.0) -> Variable:
    """scale a b over the last two axes."""
    _together("matmul", a, b)
    return _finish(a._tape, library.function("icl_tape_matmul")(a._tape, scale, a._raw, b._raw))


def attention(
    q: Variable,
    k: Variable,
    v: Variable,
    *,
    kind: str = "softmax",
    scale: float | None = None,
    causal: bool = True,
    window: int = 0,
) -> Variable:
    """Of q [B, T, d] or [B, H, T, d], k and v likewise: kind "softmax" or "linear"; scale 1 / sqrt(d) where it is left
    out. window: how many keys a query sees, the last ones; 0: all."""
    _together("attention", q, k, v)
    params = library.struct(
        "icl_attention_params",
        kind=arguments.word("kind", kind, ("linear", "softmax")),
        mask=library.constants["ICL_MASK_CAUSAL" if causal else "ICL_MASK_NONE"],
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
        window=arguments.count("window", window, 0, arguments.LARGEST_COUNT),
    )
    made = library.function("icl_tape_attention")(q._tape, ctypes.byref(params), q._raw, k._raw, v._raw)
    return _finish(q._tape, made)


def recurrence(
    q: Variable,
    k: Variable,
    v: Variable,
    *,
    beta: Variable | None = None,
    decay: Variable | None = None,
    read_key: Variable | None = None,
    write_key: Variable | None = None,
    delta: bool = False,
    scale: float = 1.0,
    from_rows: bool = False,
) -> Variable:
    """The outputs [B, H, T, n] of a matrix state, by keys and queries [B, H, T, m] and values [B, H, T, n]:
    S <- exp(decay) S + beta k v^T, with `delta` less beta k (S^T k)^T, and o = scale S^T q. ops_recurrence.h says which
    models that is."""
    _together("recurrence", q, k, v)
    given = {"beta": beta, "decay": decay, "read_key": read_key, "write_key": write_key}
    inputs = library.struct(
        "icl_recurrence_variables",
        q=q._raw, k=k._raw, v=v._raw,
        **{name: _optional(variable) for name, variable in given.items()},
    )
    params = library.struct("icl_recurrence_params", delta=delta, scale=scale, from_rows=from_rows)
    function = library.function("icl_tape_recurrence")
    return _finish(q._tape, function(q._tape, ctypes.byref(params), ctypes.byref(inputs), None))


def convolve(x: Variable, kernel: Variable) -> Variable:
    """The causal convolution of x [B, T, c] with a kernel [width, c]."""
    _together("convolve", x, kernel)
    return _recorded(x, "convolve", kernel._raw)


def rotate(x: Variable, base: float = 10000.0, first_position: int = 0) -> Variable:
    """Rotary positions of x [..., T, d]."""
    _together("rotate", x)
    return _recorded(x, "rotate", base, first_position)


def normalize(
    x: Variable,
    kind: str = "rms",
    *,
    gain: Variable | None = None,
    shift: Variable | None = None,
    epsilon: float = 1e-5,
) -> Variable:
    """Rows along the last axis: "layer", "rms" or "unit"."""
    _together("normalize", x)
    params = library.struct("icl_normalize_params", kind=arguments.word("kind", kind, _NORMS), epsilon=epsilon)
    function = library.function("icl_tape_normalize")
    return _finish(x._tape, function(x._tape, ctypes.byref(params), x._raw, _optional(gain), _optional(shift)))


def look_up(table: Variable, symbols: Variable) -> Variable:
    """The rows of a table [V, w] by number."""
    _together("look_up", table, symbols)
    return _recorded(table, "look_up", symbols._raw)


def cross_entropy(logits: Variable, classes: Variable) -> Variable:
    """The losses [..., 1] of logits [..., V] and classes [..., 1]."""
    _together("cross_entropy", logits, classes)
    return _recorded(logits, "cross_entropy", classes._raw)


def concatenate(parts: Sequence[Variable], axis: int = -1) -> Variable:
    """One or more variables, one behind another along an axis."""
    if not parts:
        raise InputError("concatenate: no variables: expected one or more")
    _together("concatenate", *parts)
    array = (library.declared.struct("icl_variable") * len(parts))(*(part._raw for part in parts))
    first = parts[0]
    made = library.function("icl_tape_concatenate")(first._tape, _axis(first, axis), len(parts), array)
    return _finish(first._tape, made)


# ---- Values and gradients ----


def value(function: Callable[..., Variable], *arrays: Any, device: str | Device | None = None) -> Array:
    """A formula of these arrays, of any shape; the formula is called with a Variable for each."""
    return _run(function, arrays, device, with_slopes=False)[0]


def gradient(
    function: Callable[..., Variable], *arrays: Any, device: str | Device | None = None
) -> tuple[Array, list[Array]]:
    """The value of a formula of these arrays, of one element or one for each sequence, [B, 1, 1], and the gradients of
    their mean: doubles on "ref", else floats. The formula is called with a Variable for each array."""
    return _run(function, arrays, device, with_slopes=True)


def _run(
    function: Callable[..., Variable], arrays: Sequence[Any], device: str | Device | None, with_slopes: bool
) -> tuple[Array, list[Array]]:
    opened = open_device(device)
    kind = numpy.float64 if opened.is_double else numpy.float32
    values = [numpy.require(arguments.numbers("array", array), kind, ["C", "ALIGNED"]) for array in arrays]
    tape = Handle("icl_tape_destroy", opened)
    made: list[Any] = []
    with opened:
        try:
            library.call("icl_tape_create", opened, tape.slot)
            leaves = []
            for array in values:
                pair = [library.struct("icl_tensor") for _ in range(2)]
                made += pair
                for tensor in pair:
                    tensors.create(opened, array.shape, tensor)
                tensors.write(pair[0], array)
                leaves.append(_finish(tape, library.function("icl_tape_parameter")(tape, *pair)))
            result = function(*leaves)
            _together("the formula's value", result)
            if with_slopes:
                library.call("icl_tape_backward", tape, result._raw)
            slopes = [tensors.read(slope, opened.is_double) for slope in made[1::2]] if with_slopes else []
            return tensors.read(result._value(), opened.is_double), slopes
        finally:
            library.function("icl_tape_reset")(tape)
            for tensor in made:
                library.function("icl_tensor_release")(ctypes.byref(tensor))

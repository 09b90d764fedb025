"""The library's tensors and arrays of NumPy. An array's own memory is what the library reads and writes."""

from __future__ import annotations

import ctypes
from typing import Any, Sequence

import numpy

from . import _library as library


def pointer(array: numpy.ndarray[Any, Any]) -> Any:
    """Its address; the caller keeps the array."""
    return array.__array_interface__["data"][0]


def shape_of(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.shape[: tensor.rank])


def read(tensor: Any, is_double: bool) -> numpy.ndarray[Any, Any]:
    """A copy on the host: floats, or doubles of a device that has them."""
    values = numpy.empty(shape_of(tensor), numpy.float64 if is_double else numpy.float32)
    library.call("icl_tensor_read_double" if is_double else "icl_tensor_read", tensor, pointer(values))
    return values


def create(backend: Any, shape: Sequence[int], place: Any) -> None:
    """A new tensor of the library where `place` is."""
    sizes = (ctypes.c_size_t * max(len(shape), 1))(*shape)
    library.call("icl_tensor_create", backend, len(shape), sizes, ctypes.byref(place))


def write(tensor: Any, values: numpy.ndarray[Any, Any]) -> None:
    """From contiguous floats or doubles of the tensor's shape."""
    is_double = values.dtype == numpy.float64
    library.call("icl_tensor_write_double" if is_double else "icl_tensor_write", tensor, pointer(values))

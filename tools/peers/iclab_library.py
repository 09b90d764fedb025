"""iclab's shared library from Python, as far as tools/peers/check needs it.

Ops on numpy arrays, on the double-precision backend.
"""
import ctypes

import numpy


class Tensor(ctypes.Structure):
    """icl_tensor"""

    _fields_ = [
        ("buffer", ctypes.c_void_p),
        ("offset", ctypes.c_size_t),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_size_t * 4),
        ("stride", ctypes.c_size_t * 4),
    ]


class Error(ctypes.Structure):
    """icl_error"""

    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 4096)]


class TransformerParams(ctypes.Structure):
    """icl_linear_transformer_params"""

    _fields_ = [
        ("form", ctypes.c_int),
        ("layers", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
        ("heads", ctypes.c_size_t),
        ("factor", ctypes.c_double),
        ("space", ctypes.c_int),
    ]


class AttentionParams(ctypes.Structure):
    """icl_attention_params"""

    _fields_ = [("kind", ctypes.c_int), ("mask", ctypes.c_int), ("scale", ctypes.c_double)]


ABSENT = Tensor()
SOFTMAX, NO_MASK = 1, 0
FORMS = {"full": 0, "diag": 1}


class Library:
    def __init__(self, path, device):
        self.library = ctypes.CDLL(path)
        self.error = Error()
        self.backend = ctypes.c_void_p()
        # icl_backend_params: the spec comes first, and zero is the default of everything behind it.
        params = (ctypes.c_char_p * 32)(device.encode())
        self.call("icl_backend_open", ctypes.byref(params), ctypes.byref(self.backend))

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments, ctypes.byref(self.error)) != 0:
            raise RuntimeError(f"{name}: {self.error.message.decode()}")

    def make(self, shape):
        tensor = Tensor()
        extents = (ctypes.c_size_t * max(len(shape), 1))(*shape)
        self.call("icl_tensor_create", self.backend, len(shape), extents, ctypes.byref(tensor))
        return tensor

    def upload(self, array):
        array = numpy.ascontiguousarray(array, dtype=numpy.float64)
        tensor = self.make(array.shape)
        self.call("icl_tensor_write_double", tensor, array.ctypes.data_as(ctypes.c_void_p))
        return tensor

    def download(self, tensor):
        array = numpy.empty(tuple(tensor.shape[: tensor.rank]))
        self.call("icl_tensor_read_double", tensor, array.ctypes.data_as(ctypes.c_void_p))
        return array

    def step(self, form, space, p, q, tokens, targets, factor):
        """Loss and gradients of P and Q [L, ...], from icl_linear_transformer_gradient."""
        batch, layers = tokens.shape[0], p.shape[0]
        flat = numpy.concatenate((p.reshape(layers, -1), q.reshape(layers, -1)), axis=1)
        params = TransformerParams(FORMS[form], layers, 0, 1, factor, space)
        losses, gradient, norms = self.make((batch,)), self.make((flat.size,)), self.make((batch,))
        self.call(
            "icl_linear_transformer_gradient", self.backend, ctypes.byref(params), losses, gradient, norms,
            self.upload(flat.reshape(-1)), self.upload(tokens), ABSENT, ABSENT, self.upload(targets), ABSENT,
        )
        loss = numpy.mean(self.download(losses))
        both = self.download(gradient).reshape(layers, -1)
        half = p.reshape(layers, -1).shape[1]
        return loss, both[:, :half].reshape(p.shape), both[:, half:].reshape(q.shape)

    def attention(self, q, k, v, d_out, scale):
        """The output and the three gradients of softmax attention [batch, n, width]."""
        params = AttentionParams(SOFTMAX, NO_MASK, scale)
        inputs = [self.upload(array) for array in (q, k, v)]
        out, sums = self.make(q.shape), self.make((q.shape[0], q.shape[1], 1))
        self.call("icl_attention_forward", self.backend, ctypes.byref(params), out, sums, *inputs)
        gradients = [self.make(array.shape) for array in (q, k, v)]
        self.call(
            "icl_attention_backward", self.backend, ctypes.byref(params), *gradients, self.upload(d_out),
            out, sums, *inputs
        )
        return [self.download(tensor) for tensor in (out, *gradients)]

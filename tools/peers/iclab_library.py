"""iclab's shared library from Python, as far as tools/peers needs it: ops on numpy arrays, on any device."""
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


class RecurrenceParams(ctypes.Structure):
    """icl_recurrence_params"""

    _fields_ = [("delta", ctypes.c_bool), ("scale", ctypes.c_double)]


class RecurrenceInputs(ctypes.Structure):
    """icl_recurrence_inputs"""

    _fields_ = [
        (name, Tensor) for name in ("q", "k", "v", "beta", "decay", "read_key", "write_key", "state")
    ]


class RecurrenceSaved(ctypes.Structure):
    """icl_recurrence_saved"""

    _fields_ = [("reads", Tensor), ("states", Tensor)]


class TaskShape(ctypes.Structure):
    """icl_task_shape"""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("positions", "inputs", "symbols", "outputs", "first_scored", "scored")
    ] + [("loss", ctypes.c_int)]


ABSENT = Tensor()
SEGMENT = 32  # ICL_RECURRENCE_SEGMENT
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

    def synchronize(self):
        self.call("icl_backend_sync", self.backend)

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


class Recurrence:
    """One recurrence, of arrays of [B, H, T, width] or [B, H, T] by their names in icl_recurrence_inputs."""

    def __init__(self, library, delta, scale, inputs, d_out):
        wide = {name: array[..., None] if array.ndim == 3 else array for name, array in inputs.items()}
        batch, heads, tokens, width = wide["v"].shape
        keys = wide["k"].shape[3]
        self.library, self.names = library, list(inputs)
        self.shapes = [array.shape for array in inputs.values()]
        self.params = RecurrenceParams(delta, scale)
        self.inputs = RecurrenceInputs(**{name: library.upload(array) for name, array in wide.items()})
        self.gradients = RecurrenceInputs(**{name: library.make(array.shape) for name, array in wide.items()})
        self.out, self.final = library.make(d_out.shape), library.make((batch, heads, keys, width))
        self.d_out = library.upload(d_out)
        rows = -(-tokens // SEGMENT) * keys
        self.saved = RecurrenceSaved(
            library.make(d_out.shape) if delta else ABSENT, library.make((batch, heads, rows, width))
        )

    def forward(self, keep):
        self.library.call(
            "icl_recurrence_forward", self.library.backend, ctypes.byref(self.params), self.out,
            self.final if keep else ABSENT, ctypes.byref(self.saved) if keep else None, ctypes.byref(self.inputs),
        )

    def backward(self):
        self.library.call(
            "icl_recurrence_backward", self.library.backend, ctypes.byref(self.params), ctypes.byref(self.gradients),
            self.d_out, ABSENT, self.final, ctypes.byref(self.saved), ctypes.byref(self.inputs),
        )

    def arrays(self, backward):
        """The output, and the gradients in the order of the inputs."""
        gradients = [
            self.library.download(getattr(self.gradients, name)).reshape(shape)
            for name, shape in zip(self.names, self.shapes)
        ]
        return [self.library.download(self.out), *(gradients if backward else [])]


class Decoder:
    """icl_decoder of a new model, recipe by key of its section, for sequences of one output at each position."""

    def __init__(self, library, recipe, inputs, batch):
        self.library, call = library, library.call
        made, model, self.decoder = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        call("icl_recipe_create_complete", ctypes.byref(made))
        for key, value in recipe.items():
            call("icl_recipe_override", made, f"model.{key}={value}".encode())
        shape = TaskShape(positions=1, inputs=inputs, outputs=1, scored=1)
        call("icl_model_create", made, shape, ctypes.byref(model))
        library.library.icl_model_size.restype = ctypes.c_size_t
        values = numpy.empty(library.library.icl_model_size(model), numpy.float32)
        library.library.icl_model_initialize(model, 1, values.ctypes.data_as(ctypes.c_void_p))
        self.parameters, self.outputs = library.upload(values), library.make((batch, 1))
        call(
            "icl_decoder_create", model, library.backend, self.parameters, ctypes.c_size_t(batch),
            ctypes.byref(self.decoder),
        )

    def reset(self):
        self.library.library.icl_decoder_reset(self.decoder)

    def step(self, inputs):
        self.library.call("icl_decoder_step", self.decoder, inputs, self.outputs)

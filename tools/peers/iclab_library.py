"""Ops of iclab on numpy arrays, on any device, by the functions that the Python package declares from the headers."""
import ctypes
import os
import pathlib
import sys

import numpy

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python"


class Library:
    """The package over the shared library `path`, and a device that is open."""

    def __init__(self, path, device):
        os.environ["ICLAB_LIBRARY"] = str(path)  # which the import reads
        sys.path.insert(0, str(PACKAGE))
        from iclab import _devices, _library

        self.call, self.function, self.struct, self.at = _library.call, _library.function, _library.struct, _library.at
        self.constants, self.absent = _library.constants, _library.struct("icl_tensor")
        self.device, self.backend = device, _devices.Device(device)

    def make(self, shape):
        tensor = self.struct("icl_tensor")
        extents = (ctypes.c_size_t * max(len(shape), 1))(*shape)
        self.call("icl_tensor_create", self.backend, len(shape), extents, ctypes.byref(tensor))
        return tensor

    def upload(self, array):
        array = numpy.ascontiguousarray(array, dtype=numpy.float64)
        tensor = self.make(array.shape)
        self.call("icl_tensor_write_double", tensor, array.ctypes.data)
        return tensor

    def download(self, tensor):
        array = numpy.empty(tuple(tensor.shape[: tensor.rank]))
        self.call("icl_tensor_read_double", tensor, array.ctypes.data)
        return array

    def synchronize(self):
        self.call("icl_backend_sync", self.backend)

    def step(self, form, space, p, q, tokens, targets, factor):
        """Loss and gradients of P and Q [L, ...], from icl_linear_transformer_gradient."""
        batch, layers = tokens.shape[0], p.shape[0]
        flat = numpy.concatenate((p.reshape(layers, -1), q.reshape(layers, -1)), axis=1)
        params = self.struct(
            "icl_linear_transformer_params", parameterization=self.constants[f"ICL_LINEAR_{form.upper()}"],
            layers=layers, heads=1, factor=factor, space=space,
        )
        losses, gradient, norms = self.make((batch,)), self.make((flat.size,)), self.make((batch,))
        self.call(
            "icl_linear_transformer_gradient", self.backend, ctypes.byref(params), losses, gradient, norms,
            self.upload(flat.reshape(-1)), self.upload(tokens), self.absent, self.absent, self.upload(targets),
            self.absent,
        )
        loss = numpy.mean(self.download(losses))
        both = self.download(gradient).reshape(layers, -1)
        half = p.reshape(layers, -1).shape[1]
        return loss, both[:, :half].reshape(p.shape), both[:, half:].reshape(q.shape)

    def make_model(self, recipe, shape):
        """A model, recipe by key of its section, and its initial values."""
        made, model = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("icl_recipe_create_complete", ctypes.byref(made))
        for key, value in recipe.items():
            self.call("icl_recipe_override", made, f"model.{key}={value}".encode())
        self.call("icl_model_create", made, shape, ctypes.byref(model))
        values = numpy.empty(self.function("icl_model_size")(model), numpy.float32)
        self.function("icl_model_initialize")(model, 1, values.ctypes.data)
        return model, values

    def by_name(self, model, flat):
        """Parts of the flat parameters, or of their gradient, as arrays."""
        count, parts = self.function("icl_model_parameter_count")(model), {}
        for index in range(count):
            part = self.at("icl_parameter_info", self.function("icl_model_parameter")(model, index))
            values = flat[part.offset : part.offset + part.count]
            parts[part.name.decode()] = values.reshape(tuple(part.shape[: part.rank]))
        return parts

    def record_model(self, recipe, shape, inputs):
        """A new model, its initial parameters, their gradient to come, a tape, a function that records on it, and the
        model's outputs there."""
        model, values = self.make_model(recipe, shape)
        gradient, tape = self.make(values.shape), ctypes.c_void_p()
        self.call("icl_tape_create", self.backend, ctypes.byref(tape))
        record = lambda name, *arguments: self.function(f"icl_{name}")(*arguments)
        depth = self.function("icl_model_layers")(model)
        outputs = record("model_record", model, tape, self.upload(values), gradient, self.upload(inputs), depth)
        return model, values, gradient, tape, record, outputs

    def model_step(self, recipe, inputs, targets):
        """Initial parameters by name, loss, and gradient by name: inputs [B, T, p] with the query last, targets [B]."""
        batch, positions, width = inputs.shape
        shape = self.struct(
            "icl_task_shape", positions=positions, inputs=width, outputs=1, first_scored=positions - 1, scored=1
        )
        model, values, gradient, tape, record, outputs = self.record_model(recipe, shape, inputs)
        shapes = [(ctypes.c_size_t * 2)(*extents) for extents in ((batch, 1), (1, batch))]
        labels = record("tape_constant", tape, self.upload(targets[:, None]))
        errors = record("tape_scale_add", tape, 1, record("tape_reshape", tape, outputs, 2, shapes[0]), -1, labels)
        row = record("tape_reshape", tape, errors, 2, shapes[1])
        loss = record("tape_matmul", tape, 1 / batch, row, errors)
        self.call("icl_tape_backward", tape, loss)
        result = float(self.download(record("tape_value", tape, loss))[0, 0])
        return self.by_name(model, values), result, self.by_name(model, self.download(gradient))

    def model_outputs(self, recipe, shape, inputs, d_out):
        """Initial parameters by name, outputs [B, S, q], and by name the gradient of sum(outputs d_out)."""
        model, values, gradient, tape, record, outputs = self.record_model(recipe, shape, inputs)
        slopes = record("tape_constant", tape, self.upload(d_out.reshape(-1, 1)))
        row = record("tape_reshape", tape, outputs, 2, (ctypes.c_size_t * 2)(1, d_out.size))
        self.call("icl_tape_backward", tape, record("tape_matmul", tape, 1, row, slopes))
        seen = self.download(record("tape_value", tape, outputs))
        return self.by_name(model, values), seen, self.by_name(model, self.download(gradient))

    def attention(self, q, k, v, d_out, scale):
        """The output and the three gradients of softmax attention [batch, n, width]."""
        params = self.struct("icl_attention_params", kind=self.constants["ICL_ATTENTION_SOFTMAX"], scale=scale)
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

    def __init__(self, library, rule, scale, inputs, d_out):
        delta = rule != "sum"
        wide = {name: array[..., None] if array.ndim == 3 else array for name, array in inputs.items()}
        batch, heads, tokens, width = wide["v"].shape
        keys = wide["k"].shape[3]
        self.library, self.names = library, list(inputs)
        self.shapes = [array.shape for array in inputs.values()]
        self.params = library.struct("icl_recurrence_params", delta=delta, scale=scale)
        kind, absent = "icl_recurrence_inputs", library.absent
        self.inputs = library.struct(kind, **{name: library.upload(array) for name, array in wide.items()})
        self.gradients = library.struct(kind, **{name: library.make(array.shape) for name, array in wide.items()})
        self.out, self.final = library.make(d_out.shape), library.make((batch, heads, keys, width))
        self.d_out = library.upload(d_out)
        rows = -(-tokens // library.constants["ICL_RECURRENCE_SEGMENT"]) * keys
        self.saved = library.struct(
            "icl_recurrence_saved", reads=library.make(d_out.shape) if delta else absent,
            states=library.make((batch, heads, rows, width)),
        )

    def forward(self, keep):
        self.library.call(
            "icl_recurrence_forward", self.library.backend, ctypes.byref(self.params), self.out,
            self.final if keep else self.library.absent, ctypes.byref(self.saved) if keep else None,
            ctypes.byref(self.inputs),
        )

    def backward(self):
        self.library.call(
            "icl_recurrence_backward", self.library.backend, ctypes.byref(self.params), ctypes.byref(self.gradients),
            self.d_out, self.library.absent, self.final, ctypes.byref(self.saved), ctypes.byref(self.inputs),
        )

    def arrays(self, backward):
        """The output, and the gradients in the order of the inputs."""
        gradients = [
            self.library.download(getattr(self.gradients, name)).reshape(shape)
            for name, shape in zip(self.names, self.shapes)
        ]
        return [self.library.download(self.out), *(gradients if backward else [])]


class Decoder:
    """icl_decoder of a new model, recipe by key of its section, for a shape of task by its members."""

    def __init__(self, library, recipe, shape, batch):
        self.library, self.decoder = library, ctypes.c_void_p()
        shape = library.struct("icl_task_shape", **shape)
        model, values = library.make_model(recipe, shape)
        self.parameters, self.outputs = library.upload(values), library.make((batch, shape.outputs))
        library.call(
            "icl_decoder_create", model, library.backend, self.parameters, batch, ctypes.byref(self.decoder)
        )

    def reset(self):
        self.library.function("icl_decoder_reset")(self.decoder)

    def step(self, inputs):
        self.library.call("icl_decoder_step", self.decoder, inputs, self.outputs)

"""A model that iclab trained, without iclab: needs NumPy, and PyTorch only if you pass it.

    model = Model("runs/first/model.safetensors")
    y = model.predict(tokens)              # NumPy, in double precision
    y = model.predict(tokens, torch)       # PyTorch, on the device of the tokens and differentiable in them

tokens: [B, n + 1, d + 1], rows (x_i, y_i), the last one the query (x, 0). The file says all that is needed; its layout
stands in include/iclab/train.h at icl_trainer_export.
"""

import json
import struct

import numpy


def read(path):
    """Metadata and tensors of a safetensors file of floats."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    types = {"F32": "<f4", "F64": "<f8"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[start + begin : start + end], types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"]).astype(numpy.float64)
    return metadata, tensors


def check_regression(path, metadata):
    """Refuses a model for other tasks than a context and one query; files of older versions name no shape."""
    shape = {key[6:]: value for key, value in metadata.items() if key.startswith("shape.")}
    n, width = int(shape.get("positions", 1)) - 1, int(shape.get("inputs", 1))
    regression = {"positions": f"{n + 1}", "inputs": f"{width}", "symbols": "0", "outputs": "1", "scored": "1"}
    regression |= {"first_scored": f"{n}", "loss": "squared error"}
    if shape and (shape != regression or metadata.get("task.d") != f"{width - 1}"):
        raise ValueError(f"{path}: a model for the shape {shape}: expected one of in-context regression")


class Model:
    def __init__(self, path):
        metadata, self.tensors = read(path)
        if metadata.get("format") != "iclab" or metadata.get("layout") != "1":
            raise ValueError(
                f"{path}: layout {metadata.get('layout')} of {metadata.get('format')}: expected layout 1 of iclab"
            )
        check_regression(path, metadata)
        self.about = {key[6:]: value for key, value in metadata.items() if key.startswith("model.")}
        self.d, self.layers, self.heads = int(metadata["task.d"]), int(self.about["layers"]), int(self.about["heads"])

    def matrix(self, layer, head, part):
        """P or Q of one head, [d + 1, d + 1], whatever the parameterization."""
        form, d = self.about["parameterization"], self.d
        name = "AB"["QP".index(part)] if form.startswith("sparse") else part
        own = 0 if self.about["tied"] == "true" else layer
        given = self.tensors.get(f"layer.{own}.head.{head}.{name}")
        if form == "full":
            return given
        if form == "diag+lowrank":
            r = len(given) // 2
            return numpy.diag(given[0]) + given[1 : 1 + r].T @ given[1 + r :]
        matrix = numpy.zeros((d + 1, d + 1))
        if form.startswith("sparse"):
            matrix[:d, :d] = 0 if given is None else given
            matrix[d, d] = part == "P"
        else:
            matrix[range(d), range(d)] = given[0]
            matrix[d, d] = given[1] if len(given) > 1 else 0
        return matrix

    def predict(self, tokens, xp=numpy):
        z = xp.asarray(tokens, dtype=xp.float64)
        n, d = z.shape[1] - 1, self.d
        put = lambda matrix: xp.asarray(matrix) if xp is numpy else xp.asarray(matrix, device=z.device)
        softmax = lambda s: (lambda e: e / e.sum(-1)[..., None])(xp.exp(s - xp.amax(s, -1)[..., None]))
        if self.about["family"] == "softmax":
            scores = xp.einsum("bje,ef,bf->bj", z[:, :n, :d], put(self.tensors["M"]), z[:, n, :d])
            weights = scores / n if self.about["attention"] == "linear" else softmax(scores)
            return xp.einsum("bj,bj->b", weights, z[:, :n, d])
        weigh = {"raw": lambda s: s, "mean": lambda s: s / n, "softmax": softmax}[self.about["scale"]]
        for layer in range(self.layers):
            after = z
            for head in range(self.heads):
                P, Q = put(self.matrix(layer, head, "P")), put(self.matrix(layer, head, "Q"))
                weights = weigh(xp.einsum("bje,ef,bif->bij", z[:, :n], Q, z))
                after = after + xp.einsum("bij,bje,fe->bif", weights, z[:, :n], P)
            z = after
        return -z[:, n, d]

"""A model that iclab trained, without iclab, and the way back: needs NumPy, and PyTorch only if you pass it.

    model = Model("runs/first/model.safetensors")
    y = model.predict(inputs)              # NumPy, in double precision
    y = model.predict(inputs, torch)       # PyTorch, on the device of the inputs and differentiable in them
    y = model.predict(inputs, torch, own)  # the same of other tensors by these names, in their type, and in them, too

    save("runs/mine", tensors, {"task.d": 5, "task.n": 10, "model.family": "sequence", "model.mixer": "delta"})

Inputs of in-context regression: [B, n + 1, d + 1], rows (x_i, y_i), the last one the query (x, 0); the prediction is
[B]. Sequence models of other tasks take coordinates [B, T, p] or symbols [B, T], and give [B, S, q]: q numbers at each
scored position. The file says all that is needed; its layout stands in include/iclab/train.h at icl_trainer_export.
"""

import json
import math
import os
import struct

import numpy

# ---- Files ----


def read(path):
    """Metadata and tensors of a safetensors file of floats. ValueError where it is none, or not whole."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return parse(data)
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as failure:
        raise ValueError(f"{os.fspath(path)}: {failure}: expected a whole safetensors file of floats") from None


def parse(data):
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


def write(path, tensors, metadata):
    """A safetensors file of floats, rounded to single precision."""
    header, parts, begin = {"__metadata__": metadata}, [], 0
    for name, values in tensors.items():
        values = values.detach().cpu() if hasattr(values, "detach") else values
        array = numpy.ascontiguousarray(values, "<f4")
        end = begin + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(numpy.shape(values)), "data_offsets": [begin, end]}
        begin = end
        parts.append(array.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = f"{os.fspath(path)}.{os.getpid()}.tmp"
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(partial, path)  # at once: whoever reads it sees the old model or the new one


def save(folder, tensors, recipe):
    """A folder that `iclab eval` and `iclab predict` take as a run: model.safetensors and recipe.ini.

    tensors: NumPy arrays or PyTorch tensors by iclab's names, such as a state dict; iclab names the tensor that is
    missing or has another shape. Matrices are [inputs, outputs], y = x W + b: the transpose of torch.nn.Linear's.
    recipe: values by "section.key", of task and model at least; keys that are left out have their defaults.
    """
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in recipe.items()}
    lines = []
    for section in dict.fromkeys(key.split(".")[0] for key in texts):
        lines.append(f"[{section}]")
        lines += [f"{key.split('.')[1]} = {text}" for key, text in texts.items() if key.startswith(section + ".")]
    described = {key: text for key, text in texts.items() if key.startswith("model.") or key in ("task.d", "task.n")}
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, "model.safetensors"), tensors, {"format": "iclab", "layout": "1", **described})
    with open(os.path.join(folder, "recipe.ini"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def shape_of(metadata):
    """Of the task; files of older versions, and those that `save` wrote, name none and are for regression."""
    shape = {key[6:]: value for key, value in metadata.items() if key.startswith("shape.")}
    if not shape:
        return regression_shape(int(metadata["task.n"]), int(metadata["task.d"]) + 1)
    return shape


def regression_shape(n, width):
    shape = {"positions": n + 1, "inputs": width, "symbols": 0, "outputs": 1, "first_scored": n, "scored": 1}
    return {key: str(value) for key, value in shape.items()} | {"loss": "squared error"}


def check_regression(path, metadata, shape):
    """Refuses a model for other tasks than a context and one query."""
    n, width = int(shape["positions"]) - 1, int(shape["inputs"])
    if shape != regression_shape(n, width) or metadata.get("task.d") != f"{width - 1}":
        raise ValueError(f"{path}: a model for the shape {shape}: expected one of in-context regression")


def is_regression(shape):
    return shape == regression_shape(int(shape["positions"]) - 1, int(shape["inputs"]))


def check_shape(seen, shape, any_length):
    """Refuses inputs that are no sequences of the task; of any length, from a query on, where that is allowed."""
    is_symbols, positions = int(shape["symbols"]) > 0, int(shape["positions"])
    expected = (positions,) if is_symbols else (positions, int(shape["inputs"]))
    fits = len(seen) == 1 + len(expected) and seen[2:] == expected[1:]
    if not fits or (seen[1] < 1 if any_length else seen[1] != positions):
        words = ", ".join(map(str, expected))
        raise ValueError(f"inputs of shape {list(seen)}: expected [B, {words}]" + any_length * ", of any length")


def check_symbols(symbols, count):
    """Refuses what is no whole number from 0 to count - 1."""
    values = numpy.asarray(symbols.detach().cpu() if hasattr(symbols, "detach") else symbols)
    if not ((values >= 0) & (values < count) & (values == numpy.floor(values))).all():
        raise ValueError(f"inputs hold symbols that there are not: expected whole numbers from 0 to {count - 1}")


# ---- Models ----


class Model:
    def __init__(self, path):
        metadata, self.tensors = read(path)
        if metadata.get("format") != "iclab" or metadata.get("layout") != "1":
            raise ValueError(
                f"{path}: layout {metadata.get('layout')} of {metadata.get('format')}: expected layout 1 of iclab"
            )
        self.shape = shape_of(metadata)
        self.about = {key[6:]: value for key, value in metadata.items() if key.startswith("model.")}
        self.sequence = None
        if self.about["family"] == "sequence":
            self.sequence = Sequence(self.about, self.shape)
            return
        check_regression(path, metadata, self.shape)
        self.d, self.layers, self.heads = int(metadata["task.d"]), int(self.about["layers"]), int(self.about["heads"])

    def matrix(self, layer, head, part, xp=numpy, tensors=None):
        """P or Q of one head of a linear transformer, [d + 1, d + 1], whatever the parameterization."""
        form, d, tensors = self.about["parameterization"], self.d, self.tensors if tensors is None else tensors
        name = "AB"["QP".index(part)] if form.startswith("sparse") else part
        own = 0 if self.about["tied"] == "true" else layer
        given = tensors.get(f"layer.{own}.head.{head}.{name}")
        if form == "full":
            return given
        if form == "diag+lowrank":
            r = len(given) // 2
            return xp.diag(given[0]) + given[1 : 1 + r].T @ given[1 + r :]
        matrix = put(numpy.zeros((d + 1, d + 1)), next(iter(tensors.values())), xp)
        if form.startswith("sparse"):
            matrix[:d, :d] = 0 if given is None else given
            matrix[d, d] = part == "P"
        else:
            matrix[range(d), range(d)] = given[0]
            matrix[d, d] = given[1] if len(given) > 1 else 0
        return matrix

    def predict(self, inputs, xp=numpy, tensors=None):
        if self.sequence:
            self.sequence.check(inputs)
        own, inputs = prepare(inputs, self.tensors if tensors is None else tensors, self.shape, xp)
        if self.sequence:
            outputs = self.sequence.predict(inputs, own, xp)
            return outputs[:, 0, 0] if is_regression(self.shape) else outputs
        z = inputs
        check_shape(tuple(z.shape), self.shape, any_length=True)
        n, d = z.shape[1] - 1, self.d
        softmax = lambda s: (lambda e: e / e.sum(-1)[..., None])(xp.exp(s - xp.amax(s, -1)[..., None]))
        if self.about["family"] == "softmax":
            scores = xp.einsum("bje,ef,bf->bj", z[:, :n, :d], own["M"], z[:, n, :d])
            weights = scores / n if self.about["attention"] == "linear" else softmax(scores)
            return xp.einsum("bj,bj->b", weights, z[:, :n, d])
        weigh = {"raw": lambda s: s, "mean": lambda s: s / n, "softmax": softmax}[self.about["scale"]]
        for layer in range(self.layers):
            after = z
            for head in range(self.heads):
                P, Q = (self.matrix(layer, head, part, xp, own) for part in "PQ")
                weights = weigh(xp.einsum("bje,ef,bif->bij", z[:, :n], Q, z))
                after = after + xp.einsum("bij,bje,fe->bif", weights, z[:, :n], P)
            z = after
        return -z[:, n, d]


# ---- Sequence models: small functions ----


def put(array, like, xp):
    """A NumPy array where `like` is, and of its type."""
    return array if xp is numpy else xp.asarray(array, device=like.device, dtype=like.dtype)


def prepare(inputs, tensors, shape, xp):
    """The parameters where the inputs are, of the file in double precision, and the inputs, with a type that fits;
    inputs without a place, as arrays of NumPy, go to that of the parameters."""
    first, is_symbols = next(iter(tensors.values())), int(shape["symbols"]) > 0
    is_file = isinstance(first, numpy.ndarray)
    kind = xp.int64 if is_symbols else xp.float64 if is_file else first.dtype
    if xp is numpy:
        return tensors, numpy.asarray(inputs, kind)
    if is_file or hasattr(inputs, "device"):
        inputs = xp.asarray(inputs, dtype=kind)
    else:
        inputs = xp.asarray(inputs, dtype=kind, device=first.device)
    if is_file:
        tensors = {name: xp.asarray(values, device=inputs.device) for name, values in tensors.items()}
    return tensors, inputs


def relu(x, xp):
    return xp.where(x > 0, x, 0 * x)


def softplus(x, xp):
    return relu(x, xp) + xp.log1p(xp.exp(-abs(x)))


def sigmoid(x, xp):
    return xp.exp(-softplus(-x, xp))


def silu(x, xp):
    return x * sigmoid(x, xp)


def gelu(x, xp):
    return x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3), xp)


def normalize(kind, x, xp, gain=None, shift=None):
    """Rows: "layer" to mean 0 and variance 1, "rms" to mean square 1, "unit" to length 1."""
    x = x - x.mean(-1)[..., None] if kind == "layer" else x
    square = (x**2).sum(-1)[..., None]
    x = x / xp.sqrt(square + 1e-12 if kind == "unit" else square / x.shape[-1] + 1e-5)
    x = x if gain is None else x * gain
    return x if shift is None else x + shift


def convolve(x, filters, xp):
    """[B, T, c] by filters [width, c], of which the last row meets the position itself."""
    out = 0 * x
    for lag, row in enumerate(reversed(list(filters))):
        if lag < x.shape[1]:
            out = out + row * xp.concatenate((0 * x[:, :lag], x[:, : x.shape[1] - lag]), 1)
    return out


def rotate(x, angles, xp):
    """Pairs (i, i + d / 2) of [..., T, d] by angles [T, d / 2]."""
    half = x.shape[-1] // 2
    a, b, cos, sin = x[..., :half], x[..., half:], xp.cos(angles), xp.sin(angles)
    return xp.concatenate((a * cos - b * sin, a * sin + b * cos), -1)


def recur(q, k, v, scale, xp, beta=None, decay=None, delta=False, steps=1, read=None, write=None, rows=False):
    """S <- exp(decay) S, then S <- S + beta (w v^T - k (S^T r)^T) (delta, r and w are k by default) or S + beta k v^T,
    and o = scale S^T q, with `rows` scale S q, after the last of each token's steps. q [B, H, T, m], with `rows`
    [B, H, T, n]; the others [B, H, T steps, .]."""
    side = "bhn,bhmn->bhm" if rows else "bhm,bhmn->bhn"
    read, write = k if read is None else read, k if write is None else write
    state, outs = 0 * k[:, :, 0, :, None] * v[:, :, 0, None, :], []
    for t in range(k.shape[2]):
        if decay is not None:
            state = xp.exp(decay[:, :, t, :, None]) * state
        change = write[:, :, t, :, None] * v[:, :, t, None, :]
        if delta:
            held = xp.einsum("bhm,bhmn->bhn", read[:, :, t], state)
            change = change - k[:, :, t, :, None] * held[:, :, None, :]
        state = state + (change if beta is None else beta[:, :, t, :, None] * change)
        if (t + 1) % steps == 0:
            outs.append(scale * xp.einsum(side, q[:, :, t // steps], state))
    return xp.stack(outs, 2)


def before_decay(key, decay, xp):
    """The key that reads what a state held before its decay, down to exp(-8)."""
    return key * xp.exp(xp.clip(-decay, None, 8))


def solve(matrix, right, iterations, xp):
    """matrix^-1 right by so many conjugate gradient steps from right / diag(matrix)."""
    multiply = lambda vector: xp.einsum("bhij,bhj->bhi", matrix, vector)
    least = 1e-300 if right.dtype == xp.float64 else 1e-37
    divide = lambda a, b: (a / xp.clip(b, least, None))[..., None]
    x = right / xp.einsum("bhii->bhi", matrix)
    residual = right - multiply(x)
    direction, square = residual, (residual**2).sum(-1)
    for _ in range(iterations):
        product = multiply(direction)
        step = divide(square, (direction * product).sum(-1))
        x, residual, before = x + step * direction, residual - step * product, square
        square = (residual**2).sum(-1)
        direction = residual + divide(square, before) * direction
    return x


def solve_tokens(q, k, beta, decay, ridge, iterations, xp):
    """(H_t + diag(ridge))^-1 q_t with H_t = exp(decay_t) H_(t-1) + beta_t k_t k_t^T."""
    added = xp.einsum("hi,ij->hij", ridge, put(numpy.eye(k.shape[-1]), k, xp))
    state, outs = 0 * k[:, :, 0, :, None] * k[:, :, 0, None, :], []
    for t in range(k.shape[2]):
        grown = (beta[:, :, t] * k[:, :, t])[..., None] * k[:, :, t, None, :]
        state = xp.exp(decay[:, :, t, :, None]) * state + grown
        outs.append(solve(state + added, q[:, :, t], iterations, xp))
    return xp.stack(outs, 2)


# ---- Sequence models ----

DEFAULTS = {
    "layers": "1", "heads": "1", "mixer": "softmax", "width": "64", "causal": "true", "loops": "1",
    "injection": "true", "loop_norm": "false", "tied_embedding": "false", "tokens": "positions", "label_inputs": "2",
    "positions": "none", "position_base": "10000", "norm": "rms", "norm_place": "before", "feed_forward": "gelu",
    "activation_clip": "0", "readout": "position", "key_width": "0", "value_width": "0", "feature_map": "identity",
    "normalize_keys": "auto",
    "window": "0", "write_strength": "1", "delta_steps": "2", "iterations": "30", "ridge": "1", "momentum": "0.5",
    "normalizer": "false", "gate_limit": "1", "gate_root": "16", "slots": "0", "mimo_rank": "1",
    "output_norm": "rms",
}
ATTENTION = ("softmax", "labelled", "fox")
UNIT_KEYS = ("delta", "gated-delta", "delta-product", "mesa", "kda", "gated-delta-2", "preconditioned-delta", "comba")
UNIT_KEYS += ("titans", "oja")
SIGMOID_GATES = (*ATTENTION, "kda", "gated-delta-2", "comba")


class Sequence:
    """model.family = sequence. Formulas: src/model/sequence/, a file for each mixer."""

    def __init__(self, about, shape):
        self.about, self.shape = {**DEFAULTS, **about}, shape
        self.heads, self.layers = int(self.about["heads"]), int(self.about["layers"])
        words = [word.strip() for word in self.about["mixer"].split(",")]
        self.mixers = [words[i % len(words)] for i in range(self.layers)]
        for mixer in self.mixers:
            if not hasattr(self, "mix_" + mixer.replace("-", "_")):
                raise ValueError(f"model.mixer = {mixer}: expected a mixer of iclab's own, whose formula is known here")
        width = int(self.about["width"])
        self.key_width = int(self.about["key_width"]) or width // self.heads
        self.value_width = int(self.about["value_width"]) or width // self.heads
        self.causal = self.about["causal"] == "true"
        self.tied = self.about["tied_embedding"] == "true"
        self.has_cells = self.about["tokens"] == "cells"

    def number(self, key):
        return float(self.about[key])

    def check(self, inputs):
        any_length = is_regression(self.shape) and self.about["positions"] != "learned"
        check_shape(tuple(numpy.shape(inputs)), self.shape, any_length)
        if int(self.shape["symbols"]) > 0:
            check_symbols(inputs, int(self.shape["symbols"]))

    def predict(self, inputs, own, xp):
        if int(self.shape["symbols"]) > 0:
            embedded = own["embedding.table"][inputs]
            embedded = embedded * self.number("width") ** 0.5 if self.tied else embedded
        else:
            embed = self.embed_cells if self.has_cells else self.embed
            embedded = embed(inputs, own, xp)
            own = {**own, "last input": inputs[:, None, :, -1:]}
        embedded = self.add_positions(embedded, own, xp)
        z = embedded
        for loop in range(int(self.about["loops"])):
            z = z + embedded if loop > 0 and self.about["injection"] == "true" else z
            for layer in range(self.layers):
                z = self.block(Part(own, f"block.{layer}.", xp), self.mixers[layer], z)
            z = self.norm(Part(own, "", xp), "norm", z) if self.about["loop_norm"] == "true" else z
        first, scored = int(self.shape["first_scored"]), int(self.shape["scored"])
        if is_regression(self.shape):
            first = inputs.shape[1] - 1  # the query's
        if self.about["readout"] == "last":
            z = self.decode(z[:, -1:], first, scored, own, xp)
        elif self.about["readout"] == "pooled":
            z = z.mean(1)[:, None]
        else:
            z = z[:, first : first + scored]
            z = z[:, :, -1] if self.has_cells else z
        z = z if self.about["loop_norm"] == "true" else self.norm(Part(own, "", xp), "norm", z)
        matrix = own["embedding.table"].T if self.tied else own["readout.weight"]
        return z @ matrix + own["readout.bias"]

    def embed(self, inputs, own, xp):
        return inputs @ own["embedding.weight"] + own.get("embedding.bias", 0)

    def embed_cells(self, inputs, own, xp):
        """[B, T, C, width]: a cell for each input of a row, but the last ones, which share the label's."""
        features = inputs.shape[2] - int(self.about["label_inputs"])
        cells = inputs[..., :features, None] @ own["embedding.weight"] + own.get("embedding.bias", 0)
        label = inputs[..., None, features:] @ own["embedding.label.weight"] + own.get("embedding.label.bias", 0)
        return xp.concatenate((cells, label), 2)

    def decode(self, last, first, scored, own, xp):
        angles = self.angles(first + scored, last.shape[2], 10000.0)[first:]
        h = last + put(numpy.concatenate((numpy.cos(angles), numpy.sin(angles)), 1), last, xp)
        for i in range(2):
            h = self.norm(Part(own, "", xp), f"readout.{i}.norm", h) @ own[f"readout.{i}.weight"]
            h = gelu(h + own[f"readout.{i}.bias"], xp)
        return h

    def angles(self, positions, width, base=None):
        speeds = (base or self.number("position_base")) ** (-2 * numpy.arange(width // 2) / width)
        return numpy.arange(positions)[:, None] * speeds

    def add_positions(self, x, own, xp):
        if self.about["positions"] == "learned":
            return x + own["positions.table"][: x.shape[1]]
        if self.about["positions"] == "sinusoidal":
            angles = self.angles(x.shape[1], x.shape[2])
            return x + put(numpy.concatenate((numpy.cos(angles), numpy.sin(angles)), 1), x, xp)
        return x

    def norm(self, own, name, x):
        if own.get(name + ".gain") is None:
            return x
        return normalize(self.about["norm"], x, own.xp, own.get(name + ".gain"), own.get(name + ".shift"))

    def block(self, own, mixer, z):
        mix = lambda x: getattr(self, "mix_" + mixer.replace("-", "_"))(own, x)
        feed = lambda x: self.feed_forward(own, x)
        parts = [("mixer_norm", mix), ("feed_forward_norm", feed)]
        if self.has_cells:
            parts[0] = ("mixer_norm", lambda x: self.mix_columns(own, mixer, x))
            parts.insert(0, ("row_norm", lambda x: self.attend_in_rows(own, x)))
        for name, part in parts:
            if part is feed and self.about["feed_forward"] == "none":
                continue
            if self.about["norm_place"] == "after":
                z = self.norm(own, name, z + part(z))
            else:
                z = z + part(self.norm(own, name, z))
        most = float(self.about["activation_clip"])
        return z.clip(-most, most) if most > 0 else z

    def feed_forward(self, own, x):
        kind, hidden = self.about["feed_forward"], own.linear("feed_forward.up", x)
        if kind in ("relu", "gelu"):
            hidden = {"relu": relu, "gelu": gelu}[kind](hidden, own.xp)
        else:
            gate = own.linear("feed_forward.gate", x)
            hidden = hidden * (silu(gate, own.xp) if kind == "swiglu" else gate)
        return own.linear("feed_forward.down", hidden)

    # ---- Heads ----

    def split(self, x, width):
        return x.reshape(x.shape[0], -1, self.heads, width).swapaxes(1, 2)

    def project(self, own, x, mixer, steps=1):
        """q [B, H, T, .], k and v [B, H, T steps, .]."""
        out = []
        for name in ("query", "key", "value"):
            projected, filters = own.linear(f"mixer.{name}", x), own.get(f"mixer.{name}_filter")
            out.append(projected if filters is None else silu(convolve(projected, filters, own.xp), own.xp))
        q, k = (self.map_key(own, self.turn(own, part), mixer) for part in out[:2])
        return q, k, self.split(out[2], self.value_width)

    def turn(self, own, x):
        if self.about["positions"] != "rotary":
            return self.split(x, self.key_width)
        angles = put(self.angles(x.shape[1], self.key_width), x, own.xp)
        by_token = x.reshape(x.shape[0], x.shape[1], -1, self.key_width).swapaxes(1, 2)
        return self.split(rotate(by_token, angles, own.xp).swapaxes(1, 2).reshape(x.shape), self.key_width)

    def map_key(self, own, x, mixer):
        xp, norm = own.xp, self.key_norm(mixer)
        if mixer in (*ATTENTION, "mamba3"):  # the map is another layer's
            return x
        x = self.features(own, x)
        if norm == "unit":
            return normalize("unit", x, xp)
        return x / (x.sum(-1)[..., None] + 1e-6) if norm == "sum" else x

    def key_norm(self, mixer):
        chosen = self.about["normalize_keys"]
        return ("unit" if mixer in UNIT_KEYS else "none") if chosen == "auto" else chosen

    def features(self, own, x):
        word, _, count = self.about["feature_map"].partition(":")
        xp = own.xp
        if word == "elu+1":
            return relu(x, xp) + xp.exp(-relu(-x, xp))
        if word == "relu":
            return relu(x, xp)
        if word == "tanh":
            return xp.tanh(x)
        if word == "dpfp":
            r = relu(xp.concatenate((x, -x), -1), xp)
            turns = [(-j) % r.shape[-1] for j in range(1, int(count) + 1)]
            return xp.concatenate([r * xp.concatenate((r[..., j:], r[..., :j]), -1) for j in turns], -1)
        if word == "favor":
            scaled = x * self.key_width**-0.25
            u, half = scaled @ own.get("mixer.directions"), (scaled**2).sum(-1)[..., None] / 2
            return xp.exp(xp.concatenate((u - half, -u - half), -1)) / math.sqrt(2 * int(count))
        if word == "learned":
            return relu(x @ own.get("mixer.features") + own.get("mixer.features_bias"), xp)
        return x

    def scale(self, mixer):
        plain = self.key_norm(mixer) == "none" and self.about["feature_map"] == "identity"
        return self.key_width**-0.5 if plain else 1.0

    def emit(self, own, x, o, mixer):
        if own.get("mixer.output_gain") is not None:
            o = normalize(self.about["output_norm"], o, own.xp, own.get("mixer.output_gain"))
        o = o.swapaxes(1, 2).reshape(x.shape[0], x.shape[1], -1)
        if own.get("mixer.output_gate") is not None:
            gate = sigmoid if mixer in SIGMOID_GATES else silu
            o = o * gate(own.linear("mixer.output_gate", x), own.xp)
        return own.linear("mixer.output", o)

    # ---- Gates ----

    def share(self, own, name, x):
        return sigmoid(own.linear(name, x), own.xp)

    def write_strength(self, own, x, largest):
        return self.split(largest * self.share(own, "mixer.write", x), 1)

    def rate_gate(self, own, x, name="mixer.gate"):
        rate = own.xp.exp(own.get(name + "_rate"))
        decay = -rate * softplus(own.linear(name, x), own.xp)
        return self.split(decay + math.log(self.number("gate_limit")), 1)

    def channel_gate(self, own, x):
        logits = x @ own.get("mixer.gate_down") @ own.get("mixer.gate_up") + own.get("mixer.gate_bias")
        times = self.split(softplus(logits, own.xp), logits.shape[-1] // self.heads)
        rate = own.xp.exp(own.get("mixer.gate_rate"))[:, None, None]
        return math.log(self.number("gate_limit")) - rate * times

    def sigmoid_gate(self, own, logits, root, width):
        return self.split(-softplus(-logits, own.xp) / root + math.log(self.number("gate_limit")), width)

    # ---- Mixers ----

    def attend(self, own, x, mixer, offset=None):
        """Attention over all keys so far; each key adds its offset [B, H, T, 1] to the logits."""
        q, k, v = self.project(own, x, mixer)
        xp, sink = own.xp, own.get("mixer.sink")
        scores = xp.einsum("bhim,bhjm->bhij", q, k) * self.key_width**-0.5
        scores = scores if offset is None else scores + offset.swapaxes(2, 3)
        if self.causal:
            ones, window = numpy.ones(scores.shape[2:], bool), int(self.about["window"]) if mixer == "softmax" else 0
            hidden = numpy.triu(ones, 1) | (numpy.tril(ones, -window) if window > 0 else False)
            scores = scores + put(numpy.where(hidden, -numpy.inf, 0), x, xp)
        if sink is not None:
            scores = xp.concatenate((0 * q[..., :1] + sink[:, None, None], scores), -1)
            v = xp.concatenate((0 * v[:, :, :1], v), 2)
        weights = xp.exp(scores - xp.amax(scores, -1)[..., None])
        return self.emit(own, x, (weights / weights.sum(-1)[..., None]) @ v, mixer)

    def attend_in_rows(self, own, x):
        """Attention among the cells of each row, x [B, T, C, width]."""
        cells, xp = x.reshape(-1, *x.shape[2:]), own.xp
        q, k = (self.split(own.linear("row." + name, cells), self.key_width) for name in ("query", "key"))
        scores = xp.einsum("bhim,bhjm->bhij", q, k) * self.key_width**-0.5
        weights = xp.exp(scores - xp.amax(scores, -1)[..., None])
        v = self.split(own.linear("row.value", cells), self.value_width)
        o = (weights / weights.sum(-1)[..., None]) @ v
        return own.linear("row.output", o.swapaxes(1, 2).reshape(*x.shape[:3], -1))

    def mix_columns(self, own, mixer, x):
        """Each column of x [B, T, C, width] is a sequence for the mixer."""
        columns = x.swapaxes(1, 2)
        flags = own.tensors["last input"] + 0 * columns[..., :1]
        inner = Part({**own.tensors, "last input": flags.reshape(-1, 1, x.shape[1], 1)}, own.prefix, own.xp)
        mixed = getattr(self, "mix_" + mixer)(inner, columns.reshape(-1, *columns.shape[2:]))
        return mixed.reshape(columns.shape).swapaxes(1, 2)

    def mix_softmax(self, own, x):
        return self.attend(own, x, "softmax")

    def mix_labelled(self, own, x):
        return self.attend(own, x, "labelled", -1e4 * (own.tensors["last input"] == 0))

    def mix_fox(self, own, x):
        gates = self.sigmoid_gate(own, own.linear("mixer.gate", x), 1, 1)
        return self.attend(own, x, "fox", -own.xp.cumsum(gates, 2))

    def mix_linear(self, own, x):
        q, k, v = self.project(own, x, "linear")
        attend = lambda values: recur(q, k, values, self.scale("linear"), own.xp)
        if not self.causal:
            attend = lambda values: self.scale("linear") * (q @ (k.swapaxes(2, 3) @ values))
        o = attend(v)
        if self.about["normalizer"] == "true":
            o = o / (attend(0 * v[..., :1] + 1) + 1e-6)
        return self.emit(own, x, o, "linear")

    def mix_retention(self, own, x):
        q, k, v = self.project(own, x, "retention")
        rates = numpy.log1p(-(2.0 ** (-5 - numpy.arange(self.heads))))[None, :, None, None]
        decay = put(rates, x, own.xp) + 0 * v[..., :1]
        return self.emit(own, x, recur(q, k, v, self.scale("retention"), own.xp, decay=decay), "retention")

    def mix_gla(self, own, x):
        q, k, v = self.project(own, x, "gla")
        logits = x @ own.get("mixer.gate_down") @ own.get("mixer.gate_up") + own.get("mixer.gate_bias")
        decay = self.sigmoid_gate(own, logits, self.number("gate_root"), k.shape[-1])
        return self.emit(own, x, recur(q, k, v, self.scale("gla"), own.xp, decay=decay), "gla")

    def mix_mamba2(self, own, x):
        q, k, v = self.project(own, x, "mamba2")
        return self.emit(own, x, recur(q, k, v, self.scale("mamba2"), own.xp, decay=self.rate_gate(own, x)), "mamba2")

    def mix_mamba3(self, own, x):
        (q, k, v), xp, rank = self.project(own, x, "mamba3"), own.xp, int(self.about["mimo_rank"])
        by_rank = lambda a, width: a.reshape(a.shape[0], self.heads, -1, rank, width)  # [B, H, T, R, .]
        times = softplus(own.linear("mixer.step", x), xp)
        floor = 1e-4 + relu(softplus(own.linear("mixer.gate", x), xp) - 1e-4, xp)
        share = sigmoid(own.linear("mixer.share", x), xp)
        speeds = math.pi * xp.tanh(own.linear("mixer.angle", x))
        angles = xp.cumsum(times[..., None] * speeds[:, :, None], 1).swapaxes(1, 2)[:, :, :, None]

        def turned(a, name):
            offset = own.get(f"mixer.{name}_offset").reshape(rank, self.heads, self.key_width).swapaxes(0, 1)
            a = normalize("rms", by_rank(a, self.key_width), xp, own.get(f"mixer.{name}_gain"))
            return rotate(a + offset[:, None], angles, xp)

        def for_rank(a, name):  # [B, H, T, R or 1, n] times a factor for each rank
            factor = own.get("mixer." + name)
            if factor is None:
                return a
            return a * factor.reshape(rank, self.heads, self.value_width).swapaxes(0, 1)[:, None]

        q, k, v = turned(q, "query"), turned(k, "key"), for_rank(v[..., None, :], "spread")
        write = xp.einsum("bhtrm,bhtrn->bhtmn", k, v)
        by_head = lambda a: a.swapaxes(1, 2)[..., None, None]
        early, late, kept = by_head(share * times), by_head((1 - share) * times), by_head(xp.exp(-floor * times))
        state, outs = 0 * write[:, :, 0], []
        for t in range(x.shape[1]):
            before = state if t == 0 else state + late[:, :, t] * write[:, :, t - 1]
            state = kept[:, :, t] * before + early[:, :, t] * write[:, :, t]
            outs.append(xp.einsum("bhrm,bhmn->bhrn", q[:, :, t], state))
        skip = own.get("mixer.skip")[:, None, None, None] * v
        return self.emit(own, x, for_rank(xp.stack(outs, 2) + skip, "gather").sum(3), "mamba3")

    def mix_delta(self, own, x):
        return self.delta(own, x, "delta", 1)

    def mix_gated_delta(self, own, x):
        return self.delta(own, x, "gated-delta", 1, self.rate_gate(own, x))

    def mix_kda(self, own, x):
        return self.delta(own, x, "kda", 1, self.channel_gate(own, x))

    def mix_gated_delta_2(self, own, x):
        q, k, v = self.project(own, x, "gated-delta-2")
        erased = self.split(self.number("write_strength") * self.share(own, "mixer.erase", x), k.shape[-1])
        written = self.split(self.share(own, "mixer.write", x), self.value_width)
        decay, scale = self.channel_gate(own, x), self.scale("gated-delta-2")
        o = recur(q, k, written * v, scale, own.xp, decay=decay, delta=True, read=erased * k)
        return self.emit(own, x, o, "gated-delta-2")

    def mix_preconditioned_delta(self, own, x):
        q, k, v = self.project(own, x, "preconditioned-delta")
        xp, one = own.xp, 0 * k[..., :1] + 1
        written = self.split(self.share(own, "mixer.condition_write", x), 1)
        forgotten = self.rate_gate(own, x, "mixer.condition_gate")
        squares = recur(one, one, k**2, 1.0, xp, beta=written, decay=forgotten)
        size = xp.log(squares + 1e-6) - own.get("mixer.condition_center")[:, None, None]
        scaled = 1.5 ** (-size / (1 + abs(size))) * k
        beta = self.write_strength(own, x, self.number("write_strength"))
        decay, scale = self.rate_gate(own, x), self.scale("preconditioned-delta")
        o = recur(q, scaled, v, scale, xp, beta=beta, decay=decay, delta=True, read=k)
        return self.emit(own, x, o, "preconditioned-delta")

    def mix_comba(self, own, x):
        q, k, v = self.project(own, x, "comba")
        beta, decay = self.write_strength(own, x, self.number("write_strength")), self.rate_gate(own, x)
        fed = sigmoid(own.get("mixer.feedback"), own.xp)[:, None, None] * k
        q = q - own.get("mixer.correction")[:, None, None] * fed
        read = before_decay(fed, decay, own.xp)
        o = recur(q, k, v, self.scale("comba"), own.xp, beta=beta, decay=decay, delta=True, read=read)
        return self.emit(own, x, o, "comba")

    def mix_rwkv7(self, own, x):
        q, k, v = self.project(own, x, "rwkv7")
        xp, width = own.xp, k.shape[-1]
        by_head = lambda name: own.get(name).reshape(self.heads, 1, width)
        logits = xp.tanh(x @ own.get("mixer.gate_down")) @ own.get("mixer.gate_up") + own.get("mixer.gate_bias")
        decay = self.split(-math.exp(-0.5) * sigmoid(logits, xp), width)
        taken = self.split(self.share(own, "mixer.erase", x), width)
        removal = normalize("unit", k * by_head("mixer.removal"), xp)
        write = k * (1 + (taken - 1) * by_head("mixer.blend"))
        read = before_decay(removal, decay, xp)
        o = recur(q, removal * taken, v, self.scale("rwkv7"), xp, decay=decay, delta=True, read=read, write=write)
        return self.emit(own, x, o, "rwkv7")

    def mix_titans(self, own, x):
        q, k, v = self.project(own, x, "titans")
        beta = self.write_strength(own, x, self.number("write_strength"))
        decay = self.sigmoid_gate(own, own.linear("mixer.gate", x), 1, 1)
        read = before_decay(k, decay, own.xp)
        o = recur(q, k, v, self.scale("titans"), own.xp, beta=beta, decay=decay, delta=True, read=read)
        return self.emit(own, x, o, "titans")

    def mix_longhorn(self, own, x):
        q, k, v = self.project(own, x, "longhorn")
        beta = self.write_strength(own, x, self.number("write_strength"))
        beta = beta / (1 + beta * (k**2).sum(-1)[..., None])
        return self.emit(own, x, recur(q, k, v, self.scale("longhorn"), own.xp, beta=beta, delta=True), "longhorn")

    def mix_delta_product(self, own, x):
        return self.delta(own, x, "delta-product", int(self.about["delta_steps"]))

    def delta(self, own, x, mixer, steps, decay=None):
        q, k, v = self.project(own, x, mixer, steps)
        beta = self.write_strength(own, x, self.number("write_strength"))
        o = recur(q, k, v, self.scale(mixer), own.xp, beta=beta, decay=decay, delta=True, steps=steps)
        return self.emit(own, x, o, mixer)

    def mix_mesa(self, own, x):
        q, k, v = self.project(own, x, "mesa")
        beta = self.write_strength(own, x, 1)
        decay = self.sigmoid_gate(own, own.linear("mixer.gate", x), 1, 1)
        if own.get("mixer.ridge") is not None:
            ridge = softplus(own.get("mixer.ridge"), own.xp)[:, 0] + self.number("ridge") / 4
            q = solve_tokens(q, k, beta, decay, ridge, int(self.about["iterations"]), own.xp)
        return self.emit(own, x, recur(q, k, v, self.scale("mesa"), own.xp, beta=beta, decay=decay), "mesa")

    def mix_momentum(self, own, x):
        q, k, v = self.project(own, x, "momentum")
        velocity = state = 0 * k[:, :, 0, :, None] * v[:, :, 0, None, :]
        outs = []
        for t in range(k.shape[2]):
            velocity = self.number("momentum") * velocity + k[:, :, t, :, None] * v[:, :, t, None, :]
            state = state + velocity
            outs.append(self.scale("momentum") * own.xp.einsum("bhm,bhmn->bhn", q[:, :, t], state))
        return self.emit(own, x, own.xp.stack(outs, 2), "momentum")

    def mix_gsa(self, own, x):
        q, k, v = self.project(own, x, "gsa")
        slots = int(self.about["slots"]) or k.shape[-1]
        decay = self.sigmoid_gate(own, own.linear("mixer.gate", x), self.number("gate_root"), slots)
        share = 1 - own.xp.exp(decay)
        scores = recur(q, share, k, self.scale("gsa"), own.xp, decay=decay, rows=True)
        weights = own.xp.exp(scores - own.xp.amax(scores, -1)[..., None])
        o = recur(weights / weights.sum(-1)[..., None], share, v, 1, own.xp, decay=decay)
        return self.emit(own, x, o, "gsa")

    def mix_oja(self, own, x):
        q, k, v = self.project(own, x, "oja")
        v, beta = normalize("unit", v, own.xp), self.write_strength(own, x, self.number("write_strength"))
        decay = self.sigmoid_gate(own, own.linear("mixer.gate", x), self.number("gate_root"), self.value_width)
        o = recur(q, v, k, self.scale("oja"), own.xp, beta, decay, delta=True, rows=True)
        return self.emit(own, x, o, "oja")

    def mix_log_linear(self, own, x):
        q, k, v = self.project(own, x, "log-linear")
        steps, levels = numpy.arange(x.shape[1]), 16
        apart = numpy.frexp((steps[:, None] ^ steps[None, :]).astype(float))[1].clip(0, levels - 1)
        weights = softplus(own.linear("mixer.level", x) * own.get("mixer.level_scale"), own.xp)
        weights = self.split(weights, levels)[:, :, steps[:, None], apart]
        sums = own.xp.cumsum(self.rate_gate(own, x)[..., 0], -1)
        kept = own.xp.exp((sums[..., :, None] - sums[..., None, :]).clip(None, 0))
        seen = put(numpy.tril(numpy.ones(apart.shape)), x, own.xp)
        scores = self.scale("log-linear") * own.xp.einsum("bhim,bhjm->bhij", q, k)
        return self.emit(own, x, (seen * kept * weights * scores) @ v, "log-linear")

    def mix_conv(self, own, x):
        return convolve(x, own.get("mixer.filter"), own.xp) * own.linear("mixer.output", x)


class Part:
    """The parameters of a block, and with what to compute."""

    def __init__(self, tensors, prefix, xp):
        self.tensors, self.prefix, self.xp = tensors, prefix, xp

    def get(self, name):
        return self.tensors.get(self.prefix + name)

    def linear(self, name, x):
        bias = self.get(name + "_bias")
        return x @ self.get(name) + (0 if bias is None else bias)

#!/usr/bin/env python3
"""Reads a file of ours with the public safetensors library, and with a reader written from the format's description.

Arguments: the program that writes the file.
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tap import done, ok, skip


def single(values):
    return [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]


EXPECTED = {
    "layer.0.head.0.P": ([2, 3], single([1.0, -2.5, 3.0e-38, 4.0, 5.0, 6.5])),
    "scalar": ([], [7.0]),
    "empty": ([0, 4], []),
    "vector": ([3], [0.1, -1e300, 3.0]),
}
METADATA = {"step": "12", "text": 'two\nlines "quoted"'}


def check_format(data):
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    ok((8 + length) % 8 == 0, "the data is aligned to 8 bytes")
    ok(header.pop("__metadata__") == METADATA, "the metadata is a table of strings")
    ok(list(header) == list(EXPECTED), "the names, in order")
    end = 0
    for name, entry in header.items():
        shape, values = EXPECTED[name]
        begin, stop = entry["data_offsets"]
        letter = {"F32": "f", "F64": "d"}[entry["dtype"]]
        found = [number for (number,) in struct.iter_unpack("<" + letter, body[begin:stop])]
        ok(entry["shape"] == shape and begin == end and found == values, f"{name}: shape, place and values")
        end = stop
    ok(end == len(body), "nothing behind the last tensor")


def check_library(path):
    try:
        from safetensors import safe_open
        import numpy
    except ImportError:
        skip("the public safetensors library", "the Python packages safetensors and numpy are not installed")
        return
    with safe_open(str(path), framework="numpy") as file:
        ok(file.metadata() == METADATA, "the library reads the metadata")
        ok(set(file.keys()) == set(EXPECTED), "the library reads the names")
        for name, (shape, values) in EXPECTED.items():
            tensor = file.get_tensor(name)
            same = list(tensor.shape) == shape and tensor.ravel().tolist() == values
            ok(
                same and tensor.dtype == (numpy.float64 if name == "vector" else numpy.float32),
                f"the library reads {name}",
            )


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "test.safetensors"
    subprocess.run([*sys.argv[1:], str(path)], check=True)
    check_format(path.read_bytes())
    check_library(path)
done()

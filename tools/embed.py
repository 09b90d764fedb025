#!/usr/bin/env python3
"""Embeds OpenCL kernels: embed.py OUTPUT.c INPUT.cl ...

Writes one C file that holds each input as a byte array and the table icl_kernel_sources of
src/backend/opencl/program.h. Local includes (#include "x.h") are resolved here, each once for each input, so that no
include path reaches a driver's compiler; #line keeps its messages pointing at the right file. A kernel name that
occurs twice is an error.
"""

import os
import pathlib
import re
import sys

INCLUDE = re.compile(r'#include "([^"]*)"')
# Neither a comment nor an attribute says what a kernel is called: its name stands before the first parenthesis.
IGNORED = re.compile(r"/\*.*?\*/|//[^\n]*|__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", re.S)
KERNEL = re.compile(r"\b__kernel\s[^(]*?(\w+)\s*\(")


def expand(path, included):
    """The text of a file, with its local includes in place."""
    parts = [f'#line 1 "{path.name}"\n']
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 2):
        include = INCLUDE.match(line)
        if not include:
            parts.append(line)
            continue
        inner = pathlib.Path(os.path.normpath(path.parent / include[1]))
        if inner in included:
            parts.append("\n")
        else:
            included.add(inner)
            parts += [expand(inner, included), f'#line {number} "{path.name}"\n']
    return "".join(parts)


def hash_of(data):
    """FNV-1a, 64 bits."""
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def main(output, *inputs):
    """Writes the file, or ends with one line that says why not."""
    if not inputs:
        sys.exit("usage: embed.py OUTPUT.c INPUT.cl ...")
    kernels, arrays, rows = set(), [], []
    for index, path in enumerate(map(pathlib.Path, inputs)):
        text = expand(path, set())
        for name in KERNEL.findall(IGNORED.sub(" ", text)):
            if name in kernels:
                sys.exit(f"embed: {path}: kernel {name} exists already")
            kernels.add(name)
        data = text.encode()
        numbers = [f"{byte}," for byte in data]
        lines = ["".join(numbers[at : at + 24]) for at in range(0, len(numbers), 24)]
        arrays.append("\n".join([f"static const unsigned char source_{index}[] = {{", *lines, "0};\n"]))
        rows.append(f'    {{"{path.stem}", source_{index}, {len(data)}, {hash_of(data):#018x}ULL}},\n')
    pathlib.Path(output).write_text(
        '/* Written by tools/embed.py from cl/. Do not edit. */\n#include "backend/opencl/program.h"\n\n'
        + "".join(arrays)
        + f"\nconst icl_kernel_source icl_kernel_sources[] = {{\n{''.join(rows)}}};\n"
        + f"const size_t icl_kernel_source_count = {len(inputs)};\n",
        encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"embed: {error}")

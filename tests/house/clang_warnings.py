#!/usr/bin/env python3
"""Clang has no warning about any C file of a build folder: it sees what gcc, which builds it, does not.

Clang only parses the files, by the commands of compile_commands.json, so that this takes seconds where a build takes
minutes. The build by clang is a later configuration of tools/check.

Usage: clang_warnings.py BUILD_FOLDER; prints TAP.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

CLANG = ["clang-14", "-fsyntax-only", "-Werror", "-Wno-unknown-warning-option", "-Qunused-arguments"]
DROPPED = {"-c", "-MD"}
DROPPED_WITH_NEXT = {"-o", "-MF", "-MQ"}
PLANTED = "#include <math.h>\ndouble none(void);\ndouble none(void) { return INFINITY; }\n"  # a float to clang alone


def flags_of(command):
    """The arguments of a compilation without compiler, outputs and steps."""
    flags, words = [], iter(shlex.split(command))
    for word in words:
        if word in DROPPED_WITH_NEXT:
            next(words)
        elif word not in DROPPED:
            flags.append(word)
    start = next(i for i, flag in enumerate(flags) if flag.startswith("-"))  # behind the compiler and its wrapper
    return flags[start:]


def warnings_of(command, folder):
    result = subprocess.run(CLANG + flags_of(command), cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in result.stderr.splitlines() if "error:" in line or "warning:" in line]
    return lines or ([result.stderr or "clang failed"] if result.returncode else [])


def main():
    build = pathlib.Path(sys.argv[1])
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    written = {entry["file"]: entry["command"] for entry in entries if entry["file"].startswith("..")}  # not generated
    commands = {file: command for file, command in written.items() if file.endswith(".c")}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [line for lines in pool.map(lambda one: warnings_of(one, build), commands.values()) for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        planted = pathlib.Path(folder, "planted.c")
        planted.write_text(PLANTED, encoding="utf-8")
        noticed = warnings_of(f"cc -Wdouble-promotion {planted} -o planted.o", folder)
    for line in found:
        print(f"# {line}")
    print(f"{'not ' if found or len(commands) < 2 else ''}ok 1 - clang warns of nothing in {len(commands)} C files")
    print(f"{'' if noticed else 'not '}ok 2 - a float that becomes a double is noticed")
    print("1..2")


main()

#!/usr/bin/env python3
"""Embeds the kernels with one fault planted.

plant.py EMBED OUTPUT.c FAULTY.cl FROM TO PROGRAM.cl...

Copies cl/, which holds the programs, and the public headers, replaces FROM by TO wherever it stands in cl/FAULTY.cl,
and has the script EMBED make the C file of the copies of the programs. FROM must be there: a kernel that was rewritten
needs its fault rewritten too.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def main():
    embed, output, faulty, old, new, *programs = sys.argv[1:]
    root = pathlib.Path(os.path.commonpath([os.path.abspath(program) for program in programs]))
    with tempfile.TemporaryDirectory() as folder:
        for source in ("cl", "include"):
            shutil.copytree(root.parent / source, pathlib.Path(folder, source))
        copies = [pathlib.Path(folder, "cl", os.path.relpath(program, root)) for program in programs]
        path = pathlib.Path(folder, "cl", faulty)
        text = path.read_text(encoding="utf-8")
        if old not in text:
            sys.exit(f"plant.py: {faulty} no longer holds '{old}': plant the fault elsewhere")
        path.write_text(text.replace(old, new), encoding="utf-8")
        subprocess.run([sys.executable, embed, output, *copies], check=True)


if __name__ == "__main__":
    main()

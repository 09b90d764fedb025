#!/usr/bin/env python3
"""Embeds the kernels with one fault planted.

plant.py EMBED OUTPUT.c FAULTY.cl FROM TO PROGRAM.cl...

Copies the folder of the programs, replaces FROM by TO wherever it stands in FAULTY.cl, and has EMBED make the C file of
the copies of the programs. FROM must be there: a kernel that was rewritten needs its fault rewritten too.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile


def main():
    embed, output, faulty, old, new, *programs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for source in pathlib.Path(programs[0]).parent.glob("*.*"):
            shutil.copy(source, folder)
        copies = [pathlib.Path(folder, pathlib.Path(program).name) for program in programs]
        path = pathlib.Path(folder, faulty)
        text = path.read_text(encoding="utf-8")
        if old not in text:
            sys.exit(f"plant.py: {faulty} no longer holds '{old}': plant the fault elsewhere")
        path.write_text(text.replace(old, new), encoding="utf-8")
        subprocess.run([embed, output, *copies], check=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Lines have at most 120 columns, in code, comments and prose alike.

Exempt are tables in Markdown, whose rows cannot be broken, and lines that are one word, such as an address, beside a
mark of a comment. Files without a suffix count where they are scripts; data (SVG, CSV, safetensors) does not.

Usage: columns.py SOURCE_FOLDER; prints TAP.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

WIDEST = 120
FOLDERS = "src cl include tests tools subprojects/packagefiles .ci".split()
SETTINGS = {".clang-format", ".clang-tidy"}
SUFFIXES = {".c", ".h", ".cl", ".py", ".sh", ".md", ".ini", ".build", ".txt", ".in"}


def is_text(path):
    if path.suffix or path.name in SETTINGS:
        return path.name in SETTINGS or path.suffix in SUFFIXES
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def read_texts(root):
    paths = [path for path in root.iterdir() if path.is_file()]
    for folder in FOLDERS:
        paths += (root / folder).rglob("*")
    texts = (path for path in sorted(paths) if path.is_file() and is_text(path))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace") for path in texts}


def is_exempt(name, line):
    return (name.endswith(".md") and line.startswith("|")) or re.fullmatch(r"\s*(?:[#;*/|]+\s+)?\S+", line)


def too_wide(texts):
    return [
        f"{name}:{number}: {len(line)} columns"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > WIDEST and not is_exempt(name, line)
    ]


def planted():
    wide, word = "word " * 25, "w" * 130
    return [
        ("a wide line is noticed", len(too_wide({"a.c": f"int a;\n/* {wide}*/\n", "b.py": f"# {wide}"})) == 2),
        ("a line of 120 columns is not", not too_wide({"a.c": "a " * 60, "a.md": f"| {wide} |", "b.md": f"* {word}"})),
    ]


def main():
    found = too_wide(read_texts(pathlib.Path(sys.argv[1])))
    checks = [(f"lines have at most {WIDEST} columns", not found, found)]
    checks += [(title, noticed, []) for title, noticed in planted()]
    tap.report(checks)


if __name__ == "__main__":
    main()

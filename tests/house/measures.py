#!/usr/bin/env python3
"""Prints the measures of the house for the tree as it is.

lines, files        of all files that git tracks
src                 its C files and headers; the share of those with at most 60 lines
circles of calls    the largest sets of files of one room that reach one another by using functions that another one of
                    the set defines; a function in a table of functions counts as used
repeated tags       struct, union and enum tags that a header defines and another file defines again
exports             functions of src with external linkage that no public header declares. The names that HOST and
                    KERNEL make are left out: they are compiled several times, and are called through tables. A user is
                    another file of src or tools; tests are none. A header that uses one in a macro (it makes names
                    from those of all ops) or in an inline function stands for all that include it, so that the
                    function has more than one user
unused exports      exports that no file uses but the one that defines them, tests included: they can be static
long headers        headers of src and include with more than 200 lines
recipe keys         those of tests/run/recipe_keys.tsv; a key is unused where no recipe, no sweep, no reproduction
                    (a text in src/papers) and no command that a page or a script shows (--set) sets it

Usage: measures.py SOURCE_FOLDER [MEASURE]; with one of the measures of several things, such as "exports with one user",
it lists them.
"""

import pathlib
import re
import subprocess
import sys

import sources

SHORT, LONG_HEADER = 60, 200
KEY = re.compile(r"\b(?:task|model|train|eval)\.\w+")


def is_of_source(name):
    return not name.startswith(("tools/", "iclab/"))


def circles_of_calls(files):
    definers, users = sources.read_uses(files)
    uses = {name: set() for name in files if is_of_source(name) and name.endswith(".c")}
    for function, names in users.items():
        for name in names & uses.keys():
            uses[name] |= {other for other in definers[function] if other.split("/")[0] == name.split("/")[0]}
    return [", ".join(members) for members in sources.circles(uses)]


def repeated_tags(files):
    places = {}
    for name, text in files.items():
        for tag in re.findall(r"\b(?:struct|union|enum) (\w+) \{", sources.code_of(text)):
            places.setdefault(tag, []).append(name)
    return [
        f"{tag}: {', '.join(names)}"
        for tag, names in sorted(places.items())
        if len(names) > 1 and any(name.endswith(".h") for name in names)
    ]


def exports(files):
    """Each export with the file that defines it, or one of them, and its users."""
    definers, users = sources.read_uses(files)
    public = sources.public_functions(files)
    return {
        function: (min(names), users[function])
        for function, names in sorted(definers.items())
        if function not in public and "(" not in function and is_of_source(min(names))
    }


def exports_with_one_user(functions):
    return [
        f"{function} of {home} is used by {min(users)} alone"
        for function, (home, users) in functions.items()
        if len(users) == 1 and min(users).endswith(".c")
    ]


def unused_exports(functions, tests):
    used = set().union(*(sources.names_of(sources.code_of(text), ()) for text in tests.values()))
    return [
        f"{function} of {home}"
        for function, (home, users) in functions.items()
        if not users and function not in used
    ]


def long_headers(files):
    lines = {name: text.count("\n") for name, text in files.items() if name.endswith(".h")}
    return [
        f"{name}: {count} lines"
        for name, count in lines.items()
        if count > LONG_HEADER and not name.startswith("tools/")
    ]


def read_keys(root):
    rows = (root / "tests/run/recipe_keys.tsv").read_text().splitlines()[1:]
    return [row.split("\t")[0] for row in rows]


def keys_set_by(text):
    """The keys that a recipe or a sweep sets."""
    keys, section = set(), ""
    for line in text.splitlines():
        title, setting = re.match(r"\[(\w+)\]", line), re.match(r"(?:at = )?([\w.]+)(?:\s*=|$)", line)
        if title:
            section = title[1]
        elif setting:
            keys |= {setting[1], f"{section}.{setting[1]}"}
    return keys


def read_recipes(root):
    folders = [root / "tools" / name for name in ("recipes", "studies", "sweeps")]
    return [path.read_text() for folder in folders for path in folder.glob("*.ini")]


def read_shown(root):
    """Pages and scripts, which show commands."""
    folders = [root / "tools" / name for name in ("clusters", "reference", "recipes")]
    paths = [path for folder in folders for path in folder.iterdir()]
    return [path.read_text() for path in [*paths, root / "README.md"]]


def unused_keys(keys, recipes, shown, files):
    used = set(re.findall(r"--set (\w+\.\w+)", " ".join(shown))).union(*map(keys_set_by, recipes))
    for name, text in files.items():
        if name.startswith("papers/"):
            code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
            used |= set(KEY.findall(" ".join(re.findall(r'"(?:\\.|[^"\\\n])*"', code))))
            used |= {".".join(names) for names in re.findall(r'"(task|model|train|eval)", "(\w+)"', code)}
    return [key for key in keys if key not in used]


def sizes_of_tree(root):
    command = ["git", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    return [(root / name).read_bytes().count(b"\n") for name in names if (root / name).is_file()]


def read_tests(root):
    return sources.read_files(root, [("tests", "tests/")])


def read_lists(root, files):
    """Each measure of several things, with these."""
    functions, calls, keys = exports(files), circles_of_calls(files), read_keys(root)
    return {
        "circles of calls": calls,
        "files in circles of calls": [name for circle in calls for name in circle.split(", ")],
        "repeated tags": repeated_tags(files),
        "exports": list(functions),
        "exports with one user": exports_with_one_user(functions),
        "unused exports": unused_exports(functions, read_tests(root)),
        "long headers": long_headers(files),
        "recipe keys": keys,
        "unused recipe keys": unused_keys(keys, read_recipes(root), read_shown(root), files),
    }


def main():
    root = pathlib.Path(sys.argv[1])
    files = sources.read_files(root)
    lists = read_lists(root, files)
    if len(sys.argv) > 2:
        print("\n".join(lists[sys.argv[2]]))
        return
    tree = sizes_of_tree(root)
    source = [text.count("\n") for name, text in files.items() if is_of_source(name)]
    short = round(100 * sum(lines <= SHORT for lines in source) / len(source))
    rows = {
        "lines of the tree": sum(tree),
        "files of the tree": len(tree),
        "lines of src": sum(source),
        "files of src": len(source),
        f"percent of files of src with at most {SHORT} lines": short,
    }
    rows.update({name: len(items) for name, items in lists.items()})
    for name, value in rows.items():
        print(f"{value:7} {name}")


if __name__ == "__main__":
    main()

"""The house: nothing is used from above, no room is too large, no files include each other in a circle, numbers are
printed in the same way in every locale, the files of an op are those of CONTRIBUTING.md's worked example, and what
measures.py counts does not grow.

A room is a folder of src; it uses only rooms that stand before it in src/meson.build. The papers come after them, the
command's files in tools last. A public header belongs to the lowest room that defines one of its functions, and a room
calls only public functions that it or a lower one defines, whatever header declares them. A room with more than a fifth
of the lines of src must have floors, that is folders, and none may have more than a third.

Usage: house.py SOURCE_FOLDER; prints TAP.
"""

import pathlib
import re
import sys

import measures
import sources
from sources import code_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

LARGEST, WITH_FLOORS = 1 / 3, 1 / 5

# measures.py counts these, and there may be so many of each. Whoever removes one lowers the bound; nobody raises it.
# "measures.py SOURCE_FOLDER NAME" lists them.
BOUNDS = {
    "circles of calls": 1,
    "files in circles of calls": 2,
    "repeated tags": 0,
    "exports with one user": 212,
    "unused exports": 0,
    "long headers": 6,
    "unused recipe keys": 0,
}

MOST_FILES_OF_AN_OP = 10

# Public headers of types and macros alone, and whose they are.
WITHOUT_FUNCTIONS = {"export": "core", "kinds": "arithmetic", "reference_predictor": "task", "iclab": "papers"}


def read_rooms(root):
    rooms = re.findall(r"^subdir\('(\w+)'\)", (root / "src/meson.build").read_text(), re.M)
    return rooms + ["papers"]


def read_functions(files):
    """The room that defines each public function."""
    declared, rooms = sources.public_functions(files), {}
    for name, text in files.items():
        if not name.endswith(".c") or name.startswith("tools/"):
            continue
        for function in re.findall(r"^[a-z][^;=(){}]*?\b(icl_\w+)\([^;{}]*\) \{", code_of(text), re.M):
            if function in declared:
                rooms[function] = name.split("/")[0]
    return rooms


def room_of(name, files, functions, rooms):
    """A public header's is the lowest that defines one of its functions."""
    if not name.startswith("iclab/"):
        return name.split("/")[0]
    declared = [functions[word] for word in re.findall(r"\bicl_\w+(?=\()", code_of(files[name])) if word in functions]
    stem = name[len("iclab/") : -len(".h")]
    return min(declared, key=rooms.index) if declared else WITHOUT_FUNCTIONS.get(stem, rooms[-1])


def includes_of(name, text, files):
    for line in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.M):
        for candidate in (line, (pathlib.PurePosixPath(name).parent / line).as_posix()):
            if candidate in files:
                yield candidate


def upward(files, rooms):
    rank = {room: number for number, room in enumerate(rooms + ["tools"])}
    functions = read_functions(files)
    home = {name: room_of(name, files, functions, rooms) for name in files}
    found = []
    for name, text in files.items():
        own = rank[home[name]]
        for other in includes_of(name, text, files):
            if rank[home[other]] > own:
                found.append(f"{name} includes {other}")
        if name.startswith("iclab/"):
            continue
        for word in sorted(set(re.findall(r"\bicl_\w+", code_of(text)))):
            if rank[functions.get(word, rooms[0])] > own:
                found.append(f"{name} calls {word} of {functions[word]}")
    return found


def circles_of_includes(files):
    uses = {name: set(includes_of(name, text, files)) for name, text in files.items()}
    return [", ".join(members) for members in sources.circles(uses)]


def oversized(files, rooms, root):
    lines = {room: 0 for room in rooms}
    for name, text in files.items():
        room = name.split("/")[0]
        if room in lines:
            lines[room] += text.count("\n")
    total, found = sum(lines.values()), []
    for room, count in lines.items():
        share = count / total
        has_floors = any(path.is_dir() for path in (root / "src" / room).iterdir())
        if share > LARGEST or (share > WITH_FLOORS and not has_floors):
            found.append(f"{room} has {100 * share:.1f} % of {total} lines{'' if has_floors else ' and no floors'}")
    return found


def strangers(files, rooms):
    known = set(rooms) | {"tools", "iclab"}
    return sorted({name for name in files if name.split("/")[0] not in known})


def localised(files):
    """Calls of the C library that print a number with the decimal mark of the program's locale."""
    number = re.compile(r"%[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?l?[aefgAEFG]")
    call = re.compile(r'\b(?:sn?|f)printf\((?:[^;"]|"(?:[^"\\]|\\.)*")*;')
    return [
        f"{name}: {' '.join(found.group().split())[:80]}"
        for name, text in files.items()
        if not name.startswith(("tools/", "core/number.c"))
        for found in call.finditer(text)
        if number.search("|".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found.group())))
    ]


def bounded(lists, bounds):
    """A check for each bound; where it is kept, what it could be lowered to."""
    checks = []
    for name, bound in bounds.items():
        count = len(lists[name])
        note = lists[name] if count > bound else [f"lower its bound to {count}"] if count < bound else []
        checks.append((f"{name}: {count} of at most {bound}", count <= bound, note))
    return checks


def worked_example(page):
    """The op of CONTRIBUTING's worked example, and the files that its table lists."""
    op, rest = re.search(r"Worked example, `(\w+)`(.*)", page, re.S).groups()
    rows = rest.split("\n### ")[0].splitlines()
    return op, {row.split("`")[1] for row in rows if row.startswith("| `")}


def misplaced(op, listed, texts):
    """What differs between the files that are listed and those that name the op."""
    name = re.compile(rf"(?:\b|_){op}\b")
    names = {path for path, text in texts.items() if name.search(text)}
    found = [f"{path} does not name {op}" for path in sorted(listed - names)]
    found += [f"{path} names {op} and is not listed" for path in sorted(names - listed)]
    if len(names) > MOST_FILES_OF_AN_OP:
        found.append(f"{len(names)} files, expected at most {MOST_FILES_OF_AN_OP}")
    return found


def read_op_files(root):
    paths = [path for folder in ("src", "cl", "include") for path in (root / folder).rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def planted(files, rooms):
    """The rules notice what they are there for."""
    low, high = f"{rooms[0]}/planted.h", f"{rooms[-1]}/planted.h"
    with_upward = {**files, low: f'#include "{high}"\n', high: ""}
    with_public = {**files, low: '#include "iclab/train.h"\n'}
    with_call = {**files, low: "static void planted(void) { icl_recipe_create_complete(NULL, NULL); }\n"}
    first, second = f"{rooms[0]}/one.h", f"{rooms[0]}/two.h"
    with_circle = {**files, first: f'#include "{second}"\n', second: f'#include "{first}"\n'}
    return [
        ("an include that runs upwards is noticed", f"{low} includes {high}" in upward(with_upward, rooms)),
        ("through a public header, too", f"{low} includes iclab/train.h" in upward(with_public, rooms)),
        ("and a call", f"{low} calls icl_recipe_create_complete of run" in upward(with_call, rooms)),
        ("a circle is noticed", f"{first}, {second}" in circles_of_includes(with_circle)),
        ("a number in the locale's way is noticed", localised({"core/a.c": 'snprintf(a, 9, "%s %.3g", b, x);'}) != []),
        ("a folder that is no room is noticed", strangers({**files, "attic/file.c": ""}, rooms) == ["attic/file.c"]),
    ]


def function(name, value, kind="int"):
    return f"{kind} {name}(void) {{\n    return {value};\n}}\n"


def planted_calls():
    """In the room core a and b use each other; e uses d of another room, which uses e."""
    files = {
        "core/a.c": function("icl_a", "icl_b()"),
        "core/b.c": function("icl_b", "icl_a()"),
        "core/c.c": function("icl_c", "icl_b() + icl_f()") + function("one", "icl_a", "static int"),
        "core/e.c": function("HOST(e)", "icl_d()") + function("icl_f", "icl_g()"),
        "tape/d.c": function("icl_d", "HOST(e)()") + function("icl_g", "0"),
        "core/g.h": "int icl_a(void);\n" + function("two", "icl_g()", "static inline int"),
    }
    ops = {
        "core/ops.h": "#define OPS(OP) OP(add, 2) OP(copy, 1)\n",
        "core/host.c": "#define ROW(name, inputs) HOST(name),\n" + function("HOST(run)", "0"),
        "core/add.c": function("HOST(add)", "HOST(run)()"),
        "tape/open.c": "#define ROW(name, inputs) icl_device_##name,\n" + function("icl_run", "0"),
        "tape/copy.c": function("icl_device_copy", "icl_run()"),
    }
    tables = measures.circles_of_calls(ops)
    functions = measures.exports(files)
    public = measures.exports({**files, "iclab/f.h": "ICL_API int icl_f(void);\n"})
    calls = measures.circles_of_calls(files)
    in_one_room = measures.circles_of_calls({**files, "core/d.c": files["tape/d.c"]})
    one_user = ["icl_d of tape/d.c is used by core/e.c alone", "icl_f of core/e.c is used by core/c.c alone"]
    unused = measures.unused_exports(functions, {})
    return [
        ("a circle of calls is noticed", calls == ["core/a.c, core/b.c"]),
        ("also one through a macro's name", in_one_room == ["core/a.c, core/b.c", "core/d.c, core/e.c"]),
        ("and one through a table of ops", tables == ["core/add.c, core/host.c", "tape/copy.c, tape/open.c"]),
        ("an export with one user is noticed", measures.exports_with_one_user(functions) == one_user),
        ("a public function is no export", "icl_f" in functions and "icl_f" not in public),
        ("an unused export is noticed", unused == ["icl_c of core/c.c"]),
        ("a test uses it", not measures.unused_exports(functions, {"tests/c.c": "icl_c();"})),
    ]


def planted_counts():
    first = {"core/a.h": "struct one {\n    int a;\n};\nenum two { A };\nstruct three;\n" + 200 * "\n"}
    tags = {**first, "tape/a.c": "struct one *a;\nstruct two {\n", "tape/b.c": "enum three { B };\nstruct four {\n"}
    keys = ["task.d", "task.n", "model.heads", "model.layers", "train.seed", "train.batch"]
    recipes, shown = ["[task]\nd = 1\n", "[grid]\ntask.n = 1, 2\n"], ["train --set train.batch=1"]
    study = {
        "papers/a.c": '/* "model.heads=2" */ "model.layers=2 train.steps=1"; set("train", "seed");',
        "run/a.c": '"model.heads"',
    }
    lists = {"long headers": ["one", "two"]}
    return [
        ("a tag that is defined twice is noticed", measures.repeated_tags(tags) == ["two: core/a.h, tape/a.c"]),
        ("a long header is noticed", measures.long_headers(first) == ["core/a.h: 205 lines"]),
        ("one of 200 lines is not", not measures.long_headers({"core/a.h": 200 * "\n"})),
        ("an unused key is noticed", measures.unused_keys(keys, recipes, shown, study) == ["model.heads"]),
        ("more than the bound is noticed", bounded(lists, {"long headers": 1})[0][1:] == (False, ["one", "two"])),
        ("as many as the bound are not", bounded(lists, {"long headers": 2})[0][1:] == (True, [])),
        ("fewer may lower it", bounded(lists, {"long headers": 3})[0][1:] == (True, ["lower its bound to 2"])),
    ]


def planted_example():
    page = "Worked example, `add` (sums)\n\n| file |\n| --- |\n| `src/a.c` | `HOST(add)` |\n\n### b\n| `src/c.c` |\n"
    op, listed = worked_example(page)
    right, wrong = {"src/a.c": "HOST(add)"}, {"src/b.c": "ICL_OP_add", "src/d.c": "icl_add_row padding"}
    many = {f"src/{number}.c": "icl_add(a);" for number in range(MOST_FILES_OF_AN_OP + 1)}
    return [
        ("the worked example is read", (op, listed) == ("add", {"src/a.c"})),
        ("its files are right", not misplaced(op, listed, right)),
        (
            "others are noticed",
            misplaced(op, listed, wrong) == ["src/a.c does not name add", "src/b.c names add and is not listed"],
        ),
        ("and too many", misplaced(op, set(many), many) == ["11 files, expected at most 10"]),
    ]


def main():
    root = pathlib.Path(sys.argv[1])
    rooms, files = read_rooms(root), sources.read_files(root)
    example = worked_example((root / "CONTRIBUTING.md").read_text())
    rows = [
        ("every file stands in a room", strangers(files, rooms)),
        ("nothing is used from above", upward(files, rooms)),
        ("no files include each other in a circle", circles_of_includes(files)),
        ("numbers are printed by icl_print, whatever the locale", localised(files)),
        ("no room is too large", oversized(files, rooms, root)),
        ("files of an op are those that CONTRIBUTING.md lists", misplaced(*example, read_op_files(root))),
    ]
    checks = [(title, not found, found) for title, found in rows]
    checks += bounded(measures.read_lists(root, files), BOUNDS)
    faults = planted(files, rooms) + planted_calls() + planted_counts() + planted_example()
    checks += [(title, noticed, []) for title, noticed in faults]
    tap.report(checks)


if __name__ == "__main__":
    main()

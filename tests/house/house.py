"""The house: nothing is used from above, no room is too large, no files include each other in a circle, and numbers are
printed in the same way in every locale.

A room is a folder of src; it uses only rooms that stand before it in src/meson.build. The papers come after them, the
command's files in tools last. A public header belongs to the lowest room that defines one of its functions, and a room
calls only public functions that it or a lower one defines, whatever header declares them. A room with more than a fifth
of the lines of src must have floors, that is folders, and none may have more than a third.

Usage: house.py SOURCE_FOLDER; prints TAP.
"""

import pathlib
import re
import sys

LARGEST, WITH_FLOORS = 1 / 3, 1 / 5

# Public headers of types and macros alone, and whose they are.
WITHOUT_FUNCTIONS = {"export": "core", "kinds": "arithmetic", "reference_predictor": "task", "iclab": "papers"}


def read_rooms(root):
    rooms = re.findall(r"^subdir\('(\w+)'\)", (root / "src/meson.build").read_text(), re.M)
    return rooms + ["papers"]


def read_files(root):
    """Each file's name as an #include has it, with its text; a file of the command as tools/NAME."""
    files = {}
    for folder, prefix in (("src", ""), ("tools", "tools/"), ("include", "")):
        for path in sorted((root / folder).rglob("*.[ch]")):
            files[prefix + path.relative_to(root / folder).as_posix()] = path.read_text()
    return files


def code_of(text):
    """Without comments and texts."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def read_functions(files):
    """The room that defines each public function."""
    declared = {
        function
        for name, text in files.items()
        if name.startswith("iclab/")
        for function in re.findall(r"ICL_API[^;(]*?\b(icl_\w+)\(", code_of(text))
    }
    rooms = {}
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


def circles(files):
    """Files that include each other in a loop, each loop once."""
    uses = {name: sorted(set(includes_of(name, text, files))) for name, text in files.items()}
    state, path, found = {}, [], []

    def visit(name):
        state[name] = "open"
        path.append(name)
        for other in uses[name]:
            if state.get(other) == "open":
                found.append(" -> ".join(path[path.index(other) :] + [other]))
            elif other not in state:
                visit(other)
        path.pop()
        state[name] = "done"

    for name in sorted(uses):
        if name not in state:
            visit(name)
    return found


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
        ("a circle is noticed", f"{first} -> {second} -> {first}" in circles(with_circle)),
        ("a number in the locale's way is noticed", localised({"core/a.c": 'snprintf(a, 9, "%s %.3g", b, x);'}) != []),
        ("a folder that is no room is noticed", strangers({**files, "attic/file.c": ""}, rooms) == ["attic/file.c"]),
    ]


def main():
    root = pathlib.Path(sys.argv[1])
    rooms, files = read_rooms(root), read_files(root)
    rows = [
        ("every file stands in a room", strangers(files, rooms)),
        ("nothing is used from above", upward(files, rooms)),
        ("no files include each other in a circle", circles(files)),
        ("numbers are printed by icl_print, whatever the locale", localised(files)),
        ("no room is too large", oversized(files, rooms, root)),
    ]
    checks = [(title, not found, found) for title, found in rows]
    checks += [(title, noticed, []) for title, noticed in planted(files, rooms)]
    for number, (title, good, found) in enumerate(checks, 1):
        for line in found:
            print("#", line)
        print("ok" if good else "not ok", number, "-", title)
    print(f"1..{len(checks)}")
    return 0 if all(good for _, good, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())

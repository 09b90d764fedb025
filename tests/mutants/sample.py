"""Which changes are tried: drawn by a seed, spread over rooms, and there over functions and kinds of faults."""

import pathlib
import random

import changes

FOLDERS = ("src", "tools")
# The cases of conformance are tests themselves: another shape there is another case, not a fault. Examples are for
# readers.
LEFT_OUT = ("src/conformance/cases", "tools/examples/", "tools/quickstart/", "tools/peers/")
SMALLEST = 3  # changes in a room
# What a processor says that it has, by how the name of a file ends that is for such processors alone.
INSTRUCTIONS = {"_avx512.h": "avx512f"}


def lacks(file, flags):
    return any(file.endswith(end) and flag not in flags for end, flag in INSTRUCTIONS.items())


def read_flags():
    path = pathlib.Path("/proc/cpuinfo")
    return set(path.read_text(encoding="utf-8").split()) if path.is_file() else set()


def files_of(root, flags=None):
    flags = read_flags() if flags is None else flags
    found = [path.relative_to(root).as_posix() for folder in FOLDERS
             for path in sorted(pathlib.Path(root, folder).rglob("*.[ch]"))]
    return [file for file in found if not file.startswith(LEFT_OUT) and not lacks(file, flags)]


def read_changes(root, files):
    """{room: {(file, unit): [Change]}}"""
    sources, declarations = changes.read_sources(pathlib.Path(root), files)
    rooms = {}
    for file, (source, syntax) in sources.items():
        for change in changes.changes_of(file, source, syntax, declarations):
            rooms.setdefault(changes.room_of(file), {}).setdefault((file, change.unit), []).append(change)
    return rooms


def share(sizes, sample):
    """{room: its part of the sample}: by the square root of its functions, so that small rooms say something too."""
    total = sum(size ** 0.5 for size in sizes.values())
    exact = {room: sample * size ** 0.5 / total for room, size in sizes.items()}
    shares = {room: max(min(SMALLEST, sample // len(sizes)), int(part)) for room, part in exact.items()}
    while sum(shares.values()) != sample:
        step = 1 if sum(shares.values()) < sample else -1
        shares[max(sorted(sizes), key=lambda room: step * (exact[room] - shares[room]))] += step
    return shares


def order(units, seed):
    """A room's changes in the order in which they are drawn: a function, a kind of fault, one of these. Functions come
    again when all had their turn."""
    drawn = random.Random(seed)
    left = {unit: sorted(found, key=lambda change: (change.start, change.end, change.replacement))
            for unit, found in sorted(units.items())}
    while left:
        names = sorted(left)
        drawn.shuffle(names)
        for name in names:
            kinds = sorted({change.kind for change in left[name]})
            kind = drawn.choice(kinds)
            change = drawn.choice([change for change in left[name] if change.kind == kind])
            left[name].remove(change)
            if not left[name]:
                del left[name]
            yield change

#!/usr/bin/env python3
"""What tools/peers/compress says of a small file, by programs that stand in for the compressors, and by Python's own.

Arguments: tools/peers/compress.
"""

import bz2
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tap import done, ok

work = tempfile.TemporaryDirectory()
folder = pathlib.Path(work.name)
command = os.path.abspath(sys.argv[1])
text = b"".join(b"line %d: the \xe2\x82\xac of %d\n" % (i, i * i % 97) for i in range(500))
LAST = (len(text) + 10) // 20  # a twentieth, rounded
(folder / "text.txt").write_bytes(text)

# A stand-in makes SIZE bytes of a file, in the archive that it is told or in its output.
STAND_IN = """#!/bin/sh
for word in "$@"; do
    case $word in
    *.7z | *.zpaq) archive=$word ;;
    text) file=$word ;;
    esac
done
all=$(wc -c <"$file")
head -c "$(({}))" /dev/zero >"${{archive:-/dev/stdout}}"
"""
SIZES = {"xz": "50 + all / 2", "bzip2": "all", "7z": "90 + all / 4", "zpaq": "1000 + all / 8"}


def plant(name, body):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(body)
    path.chmod(0o755)


def measure(*words, programs="bin"):
    path = f"{folder / programs}:/usr/bin:/bin" if programs == "bin" else str(folder / programs)
    return subprocess.run(
        [sys.executable, command, *map(str, words)], capture_output=True, text=True, check=False, cwd=folder,
        env=dict(os.environ, PATH=path)
    )


def rows_of(*words, **how):
    told = measure(*words, "--json", **how)
    ok(told.returncode == 0, f"{words}: exit code 0", told.stderr)
    return {row["compressor"]: row for row in map(json.loads, told.stdout.splitlines())}


for name, size in SIZES.items():
    plant(f"bin/{name}", STAND_IN.format(size))

# ---- Sizes ----

first = len(text) - LAST
made = {
    "xz": (50 + len(text) // 2, 50 + first // 2), "bzip2": (len(text), first),
    "ppmd": (90 + len(text) // 4, 90 + first // 4), "zpaq": (1000 + len(text) // 8, 1000 + first // 8),
}
rows = rows_of("text.txt")
for name, (whole, less) in made.items():
    row = rows.get(name, {})
    sizes = [row.get(key) for key in ("bytes_of_all", "bytes_of_first", "last_bytes", "bits_per_byte")]
    ok(sizes == [whole, less, LAST, 8 * (whole - less) / LAST], f"{name}: both sizes, and bits per byte", row)
ok(list(rows) == ["zpaq", "ppmd", "xz", "bzip2"], "the best stands first", list(rows))
told = measure("text.txt").stdout
ok(f"the last {LAST} of {len(text)} bytes" in told, "the table says what was compressed", told)
ok("| bzip2 | 8.000 |" in told, "and has a row of each", told)

half = rows_of("text.txt", "--test", "0.5")["bzip2"]
ok(half["last_bytes"] == (len(text) + 1) // 2, "--test: another share", half)

# ---- Files as task.file takes them ----

parts = folder / "parts"
parts.mkdir()
for name, part in (("b", text[4000:]), ("A", text[:1000]), ("a", text[1000:4000]), (".hidden", b"nothing")):
    (parts / name).write_bytes(part)
plant("bin/bzip2", '#!/bin/sh\nfor file; do :; done\nmkdir -p "$KEPT"\ncat "$file" >"$KEPT/$(wc -c <"$file")"\n')
os.environ["KEPT"] = str(folder / "kept")
for words in ("text.txt", "parts", "parts/A,parts/a,parts/b"):
    rows_of(words)
    kept = [(folder / "kept" / str(count)).read_bytes() for count in (len(text), first)]
    ok(kept == [text, text[:first]], f"{words}: the compressor reads all bytes, and those before the last part")
    shutil.rmtree(folder / "kept")

# ---- Compressors themselves: the libraries behind Python's modules say what the programs make ----

truths = {"xz": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME), "bzip2": bz2.compress}
(folder / "real").mkdir()
for name in truths:
    (folder / "real" / name).symlink_to(shutil.which(name))
rows = rows_of("text.txt", programs="real")
for name, truth in truths.items():
    sizes = [rows[name].get(key) for key in ("bytes_of_all", "bytes_of_first")]
    ok(sizes == [len(truth(text)), len(truth(text[:first]))], f"{name}: as long as Python's", rows[name])
ok("expected Debian's package zpaq" in rows["zpaq"].get("unavailable", ""), "a program that is absent", rows["zpaq"])

# ---- What goes wrong ----

plant("bin/xz", "#!/bin/sh\necho 'no memory left' >&2\nexit 1\n")
rows = rows_of("text.txt")
ok(rows["xz"].get("unavailable") == "xz failed: no memory left", "a program that fails", rows["xz"])
os.mkfifo(folder / "parts" / "fifo")
(folder / "empty").touch()
(folder / "byte").write_bytes(b"a")
for words, part in (
    (["nowhere"], "nowhere: no regular file"), (["parts"], "fifo: no regular file"),
    (["text.txt,"], ": no regular file"), (["empty"], "expected at least one byte in both parts"),
    (["byte"], "--test 0.05 of 1 bytes: expected"), (["text.txt", "--test", "1"], "--test 1 of"),
):
    told = measure(*words)
    ok(told.returncode == 2 and part in told.stderr and told.stderr.count("\n") == 1, f"{words}: one line", told.stderr)
done()

#!/usr/bin/env python3
"""Run folders and sweeps that somebody made to do harm: each command ends in time with an exit code from 0 to 3, says
in one line why it failed, trips no sanitizer, and touches nothing outside its folder.

    hostile.py COMMAND RECIPES [FOLDERS [SEED]]

A folder is a small run, or a sweep, with a few of its files damaged as the seed draws, or overlaid with one of the
folders in hostile/ beside this script. Prints TAP; what fails is kept below the folder that it names."""
import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

LIMIT = 60
READ = {".ini", ".json", ".csv", ".safetensors"}
SMALL = ("train.batch=8 train.warmup=0 eval.sequences=16 eval.fit_sequences=16 eval.every=2 eval.every_sequences=16 "
         "model.layers=1 train.growth=0 task.d=3 task.n=4 train.steps=4 train.snapshot_every=2").split()
WORDS = [b"", b"{}", b"[]", b"null", b"1e999", b'{"status":"finished"}', b'{"steps":1e300,"status":1}', b"[" * 5000,
         b"\0" * 64, b"\xff\xfe" * 40, b"a" * 70000, b"step,loss\n1,nan\n", b"step,loss\n99999999999999999999,1\n",
         b"[task]\nd = 99999999999999999999\n", b"[model]\nlayers = 0\n", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
         b'{"rows":[{}],"summary":{"steps":-1e300}}', b"%n%s" * 50, b"\x1b]0;title\x07\xc2\x9b31m"]


def overrides():
    return [word for assignment in SMALL for word in ("--set", assignment)]


def damage(path, draw, victim):
    """One file, by one of the ways below."""
    data = path.read_bytes() if path.is_file() else b""
    way = draw.randrange(8)
    if way == 0:
        path.write_bytes(data[:draw.randrange(len(data) + 1)])
    elif way == 1 and data:
        changed = bytearray(data)
        for _ in range(draw.choice([1, 1, 4, 32])):
            changed[draw.randrange(len(changed))] = draw.choice([0, 255, draw.randrange(256), ord('"'), ord("9")])
        path.write_bytes(changed)
    elif way == 2:
        path.write_bytes(draw.choice(WORDS))
    elif way == 3:
        at = draw.randrange(len(data) + 1)
        path.write_bytes(data[:at] + draw.choice(WORDS) + data[at:])
    elif way == 4:
        digits = [i for i in range(len(data)) if chr(data[i]).isdigit()] or [0]
        at = draw.choice(digits)
        path.write_bytes(data[:at] + draw.choice([b"9" * 30, b"-1", b"1e308", b"nan", b"0"]) + data[at + 1:])
    elif way == 5:
        path.unlink(missing_ok=True)
        path.symlink_to(victim / draw.choice(["file", "missing", "folder"]))
    elif way == 6:
        path.unlink(missing_ok=True)
        draw.choice([path.mkdir, lambda: os.mkfifo(path)])()
    else:
        path.unlink(missing_ok=True)


def state_of(folder):
    """Names, links and contents below a folder."""
    return {str(path): os.readlink(path) if path.is_symlink() else
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            for path in sorted(folder.rglob("*"))}


def fault_of(words, work):
    """Why the command's end is no good end; None."""
    environment = dict(os.environ, HOME=str(work / "home"), ICLAB_CACHE_DIR="")
    try:
        ended = subprocess.run(words, cwd=work / "cwd", env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    said = ended.stderr.decode(errors="backslashreplace")
    if "Sanitizer" in said or "runtime error" in said:
        return said[:2000]
    if not 0 <= ended.returncode <= 3:
        return f"exit code {ended.returncode}"
    lines = said.splitlines()
    if ended.returncode >= 2 and (not lines or not lines[-1].startswith("iclab: ")):
        return f"no line that says why: {lines[-1:]}"
    if any(ord(c) < 32 or 0x7f <= ord(c) < 0xa0 for line in lines for c in line if c != "\t"):
        return "a control character on stderr"
    return None


def commands(iclab, kind, folder, work):
    if kind == "sweep":
        return [[iclab, "sweep", str(folder / "sweep.ini"), "--out", str(folder), "--workers", "1", "--quiet"]]
    return [[iclab, "eval", str(folder)],
            [iclab, "train", "--resume", str(folder), "--steps", "6"],
            [iclab, "inspect", str(folder), "--sequences", "100", "--out", str(work / "inspected")],
            [iclab, "predict", str(folder), "--data", str(work / "table.csv"), "--target", "y"]]


def make_sweep(iclab, work):
    """A finished sweep of two cells, by the recipe of the run."""
    file = work / "sweep.ini"
    file.write_text(f"[sweep]\nrecipe = {work / 'run' / 'recipe.ini'}\n[grid]\ntrain.learning_rate = 0.001, 0.002\n")
    ended = subprocess.run([iclab, "sweep", str(file), "--out", str(work / "sweep"), "--workers", "1", "--quiet"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if ended.returncode != 0:
        raise SystemExit("Bail out! no sweep: " + ended.stderr.decode())


def main():
    iclab, recipes = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
    folders = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    os.environ.update(ICLAB_RECIPES=recipes, ICLAB_DEVICE="cpu:threads=1", PATH="/nonexistent:" + os.environ["PATH"])
    work = pathlib.Path(tempfile.mkdtemp(prefix="iclab-hostile-"))
    for name in ("home", "cwd", "victim", "victim/folder"):
        (work / name).mkdir()
    victim = work / "victim"
    (victim / "file").write_text("{}")
    (work / "table.csv").write_text("a,b,y\n" + "".join(f"{i},{i * i % 7},{3 * i + i % 4}\n" for i in range(14)))
    subprocess.run([iclab, "train", "versatile", "--out", str(work / "run"), "--quiet"] + overrides(), check=True,
                   stdout=subprocess.DEVNULL)
    make_sweep(iclab, work)
    before = state_of(victim)
    overlays = sorted(path for path in (pathlib.Path(__file__).parent / "hostile").iterdir() if path.is_dir())
    draw = random.Random(seed)
    failed = 0
    cases = len(overlays) + folders
    for number in range(cases):
        overlay = overlays[number] if number < len(overlays) else None
        is_sweep = overlay.name.startswith("sweep") if overlay else draw.random() < 0.25
        kind = "sweep" if is_sweep else "run"
        folder = work / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / kind, folder)
        if overlay:
            shutil.copytree(overlay, folder, dirs_exist_ok=True)
            what = overlay.name
        else:
            files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in READ)
            chosen = draw.sample(files, min(len(files), draw.choice([1, 1, 2, 3])))
            for path in chosen:
                damage(path, draw, victim)
            what = ", ".join(str(path.relative_to(folder)) for path in chosen)
        fault = None
        for words in commands(iclab, kind, folder, work):
            fault = fault or ((why := fault_of(words, work)) and f"{words[1]}: {why}")
        if not fault and state_of(victim) != before:
            fault = "a file outside the folder was touched"
        if not fault and any((work / "cwd").iterdir()):
            fault = "a file was made in the working directory"
        print(f"{'not ok' if fault else 'ok'} {number + 1} - a {kind} with damaged {what}", flush=True)
        if fault:
            failed += 1
            kept = work / f"failed-{number + 1}"
            shutil.copytree(folder, kept, symlinks=True, ignore=lambda d, names: [
                n for n in names if not os.path.islink(os.path.join(d, n)) and not os.path.isfile(os.path.join(d, n))
                and not os.path.isdir(os.path.join(d, n))])
            print("# " + fault.replace("\n", "\n# ") + f"\n# kept: {kept}")
    print(f"1..{cases}")
    if failed == 0:
        shutil.rmtree(work)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

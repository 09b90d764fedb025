"""`iclab train` is killed (SIGKILL) at random moments, 50 times, and resumed each time, sometimes to be killed again.
Every run ends with the model, checkpoint and metrics of one that nobody touched, byte for byte.

Arguments: the command, a recipe.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

KILLS, MOST_RUNS = 50, 400  # some die a natural death first
CHECKPOINT = "checkpoint/state.safetensors"
FILES = ("recipe.ini", "metrics.csv", "model.safetensors", CHECKPOINT)
PLACES = ("before there was a recipe", "before the first checkpoint", "in training")
program, recipe = sys.argv[1:]
chance = random.Random(2024)


def start(folder):
    """Begins the run, or resumes one that is there."""
    run = ["--resume", folder] if (folder / "recipe.ini").exists() else [recipe, "--out", folder]
    line = [program, "train", *run, "--device", "cpu:threads=1", "--quiet"]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL)


def read(folder):
    return [(folder / name).read_bytes() if (folder / name).exists() else None for name in FILES]


def start_and_kill(folder, seconds):
    """Where the run was when it was killed, a number of PLACES; None where it came to its end before."""
    process = start(folder)
    try:
        process.wait(timeout=chance.random() * seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    if process.wait() >= 0:
        return None
    return (folder / "recipe.ini").exists() + (folder / CHECKPOINT).exists()


def torment(folder, seconds, kills):
    """One run, killed again and again with falling odds, then left to end. Counts kills by their place."""
    while True:
        place = start_and_kill(folder, seconds)
        if place is not None:
            kills[place] += 1
        if chance.random() >= 0.4 or sum(kills) >= KILLS:
            return start(folder).wait() == 0


# The runs stay in memory where there is such a place: flushing files to a disk takes twice as long as training.
memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
with tempfile.TemporaryDirectory(dir=memory) as scratch:
    root = pathlib.Path(scratch)
    begin = time.monotonic()
    ended = start(root / "undisturbed").wait() == 0
    seconds = time.monotonic() - begin
    expected = read(root / "undisturbed")
    kills, bad, runs = [0, 0, 0], [], 0
    if tap.ok(ended and None not in expected, "an undisturbed run"):
        while sum(kills) < KILLS and runs < MOST_RUNS:
            folder = root / f"run{runs}"
            resumed = torment(folder, seconds, kills)
            bad += [f"{folder.name} cannot be resumed"] * (not resumed)
            bad += [f"{folder.name}: {name} differs" for name, *pair in zip(FILES, expected, read(folder))
                    if pair[0] != pair[1]]
            runs += 1
        counted = ", ".join(f"{count} {place}" for count, place in zip(kills, PLACES))
        tap.ok(not bad and sum(kills) >= KILLS, f"{runs} runs, killed {sum(kills)} times ({counted}): the same bits",
               f"an undisturbed run takes {seconds:.2f} s", *bad)
        tap.ok(kills[2] > KILLS / 2, "most kills hit training")
tap.done()

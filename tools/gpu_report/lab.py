"""What all parts share: the command under test, the device, the clock, and commands that are run with limits."""

import json
import os
import re
import select
import shlex
import signal
import statistics
import subprocess
import time

from gpu_report.document import FAILED, TIMED_OUT, block, fold, without_names

GRACE = 5  # seconds between the request to end and the kill
TURN, ROUNDS, MOST_CALLS = 0.03, 7, 4096  # seconds of a contender's turn, turns of each, calls of a turn
WARM_CALLS, WARM_SECONDS = 12, 5  # calls before the first turn: some choices are made after eight launches


class NotRun(Exception):
    """A part that cannot be run here; the text says why."""


class NoDevice(Exception):
    """No part can be run here; the text says why."""


def stop(process):
    """Ends the process and all that it started. One that hangs inside a driver may outlive even the kill: nobody waits
    for it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


class Answer:
    """What became of a command: `code` is None when it had to be killed, and negative when a signal ended it."""

    def __init__(self, code, seconds, output, complaints):
        self.code, self.seconds, self.output, self.complaints = code, seconds, output, without_names(complaints)

    def rows(self, key):
        """The JSON objects on stdout that have KEY, one a line. A line that the kill cut off is left out."""
        rows = []
        for line in self.output.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and key in row:
                rows.append(row)
        return rows

    def problem(self, allowed=(0,)):
        """None, or in a few words how the command failed."""
        lines = [line for line in self.complaints.splitlines() if line.strip()]
        if self.code is None:
            return f"no end after {self.seconds:.0f} s"
        if self.code < 0:
            return f"crashed: {signal.strsignal(-self.code) or 'signal'} ({-self.code})"
        if self.code not in allowed:
            said = re.sub("^iclab: ", "", lines[-1]) if lines else "it said nothing"
            return f"exit code {self.code}: {said}"
        return None


class Contender:
    """A program that makes so many calls as it is told to, and says how long they took: `iclab bench --on-request`."""

    def __init__(self, name, command, environment, folder):
        self.name, self.calls, self.times = name, 1, []
        with open(folder / "contender", "ab") as complaints:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=environment,
                start_new_session=True,
                text=True,
            )

    def read(self, key, limit):
        """The value of the next line's KEY, or None where there is none in time."""
        if not select.select([self.process.stdout], [], [], max(0, limit))[0]:
            return None
        try:
            return json.loads(self.process.stdout.readline())[key]
        except (ValueError, KeyError):
            return None

    def turn(self, limit):
        """Seconds of one call, from one turn; None where the program is gone or late."""
        try:
            self.process.stdin.write(f"{self.calls}\n")
            self.process.stdin.flush()
        except OSError:
            return None
        seconds = self.read("seconds", limit)
        return None if seconds is None else seconds / self.calls


class Lab:
    def __init__(self, iclab, device, folder, seconds):
        self.iclab, self.device, self.folder, self.seconds = iclab, device, folder, seconds
        self.devices, self.version, self.peaks, self.verdicts = [], "", {}, []
        self.end = self.part_end = time.monotonic() + seconds
        self.part, self.changed = None, lambda: None  # the part that runs, and who writes the report anew
        # Nothing that an earlier run left is taken, nothing is left behind.
        self.environment = dict(os.environ, ICLAB_CACHE_DIR=str(folder / "cache"), NO_COLOR="1")
        self.environment.setdefault("POCL_CACHE_DIR", str(folder / "pocl-cache"))
        self.environment.pop("ICLAB_DEVICE", None)

    def begin(self, part):
        """The part's limit is its share of the whole. Shares add up to more than all, for most parts need less."""
        self.part = part
        self.part_end = min(time.monotonic() + part.share * self.seconds, self.end)
        if self.left() < 1:
            raise NotRun("the time for all parts was over")

    def left(self):
        """Seconds that this part still has."""
        return self.part_end - time.monotonic()

    def say(self, *blocks):
        self.part.blocks += blocks
        self.changed()

    def grow(self, shown, row):
        """Another row of a table that is in the report."""
        shown.rows.append(row)
        self.changed()

    def run(self, command, limit):
        """Runs COMMAND for at most LIMIT seconds. Its output goes to files: what a killed command wrote is kept."""
        paths = self.folder / "stdout", self.folder / "stderr"
        start = time.monotonic()
        with open(paths[0], "wb") as out, open(paths[1], "wb") as complaints:
            try:
                process = subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=complaints,
                    env=self.environment,
                    start_new_session=True,
                )
            except OSError as error:
                return Answer(127, 0, "", str(error))
            try:
                code = process.wait(max(1, limit))
            except subprocess.TimeoutExpired:
                stop(process)
                code = None
            except BaseException:
                stop(process)
                raise
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
        return Answer(code, time.monotonic() - start, *texts)

    def ask(self, *arguments, program=None, allowed=(0,)):
        """Runs `iclab ARGUMENTS`, or another PROGRAM, for the part, and holds against the part what goes wrong."""
        words = [program.name if program else "iclab", *arguments]
        text = without_names(shlex.join(str(word) for word in words))
        if self.left() < 1:
            self.part.worsen(TIMED_OUT, f"no time was left for: {text}")
            return Answer(None, 0, "", "")
        answer = self.run([program or self.iclab, *arguments], self.left())
        self.part.commands.append(text)
        problem = answer.problem(allowed)
        if problem:
            self.part.worsen(TIMED_OUT if answer.code is None else FAILED, problem)
            self.say(fold(f"{text}: {problem}", block(answer.complaints or "It wrote nothing to stderr.")))
        return answer

    def contest(self, contenders):
        """Lets contenders take turns. CONTENDERS: name -> (bench's arguments, choices of the back end); the answer:
        name -> the times of a call, round by round, without those that did not run or end in time."""
        started = []
        try:
            for name, (arguments, choices) in contenders.items():
                environment = dict(self.environment, ICLAB_OPENCL_CHOICES=choices)
                if not choices:
                    del environment["ICLAB_OPENCL_CHOICES"]
                command = [str(word) for word in (self.iclab, "bench", "--on-request", "--quiet", *arguments)]
                started.append(Contender(name, command, environment, self.folder))
            running = [one for one in started if one.read("ready", self.left())]
            for one in running:  # how many calls make a turn
                seconds = one.turn(self.left())
                if seconds is not None and seconds * WARM_CALLS < WARM_SECONDS:
                    one.calls = WARM_CALLS
                    one.turn(self.left())
                    one.calls = 1
                    seconds = one.turn(self.left())
                while seconds is not None and seconds * one.calls < TURN and one.calls < MOST_CALLS:
                    one.calls = min(8 * one.calls, MOST_CALLS, 1 + int(TURN / max(seconds, 1e-9)))
                    seconds = one.turn(self.left())
            for number in range(ROUNDS):  # whoever follows a busy contender is slowed down: each begins in turn
                first = number % max(1, len(running))
                for one in running[first:] + running[:first]:
                    one.times.append(one.turn(self.left()))
        finally:
            for one in started:
                stop(one.process)
        return {one.name: one.times for one in running if one.times and None not in one.times}


def ratio(times, base):
    """How many times as fast as BASE: the median of the rounds' ratios, which a machine's load leaves alone."""
    return statistics.median(other / own for own, other in zip(times, base))

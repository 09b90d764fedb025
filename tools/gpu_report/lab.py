"""What all parts share: the command under test, the device, a folder for what they make, and the clock."""

import os
import time

from gpu_report import commands, machine
from gpu_report.document import FAILED, TIMED_OUT, block


class NotRun(Exception):
    """A part that cannot be run here; the text says why."""


class Lab:
    def __init__(self, iclab, device, quick, folder, seconds):
        self.iclab, self.device, self.quick, self.folder = iclab, device, quick, folder
        self.devices, self.version = [], ""
        self.rate = None  # sequences a second in steps of `versatile`, when it is known
        self.seconds = seconds
        self.end = self.part_end = time.monotonic() + seconds
        # Nothing that an earlier run left is taken, nothing is left behind.
        self.environment = dict(
            os.environ,
            ICLAB_RECIPES=str(machine.ROOT / "tools" / "recipes"),
            ICLAB_CACHE_DIR=str(folder / "cache"),
            NO_COLOR="1",
        )
        self.environment.setdefault("POCL_CACHE_DIR", str(folder / "pocl-cache"))
        self.environment.pop("ICLAB_DEVICE", None)

    def listed(self, spec):
        """The row of `iclab devices --json`, or None where that failed."""
        return next((row for row in self.devices if row.get("spec") == spec), None)

    def begin(self, part):
        """The part's limit is its share of the whole. Shares add up to more than all, for most parts need less."""
        self.part_end = min(time.monotonic() + part.share * self.seconds, self.end)

    def left(self):
        """Seconds that this part still has."""
        return self.part_end - time.monotonic()

    def run(self, command, limit=float("inf")):
        return commands.run(
            [str(word) for word in command], max(1, min(limit, self.left())), self.environment, self.folder
        )

    def ask(self, part, *arguments, program=None, allowed=(0,)):
        """Runs `iclab ARGUMENTS`, or another PROGRAM, for a part, and holds against the part what goes wrong."""
        command = [program or self.iclab, *arguments]
        text = machine.without_names(commands.as_text(command, self.iclab))
        if self.left() < 1:
            part.worsen(TIMED_OUT, f"no time was left for: {text}")
            return commands.Answer(command, None, 0, "", "")
        answer = self.run(command)
        answer.complaints = machine.without_names(answer.complaints)
        part.commands.append(text)
        problem = answer.problem(allowed)
        if problem:
            part.worsen(TIMED_OUT if answer.code is None else FAILED, problem)
            part.fold(f"{text}: {problem}", block(answer.complaints or "It wrote nothing to stderr."))
        return answer

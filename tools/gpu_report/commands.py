"""Runs one command with a time limit, and keeps what it said."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import time

GRACE = 5  # seconds between the request to end and the kill


class Answer:
    """What became of a command: `code` is None when it had to be killed, and negative when a signal ended it."""

    def __init__(self, command, code, seconds, output, complaints):
        self.command, self.code, self.seconds, self.output, self.complaints = command, code, seconds, output, complaints

    def rows(self):
        """The JSON objects on stdout, one a line. A line that was cut off when the command was killed is left out."""
        rows = []
        for line in self.output.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                rows.append(row)
        return rows

    def last_complaint(self):
        lines = [line for line in self.complaints.splitlines() if line.strip()]
        return lines[-1].removeprefix("iclab: ") if lines else "it said nothing"

    def problem(self, allowed=(0,)):
        """None, or in a few words how the command failed."""
        if self.code is None:
            return f"no end after {self.seconds:.0f} s" if self.seconds else "no time was left"
        if self.code < 0:
            return f"crashed: {signal.strsignal(-self.code) or 'signal'} ({-self.code})"
        if self.code not in allowed:
            return f"exit code {self.code}: {self.last_complaint()}"
        return None


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


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def run(command, limit, environment, folder):
    """Runs COMMAND for at most LIMIT seconds. Its output goes to files in FOLDER: what a killed command wrote is
    kept."""
    output, complaints = pathlib.Path(folder, "stdout"), pathlib.Path(folder, "stderr")
    start = time.monotonic()
    with open(output, "wb") as out, open(complaints, "wb") as err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True
            )
        except OSError as error:
            return Answer(command, 127, 0, "", str(error))
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            stop(process)
            code = None
        except BaseException:
            stop(process)
            raise
    return Answer(command, code, time.monotonic() - start, read(output), read(complaints))


def as_text(command, iclab):
    """The command as one would type it."""
    return " ".join("iclab" if str(word) == str(iclab) else shlex.quote(str(word)) for word in command)

"""Contenders that take turns, and the table of what they took."""
import contextlib
import json
import os
import pathlib
import platform
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MAX_CALLS = 100000
STUCK = 300  # seconds without an answer
PAUSE = 0.05  # seconds before each turn: threads of the one before, which spin for a while, go to sleep


class Contender:
    """A worker process; `name` heads its row. It must be ready within `limit` seconds, where there is one."""

    def __init__(self, name, command, is_ours, limit=None):
        self.name, self.command, self.is_ours = name, [str(word) for word in command], is_ours
        self.process, self.reason, self.calls, self.times, self.limit = None, None, 1, [], limit
        self.started = None

    def start(self):
        """Starts the process, once, and does not wait."""
        if self.started:
            return
        print(f"starting {self.name}", file=sys.stderr)
        self.started = time.monotonic()
        environment = dict(os.environ, ICLAB_RECIPES=str(ROOT / "tools" / "recipes"))
        self.complaints = tempfile.TemporaryFile("w+")
        try:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints, text=True,
                env=environment, start_new_session=True
            )
        except OSError as error:
            self.reason = str(error)

    def wait(self, limit):
        """Waits for a process that has started to be ready, `limit` seconds after its start at most."""
        if not self.process:
            return
        limit = min(limit, self.limit or limit)
        answer = self.read(max(0, self.started + limit - time.monotonic()), f"not ready within {limit} s")
        if answer and "ready" not in answer:
            self.give_up(answer.get("unavailable", "no answer"))

    def read(self, limit, reason):
        """The answer within `limit` seconds, or None, and the contender takes part no more."""
        if not select.select([self.process.stdout], [], [], limit)[0]:
            os.killpg(self.process.pid, signal.SIGKILL)  # with its own processes: compilers
            self.give_up(reason)
            return None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.complaints.seek(0)
        complaints = self.complaints.read().strip().splitlines()
        self.give_up(complaints[-1] if complaints else "it ended without a word")
        return None

    def give_up(self, reason):
        self.reason = reason
        self.stop()

    def stop(self):
        if self.process:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait()
        self.process = None

    def ask(self, request):
        with contextlib.suppress(BrokenPipeError):  # the answer says why
            self.process.stdin.write(f"{request}\n")
            self.process.stdin.flush()
        return self.read(STUCK, f"no answer within {STUCK} s")

    def take_turn(self, calls):
        """Seconds of one call, or None."""
        answer = self.ask(calls)
        return answer["seconds"] / calls if answer else None

    def calibrate(self, seconds):
        """As many calls as fill a turn."""
        taken = self.take_turn(1)
        if taken is not None:
            self.calls = max(1, min(MAX_CALLS, round(seconds / max(taken, 1e-9))))


def agree(contenders, tolerance):
    """Stops contenders whose arrays differ from those of the first peer."""
    running = [c for c in contenders if c.process]
    reference = next((c for c in running if not c.is_ours), None)
    if not reference:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arrays.npz")
        reference.ask(f"write {path}")
        for contender in running:
            answer = contender.ask(f"compare {path}") if contender.process else None
            if answer and not answer["difference"] <= tolerance:
                contender.give_up(f"differs by {answer['difference']:.1e} from {reference.name}")
            elif answer:
                print(f"{contender.name}: {answer['difference']:.1e} from {reference.name}", file=sys.stderr)


def session(contenders, options, tolerance=None):
    """tolerance: relative; contenders that differ by more do not take part."""
    for contender in contenders:
        contender.start()
        if not options.together:
            contender.wait(options.ready)
    for contender in contenders:
        if options.together:
            contender.wait(options.ready)
    for contender in contenders:
        if contender.process:
            contender.calibrate(options.seconds)
    if tolerance is not None:
        agree(contenders, tolerance)
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for contender in contenders:
            time.sleep(PAUSE)
            taken = contender.take_turn(contender.calls) if contender.process else None
            if taken is not None:
                contender.times.append(taken)
    for contender in contenders:
        contender.stop()


def best(contenders):
    return min(contenders, key=lambda c: statistics.median(c.times), default=None)


def summarize(contenders, rounds):
    """One row each; the ratio is to the best of ours, round by round."""
    complete = [c for c in contenders if len(c.times) == rounds]
    ours = best([c for c in complete if c.is_ours])
    rows = []
    for contender in contenders:
        row = {"contender": contender.name}
        if contender in complete:
            row.update(
                median_s=statistics.median(contender.times), min_s=min(contender.times), max_s=max(contender.times),
                calls_a_turn=contender.calls,
            )
            if ours:
                row["times_best_iclab"] = statistics.median(a / b for a, b in zip(contender.times, ours.times))
                row["min_times_best_iclab"] = min(contender.times) / min(ours.times)
        else:
            row["unavailable"] = contender.reason
        rows.append(row)
    return sorted(rows, key=lambda row: row.get("median_s", float("inf")))


def milliseconds(value):
    return f"{1e3 * value:.3g}" if value < 1 else f"{1e3 * value:.0f}"


def print_table(title, rows):
    print(f"{title}\n\n| contender | median, ms | min | max | times the best iclab | minima |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        if "median_s" in row:
            cells = [milliseconds(row[key]) for key in ("median_s", "min_s", "max_s")]
            ratios = [row.get(key) for key in ("times_best_iclab", "min_times_best_iclab")]
            cells += [f"{ratio:.2f}" if ratio else "–" for ratio in ratios]
        else:
            cells = ["–"] * 4 + [(row["unavailable"] or "").replace("|", "/")[:120]]
        print(f"| {row['contender']} | {' | '.join(cells)} |")
    print()


def run(title, contenders, options, tolerance=None):
    """A session and its table. Returns the rows."""
    session(contenders, options, tolerance)
    rows = summarize(contenders, options.rounds)
    if options.json:
        for row in rows:
            print(json.dumps({"case": title, "machine": platform.processor() or platform.machine(), **row}))
    else:
        print_table(title, rows)
    sys.stdout.flush()
    return rows

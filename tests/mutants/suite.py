"""The tests of a build folder, as Meson wrote them down, and one of them run, alone in a sandbox, and judged."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

# What Meson knows of a test; programs are the files that must be built for it, sources what it is written in.
Test = collections.namedtuple("Test", "name command environment folder suites programs sources")
# verdict: passed, failed or hung; cpu: seconds of processors, which say more than seconds where others work, too;
# skips: how many of its checks were skipped.
Outcome = collections.namedtuple("Outcome", "verdict seconds cpu skips why")

# Nothing that the caller has chosen, of devices or drivers, reaches a test.
KEPT = ("PATH", "LANG", "PYTHONPATH", "USER", "LOGNAME")
# A leak fails a test: the programs of a tree are linked with LeakSanitizer (trial.py).
COMMON = {"LC_ALL": "C.UTF-8", "MALLOC_PERTURB_": "165", "TERM": "dumb"}


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def read_tests(source, build):
    """{name: Test} of a configured build folder."""
    targets = {target["id"]: target for target in read_json(build / "meson-info/intro-targets.json")}
    tests = {}
    for test in read_json(build / "meson-info/intro-tests.json"):
        # What is built changes with every change of the library, which does not make it another test.
        programs, sources = [], [word for word in test["cmd"] if pathlib.Path(source, word).is_file()
                                 and not pathlib.Path(source, word).is_relative_to(build)]
        for identity in test["depends"]:
            target = targets[identity]
            programs += [os.path.relpath(name, build) for name in target["filename"]]
            if f"{source}/tests" in target["defined_in"]:
                sources += [path for part in target["target_sources"] for path in part.get("sources", [])]
        tests[test["name"]] = Test(test["name"], test["cmd"], test["env"], test["workdir"] or str(build),
                                   {suite.split(":")[-1] for suite in test["suite"]}, sorted(set(programs)),
                                   sorted({os.path.relpath(path, source) for path in sources}))
    return tests


def is_script(test):
    return not pathlib.Path(test.command[0]).name.startswith("test-")


def compiles(test):
    """Whether a driver's compiler, or processes, may take most of its time, which is the same in every build."""
    return (is_script(test) and "reproduce" not in test.suites) or "opencl" in " ".join([test.name, *test.command])


# ---- One test ----


def sandbox(*writable):
    """Words before a command: a faulty program that removes or fills what it should not does so in its tree alone."""
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for folder in writable:
        words += ["--bind", str(folder), str(folder)]
    return words + ["--unshare-pid", "--die-with-parent", "--"]


# The sandbox hides from us what it waits for.
TIMED = ["bash", "-c", '"$@"; status=$?; times >"$0"; exit $status']


def read_times(text):
    """Seconds of processors, of the children in the last line of what times wrote."""
    found = re.findall(r"(\d+)m([\d.]+)s", (text.splitlines() or [""])[-1])
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in found)


def judge(status, output):
    """(verdict, skips, why) of a test's TAP."""
    wrong = re.search(r"^(not ok\b(?!.*#\s*todo).*|Bail out!.*)$", output, re.MULTILINE | re.IGNORECASE)
    skips = len(re.findall(r"^(?:ok\b.*|1\.\.0\s*)#\s*skip", output, re.MULTILINE | re.IGNORECASE))
    if wrong:
        return "failed", skips, wrong[1]
    if status:
        return "failed", skips, f"exit status {status}"
    if not re.search(r"^1\.\.\d+", output, re.MULTILINE):
        return "failed", skips, "no plan"
    return "passed", skips, ""


def run_test(test, writable, limit, extra=None, also=()):
    home = pathlib.Path(writable, "home")
    home.mkdir(exist_ok=True)
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment.update(COMMON, HOME=str(home), **test.environment)
    environment.update(extra or {})
    with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile("r", dir=home) as times:
        process = subprocess.Popen(sandbox(writable, *also) + TIMED + [times.name] + test.command, cwd=test.folder,
                                   env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        status, seconds = wait(process, limit)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
        cpu = read_times(times.read())
    if seconds >= limit:
        return Outcome("hung", seconds, cpu, 0, f"no end after {limit:.0f} s")
    verdict, skips, why = judge(status, text)
    return Outcome(verdict, seconds, cpu, skips, why)


def wait(process, limit):
    """Exit status, and seconds until the end, or until it was ended."""
    start = time.monotonic()
    while True:
        ended, status = os.waitpid(process.pid, os.WNOHANG)
        seconds = time.monotonic() - start
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, seconds
        if seconds >= limit:
            os.killpg(process.pid, signal.SIGKILL)
            process.returncode = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
            return process.returncode, seconds
        time.sleep(0.02)

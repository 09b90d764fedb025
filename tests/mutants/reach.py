"""Which tests reach which lines: a build for gcov, and one run of every test.

What is collected is kept, for each test: what one commit changed costs the tests it changed alone. Lines of a file
that has changed since are found by the function they are in.
"""

import concurrent.futures
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import struct
import tempfile
import threading

import suite
import tree

OPTIONS = ["-Dbuildtype=plain", "-Doptimization=1", "-Db_coverage=true"]
# Tests of texts and of installing, of faults in kernels, and longer forms of tests that are there.
LEFT_OUT = {"lint", "install", "mutation", "in-full", "random"}
# Behind all others: they run long, or run much that is beside the point.
LAST = {"faults", "slow", "reproduce", "statistics"}
LONGEST = 900  # seconds for a test in a build for gcov, which may be slow
COUNTERS, SUMMARY = 0x01A10000, 0xA1000000  # records of a .gcda file


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def counters_of(data):
    """What tells one .gcda file of an object from another; None where nothing ran."""
    hashed, at, ran = hashlib.sha256(), 16, False
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<Ii", data, at)
        record = data[at:at + 8 + max(length, 0)]
        at += len(record)
        if kind != SUMMARY:
            hashed.update(record)
        ran = ran or (kind == COUNTERS and length > 0)
    return hashed.hexdigest() if ran else None


def mask_of(lines):
    mask = 0
    for line in lines:
        mask |= 1 << line
    return mask


def span(first, last):
    return (1 << (last + 1)) - (1 << first)


def order(test):
    """The quick ones first, so that an interrupted collection has most of them."""
    return (bool(LAST & test.suites), suite.compiles(test), "conformance" in test.suites, suite.is_script(test),
            test.name.endswith(" ref"), test.name)


class Reach:
    def __init__(self, root, folder):
        self.tree = tree.Tree(root, folder, "coverage", OPTIONS)
        self.path = pathlib.Path(folder, "reach.json.gz")
        # tests: {name: {seconds, cpu, skips, verdict, sources, files: {file: [digest, lines that ran]}}};
        # files: {"file digest": {lines, functions: {name: [first, last]}}}
        self.tests, self.files = {}, {}
        if self.path.is_file():
            self.tests, self.files = json.loads(gzip.decompress(self.path.read_bytes()))
        self._gcov = {}
        self._digests = {}
        self._lock = threading.Lock()

    def save(self):
        content = gzip.compress(json.dumps([self.tests, self.files]).encode())
        with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as file:
            file.write(content)
        pathlib.Path(file.name).replace(self.path)

    # ---- Collecting ----

    def collect(self, jobs, say):
        """Runs every test that is new or has changed since it was run."""
        self.tree.configure()
        tests = {name: test for name, test in suite.read_tests(self.tree.source, self.tree.build).items()
                 if not test.suites & LEFT_OUT}
        self.tests = {name: entry for name, entry in self.tests.items() if name in tests}
        wanted = [test for test in tests.values() if self._state(test) != self.tests.get(test.name, {}).get("state")]
        if not wanted:
            return tests
        say(f"coverage: building, then {len(wanted)} tests that are new or have changed")
        built = self.tree.ninja(jobs=jobs)
        if built.returncode:
            raise RuntimeError(f"{self.tree.build}: does not build:\n{built.stdout[-3000:]}")
        self._digests = {}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(self._measure, test) for test in sorted(wanted, key=order)]
            for count, done in enumerate(concurrent.futures.as_completed(running), 1):
                name, entry = done.result()
                self.tests[name] = entry
                if entry["verdict"] != "passed":  # a tree without gcov decides whether it counts
                    say(f"coverage: {name} {entry['verdict']}: {entry['why']}")
                if count % 20 == 0 or count == len(running):
                    say(f"coverage: {count} of {len(running)} tests")
                    self.save()
        return tests

    def _state(self, test):
        """What a test's own files and command hold."""
        texts = [pathlib.Path(self.tree.source, name).read_bytes() for name in test.sources
                 if pathlib.Path(self.tree.source, name).is_file()]
        command = [word.replace(str(self.tree.folder), "") for word in test.command]
        return digest(b"\0".join([*texts, repr(command).encode()]))

    def _measure(self, test):
        # Every process of a test adds to two hundred files: in memory, where that can be.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else self.tree.folder
        folder = pathlib.Path(tempfile.mkdtemp(dir=memory, prefix="iclab-gcov-"))
        strip = len(self.tree.build.parts) - 1
        outcome = suite.run_test(test, self.tree.folder, LONGEST,
                                 {"GCOV_PREFIX": str(folder), "GCOV_PREFIX_STRIP": str(strip)}, [folder])
        files = {}
        objects = {}
        for path in folder.rglob("*.gcda"):
            name = path.relative_to(folder).as_posix()
            key = counters_of(path.read_bytes())
            if key is not None:
                objects[name, key] = path
        self._run_gcov(objects)
        for name, key in objects:
            for file, lines in self._gcov[name, key].items():
                files[file] = files.get(file, 0) | lines
        shutil.rmtree(folder)
        entry = {"seconds": round(outcome.seconds, 2), "cpu": round(outcome.cpu, 2), "skips": outcome.skips,
                 "verdict": outcome.verdict, "why": outcome.why, "state": self._state(test),
                 "suites": sorted(test.suites),
                 "files": {file: [self._digest(file), hex(lines)] for file, lines in files.items() if lines}}
        return test.name, entry

    def _digest(self, file):
        if file not in self._digests:
            path = self.tree.source / file
            self._digests[file] = digest(path.read_bytes()) if path.is_file() else ""
        return self._digests[file]

    def _run_gcov(self, objects):
        unknown = [(name, key, path) for (name, key), path in objects.items() if (name, key) not in self._gcov]
        for name, key, path in unknown:
            notes = self.tree.build / pathlib.Path(name).with_suffix(".gcno")
            if not notes.is_file():
                self._gcov[name, key] = {}
                continue
            path.with_suffix(".gcno").symlink_to(notes)
            result = tree.run(["gcov", "--stdout", "--json-format", str(path)], cwd=self.tree.build)
            with self._lock:
                self._gcov[name, key] = self._read_gcov(result.stdout)

    def _read_gcov(self, text):
        ran = {}
        for line in text.splitlines():
            if not line.startswith("{"):
                continue
            for part in json.loads(line)["files"]:
                path = (self.tree.build / part["file"]).resolve()
                if not path.is_relative_to(self.tree.source):
                    continue
                file = path.relative_to(self.tree.source).as_posix()
                known = self.files.setdefault(f"{file} {self._digest(file)}", {"lines": "0x0", "functions": {}})
                lines = mask_of(entry["line_number"] for entry in part["lines"])
                known["lines"] = hex(int(known["lines"], 16) | lines)
                for function in part["functions"]:
                    known["functions"][function["name"]] = [function["start_line"], function["end_line"]]
                ran[file] = ran.get(file, 0) | mask_of(
                    entry["line_number"] for entry in part["lines"] if entry["count"])
        return ran

    # ---- Asking ----

    def totals(self):
        """{test: how many lines it runs}"""
        return {name: sum(int(lines, 16).bit_count() for _, lines in entry["files"].values())
                for name, entry in self.tests.items()}

    def reaching(self, change, text, users=()):
        """{test: how many lines of the change's file it runs} for the tests that reach the change, and True. In tables,
        which have no lines that run, those that reach their file or one that uses it. Where none is seen to reach it,
        those that reach its file, and False: a process apart may end without telling what it ran."""
        now = digest(text)
        found, near = {}, {}
        for name, entry in self.tests.items():
            for file in (change.file, *users):
                if file not in entry["files"]:
                    continue
                then, lines = entry["files"][file]
                lines = int(lines, 16)
                near[name] = max(near.get(name, 0), lines.bit_count())
                if file != change.file or change.lines is None or lines & self._lines(change, then, now):
                    found[name] = max(found.get(name, 0), lines.bit_count())
        return (found, True) if found else (near, False)

    def _lines(self, change, then, now):
        known = self.files[f"{change.file} {then}"]
        if then == now:  # a compiler gives some statements no line of their own
            own = span(*change.lines)
            return own if int(known["lines"], 16) & own else span(*change.body)
        function = known["functions"].get(change.unit)
        return span(*function) if function else -1  # not there then, or taken into another: whoever reaches its file

"""One change at a time: planted in a tree, built, and given to the tests that reach it until one of them fails."""

import hashlib
import json
import os
import pathlib
import re
import shlex

import reach
import sample
import suite
import tree

# As users build it, so that equal object code means what it says there. Linked with sanitizers, programs find leaks and
# what the C library does out of bounds; where no test notices a fault, its file alone is compiled for them.
SANITIZERS = "-fsanitize=address,undefined"
OPTIONS = [f"-Dc_link_args={SANITIZERS}"]
SANITIZED = [SANITIZERS, "-fno-sanitize=pointer-overflow,alignment", "-fno-sanitize-recover=all",
             "-ftrivial-auto-var-init=pattern"]
AGAIN, AGAIN_SECONDS = 12, 20  # tests, and seconds for all of them
OWN_ROOM = 0.02  # of what a test costs: for tests of the change's room
TESTS_OF = {"tests/backend/": ("tests/backend/", "tests/conformance/", "tests/driver/"),
            "tests/device/": ("tests/driver/",)}
IGNORED = "return value ignored"  # a kind of change
REPRODUCE = {"reproduce"}  # a suite
TABLES = "tables"  # a suite, whose tests read rows wherever they stand
FAULTS_REPRODUCE = "faults-reproduce"  # a suite, whose tests take a minute each
STEPS = 2  # from a table to the files that read it
# Within the sources, as a developer's is: ccache then has most of it, whose keys hold the way from one to the other.
BUILD = "source/build"
FINDINGS = "detect_leaks=1:hard_rss_limit_mb=6000"
# Sees through libraries without frame pointers, which known leaks are told by; for tests that have such.
THOROUGH = "fast_unwind_on_malloc=0"
# For a driver's compiler, and for tests of faults, which count what is held themselves: both would take minutes.
QUICK = "detect_leaks=0:malloc_context_size=0"
KNOWN_LEAKS = "tests/setups/leaks.txt"
SLOWER = 3  # tests in a build for gcov: what they are thought to take here before they have run
SLACK, FACTOR = 20, 8  # a test that takes longer than SLACK seconds and FACTOR times what it should take hangs


class Tried:
    """What tests do without a change, in trees: known once for all of them."""

    def __init__(self, folder):
        self.good, self.bad = {}, {}  # {test: how many of its checks are skipped}, {test: why it fails}
        self.leaky = set()  # with known leaks
        self.path = pathlib.Path(folder, "costs.json")
        self.cpu = suite.read_json(self.path) if self.path.is_file() else {}  # seconds of processors that they took

    def cost(self, test, measured):
        """Seconds of processors that a test takes, or is thought to take after `measured` in a build for gcov."""
        return self.cpu.get(test.name, measured if suite.compiles(test) else measured / SLOWER)

    def note(self, name, cpu):
        self.cpu[name] = round(cpu, 2)

    def save(self):
        self.path.write_text(json.dumps(self.cpu), encoding="utf-8")


class Trial:
    def __init__(self, root, folder, number, tried, say):
        self.tree = tree.Tree(root, pathlib.Path(folder, f"tree-{number}"), BUILD, OPTIONS)
        self.tried, self.say = tried, say
        known = self.tree.root / KNOWN_LEAKS
        self.extra = {"ASAN_OPTIONS": FINDINGS}
        if known.is_file():
            self.extra["LSAN_OPTIONS"] = f"suppressions={known}:print_suppressions=0"

    def prepare(self):
        self.tree.synchronize()
        self.tree.configure()
        self.outputs = {}  # {file: its objects}, of the library and the command
        self.commands = {}  # {object: how it is made}
        for entry in suite.read_json(self.tree.build / "compile_commands.json"):
            path = (self.tree.build / entry["file"]).resolve()
            if path.is_relative_to(self.tree.source):
                file = path.relative_to(self.tree.source).as_posix()
                if file.startswith(tuple(f"{folder}/" for folder in sample.FOLDERS)):
                    self.outputs.setdefault(file, []).append(entry["output"])
                    self.commands[entry["output"]] = entry["command"]
        built = self.tree.ninja(*self._objects_of(None))
        if built.returncode:
            raise RuntimeError(f"{self.tree.build} does not build:\n{built.stdout[-3000:]}")
        self.tests = suite.read_tests(self.tree.source, self.tree.build)
        self.objects = {}
        self._changed_objects(self._objects_of(None))
        self.users = self._read_users()

    def _read_users(self):
        """{file: files that include it, or name a table of its own, a few steps away}: a table of keys or of options
        has no lines that run, and is read elsewhere."""
        texts = {file: (self.tree.source / file).read_text(encoding="utf-8")
                 for file in sample.files_of(self.tree.source)}
        words = {file: set(re.findall(r"\w+", text)) for file, text in texts.items()}
        users = {file: set() for file in texts}
        for file, text in texts.items():
            for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
                for header in (f"src/{name}", str(pathlib.PurePosixPath(file).parent / name)):
                    if header in users:
                        users[header].add(file)
            for name in re.findall(r"^const [\w *]*?(\w+)(?:\[[^]]*\])? =", text, re.MULTILINE):
                users[file] |= {other for other in texts if name in words[other]} - {file}
        for _ in range(STEPS):
            users = {file: near | {far for other in near if other.endswith(".c") for far in users[other]
                                   if far.endswith(".c")} for file, near in users.items()}
        return users

    def _objects_of(self, file):
        return self.outputs.get(file) or [name for names in self.outputs.values() for name in names]

    def _changed_objects(self, names):
        """Those that hold something else than when they were last looked at without a change."""
        changed = []
        for name in names:
            path = self.tree.build / name
            stamp = path.stat().st_mtime_ns
            known = self.objects.get(name)
            if known and known[0] == stamp:
                continue
            content = hashlib.sha256(path.read_bytes()).digest()
            if known and known[1] != content:
                changed.append(name)
            else:
                self.objects[name] = stamp, content
        return changed

    # ---- A change ----

    def try_change(self, change, covered, totals, seconds):
        """A dict: verdict, by, why, tests. Verdicts: refused (by the compiler), equivalent, unreached, caught,
        survived."""
        path = self.tree.source / change.file
        original = path.read_bytes()
        changed = original[:change.start] + change.replacement + original[change.end:]
        path.write_bytes(changed)
        try:
            objects = self._objects_of(change.file)
            if self.tree.ninja(*objects).returncode:
                return {"verdict": "refused"}
            if not self._changed_objects(objects):
                return {"verdict": "equivalent", "why": "the same object code"}
            users = self.users[change.file] if change.lines is None else ()
            reaching, is_seen = covered.reaching(change, original, users)
            if change.lines is None:  # whoever walks all tables gets to this one by pointers
                reaching = {**dict.fromkeys(self._of_tables(), 1), **reaching}
            order = self._order(change, reaching, covered, totals)
            result = self._run_tests(order, covered, seconds, path, original, changed)
            first = [name for name in order[:AGAIN] if name not in self.tried.bad and
                     self.tried.cost(self.tests[name], covered.tests[name]["cpu"]) <= AGAIN_SECONDS]
            if result["verdict"] == "survived" and self._sanitize(change.file, first):
                again = self._run_tests(first, covered, AGAIN_SECONDS, path, original, changed)
                result = {**again, "sanitized": True} if again["verdict"] == "caught" else result
            return result if is_seen or result["verdict"] == "caught" else {**result, "verdict": "unreached"}
        finally:
            path.write_bytes(original)

    def _sanitize(self, file, tests):
        """Compiles a file for sanitizers in place of its objects, and has programs of tests linked again. To ninja the
        objects are what it made, of their old time; the next change of the file makes them so."""
        for name in self.outputs.get(file, ()):
            path = self.tree.build / name
            stamp = path.stat().st_mtime_ns
            if tree.run(shlex.split(self.commands[name]) + SANITIZED, cwd=self.tree.build).returncode:
                return False
            os.utime(path, ns=(stamp, stamp))
        for name in tests:
            for program in self.tests[name].programs:
                (self.tree.build / program).unlink(missing_ok=True)
        return file in self.outputs

    def _of_tables(self):
        return [name for name, test in self.tests.items() if TABLES in test.suites]

    def _order(self, change, reaching, covered, totals):
        """Quick tests and those that run little else first, above all those of the change's own room; those of
        reach.LAST behind all others. A status that is ignored shows where calls fail: before all others in tests of
        faults; a number of a table, in tests of tables."""
        names = [name for name in reaching if name in self.tests]
        # What a paper's number is computed by, a reproduction alone looks at.
        own = REPRODUCE if change.file.startswith("src/papers/") else set()
        first = {name for name in names if change.kind == IGNORED and "faults" in self.tests[name].suites
                 and (own or FAULTS_REPRODUCE not in self.tests[name].suites)}
        if change.lines is None:
            first.update(self._of_tables())
        last = {name for name in names if (reach.LAST - own) & self.tests[name].suites}
        parts = pathlib.PurePosixPath(change.file).parts
        room = f"tests/{parts[1] if parts[0] == 'src' else parts[0]}/"
        seconds = {name: self.tried.cost(self.tests[name], covered.tests[name]["cpu"]) for name in names}
        cost = {name: (seconds[name] + 0.3) * totals[name] / reaching[name] *
                (OWN_ROOM if own & self.tests[name].suites or
                 any(source.startswith(TESTS_OF.get(room, room)) for source in self.tests[name].sources) else 1)
                for name in names}
        return sorted(names, key=lambda name: (name not in first, name in last, cost[name]))

    def _run_tests(self, order, covered, seconds, path, original, changed):
        spent, count = 0, 0
        for name in order:
            if name in self.tried.bad:
                continue
            taken, cpu = covered.tests[name]["seconds"], covered.tests[name]["cpu"]
            if count and spent + self.tried.cost(self.tests[name], cpu) > seconds:
                continue
            outcome = self._run(name, taken)
            if outcome.verdict != "passed" or outcome.skips > covered.tests[name]["skips"]:
                if outcome.verdict == "hung":  # or the machine is busy: asked each time
                    self.tried.good.pop(name, None)
                was_leaky = name in self.tried.leaky
                is_good = self._is_good(name, taken, path, original, changed)
                # What is not here, a library of Python, is skipped without the change as well.
                if not (is_good and outcome.verdict == "passed" and outcome.skips <= self.tried.good[name]):
                    if is_good and (was_leaky or name not in self.tried.leaky or
                                    self._run(name, taken).verdict != "passed"):
                        return {"verdict": "caught", "by": name, "why": outcome.why or "skipped", "tests": count + 1,
                                "hung": outcome.verdict == "hung"}
                    continue
            self.tried.note(name, outcome.cpu)
            spent += outcome.cpu
            count += 1
        if not count:
            return {"verdict": "unreached", "tests": 0}
        return {"verdict": "survived", "tests": count, "left": len(order) - count}

    def _run(self, name, taken):
        test = self.tests[name]
        built = self.tree.ninja(*test.programs)
        if built.returncode:
            return suite.Outcome("failed", 0, 0, 0, "a program of the test does not build")
        extra = dict(self.extra)
        if "opencl" in " ".join([name, *test.command]) or "faults" in test.suites:
            extra["ASAN_OPTIONS"] += ":" + QUICK
        elif name in self.tried.leaky:
            extra["ASAN_OPTIONS"] += ":" + THOROUGH
        native = taken if suite.compiles(test) else taken / SLOWER
        return suite.run_test(test, self.tree.folder, SLACK + FACTOR * native, extra)

    def _is_good(self, name, taken, path, original, changed):
        """Whether the test passes without the change: asked once for each test that fails with one."""
        if name not in self.tried.good:
            path.write_bytes(original)
            outcome = self._run(name, taken)
            if outcome.verdict == "failed" and name not in self.tried.leaky:
                self.tried.leaky.add(name)
                outcome = self._run(name, taken)
            path.write_bytes(changed)
            if outcome.verdict == "passed":
                self.tried.good[name] = outcome.skips
            else:
                self.tried.bad[name] = outcome.why
                self.say(f"{name} fails here without a fault, left out: {outcome.why}")
        return name in self.tried.good

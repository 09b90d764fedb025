"""tools/gpu-report with an iclab of our own, whose numbers all differ: each is read back by column and label. What
becomes of the report when iclab fails, crashes, hangs or talks nonsense, and when the script is ended. The dry run with
the real command is tests/install/dry_report.sh. Arguments: tools/gpu-report, a folder to work in."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import done, ok

script = pathlib.Path(sys.argv[1])
work = pathlib.Path(tempfile.mkdtemp(prefix="a_b", dir=sys.argv[2]))
report = work / "report.md"

# ---- The command and the Python of peers, in one: each answers as the first row of `answers` whose words are in its
# command line. ----

FAKE = """#!{python}
import json, os, signal, sys, time
line = " ".join(sys.argv[1:])
for words, answer in json.load(open({answers!r})):
    if words in line:
        break
else:
    sys.exit(99)
if "times" in answer:  # seconds of a call, by the device or by the choices
    choice = "cpu" if "--device cpu" in line else os.environ.get("ICLAB_OPENCL_CHOICES", "")
    seconds = answer["times"].get(choice, answer["times"][""])
    print(json.dumps(dict(ready=True)), flush=True)
    calls = 0
    for turn, request in enumerate(sys.stdin):
        if turn == answer.get("turns"):
            sys.exit(3)
        slow = min(int(request), max(0, answer.get("slow", 0) - calls))  # ten times as slow at first
        calls += int(request)
        if "log" in answer:
            open(answer["log"], "a").write(choice + "\\n")
        print(json.dumps(dict(seconds=seconds * (int(request) + 9 * slow))), flush=True)
    sys.exit()
if "unless" in answer and answer["unless"] in os.environ:
    folder = os.environ[answer["unless"]]
    names = [name for name in os.listdir(folder) if name.startswith("offered")]
    offered = ",".join(open(os.path.join(folder, name)).read().strip() for name in names)
    answer = dict(rows=[dict(row, verdict=offered) for row in answer["then"]["rows"]])
for row in answer.get("rows", ()):
    print(json.dumps(row), flush=True)
print(answer.get("text", ""), flush=True)
print(answer.get("complaint", ""), file=sys.stderr, flush=True)
if "folder" in answer:
    folder = sys.argv[sys.argv.index("--out") + 1]
    os.makedirs(folder)
    json.dump(answer["folder"], open(os.path.join(folder, "run.json"), "w"))
if "deaf" in answer:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(answer["deaf"], "w").write(str(os.getpid()))
    time.sleep(1000)
if "signal" in answer:
    os.kill(os.getpid(), answer["signal"])
sys.exit(answer.get("code", 0))
"""
answers = work / "answers"
iclab, faulty, python = work / "bin/iclab", work / "libexec/iclab-output_left_unwritten", work / "peers/bin/python"
for program in (iclab, faulty, python):
    program.parent.mkdir(parents=True)
    program.write_text(FAKE.format(python=sys.executable, answers=str(answers)), encoding="utf-8")
    program.chmod(0o755)

GPU = {
    "spec": "opencl:0.0",
    "name": "NVIDIA H200 <b>",
    "kind": "gpu",
    "platform": "P",
    "driver": "570.1",
    "usable": True,
    "verdict": "self-test passed",
    "compute_units": 132,
    "local_memory": 49152,
}
PEAKS = {"gflops": None, "gbytes_per_s": None, "launches": 5, "compile_s": 0.75, "times_cpu": 61}
GRADIENT = "linear_transformer gradient full L 4 d 20 gram (2048)"


def bench_row(case, milliseconds, **rates):
    return dict(PEAKS, case=case, median_s=1e-3 * milliseconds, **rates)


def case(op, verdict, worst, equal):
    reason = dict(reason="out[3] is 1, truth 2", repro="iclab compare --op this")
    return dict(reason, op=op, verdict=verdict, error_over_bound=worst, bit_equal=equal)


def predictor(name, mse, se, half, half_se, adjusted):
    return dict(predictor=name, mse=mse, se=se, half_adjusted=half, half_adjusted_se=half_se, adjusted=adjusted)


GOOD = [
    ["--version", {"text": "iclab 9.9.9 (tested, with CLBlast)"}],
    ["devices", {"rows": [dict(GPU, spec="cpu", name="Host"), GPU]}],
    ["update adam (1)", {"complaint": "iclab: device opencl:0.0: NVIDIA H200"}],
    ["linear forward --json", {"rows": [case("attention_forward", "FAIL", 9, 0.5)], "code": 1}],
    [
        "--seed 0",
        {
            "rows": [
                case("copy", "PASS", 0, 1),
                case("reduce", "PASS", 0.25, 0.5),
                case("reduce", "PASS", 0.75, 0.625),
                {"summary": {"left_out": 4321, "worst": 0.75}},
            ]
        },
    ],
    ["--seed 1", {"rows": [case("look_up", "PASS", 0.125, 1), {"summary": {"left_out": 77, "worst": 0.125}}]}],
    [
        "--on-request --quiet --device opencl:0.0 --op " + GRADIENT,
        {"times": {"": 0.010, "linear=steps": 0.020, "linear=straight": 0.008, "teams=128": 0.0098}, "slow": 8},
    ],
    ["gated delta T 64 d 16", {"times": {"": 0.005}, "log": str(work / "order")}],
    ["--on-request --quiet --device opencl:0.0 --recipe recall", {"times": {"": 0.004}}],
    ["--on-request --quiet --device cpu --recipe recall", {"times": {"": 0.020}}],
    ["train.batch=65536", {"times": {"": 0.032, "cpu": 0.001}}],
    ["--on-request", {"times": {"": 0.005}}],
    [
        "copy (32Mi)",
        {
            "rows": [
                bench_row("peak multiply-add", 1, gflops=50000),
                bench_row("peak triad", 2, gbytes_per_s=3120),
                bench_row("copy (32Mi)", 3, gbytes_per_s=2800),
            ]
        },
    ],
    [
        "--seconds 0.2",
        {
            "rows": [
                bench_row("peak triad", 9, gbytes_per_s=1),
                bench_row("matmul (7x8)(8x9)", 1.23, gflops=17000, gbytes_per_s=240),
            ]
        },
    ],
    ["never", {}],
    [
        "train versatile",
        {
            "rows": [
                predictor("model", 2.5, 0.01, 0.11, 0.002, 0.22),
                predictor("constrr", 3.5, 0.03, 0.33, 0.004, 0.66),
            ],
            "folder": {"steps": 2000, "training_seconds": 12.5, "skipped_steps": 6},
        },
    ],
    ["import torch", {}],
    [
        "peers.py",
        {
            "rows": [
                dict(case="matmul", contender="torch, TF32", on="H200", ms=0.456, times_iclab=0.789, error=0.00123),
                {"unavailable": "fla: no module"},
            ]
        },
    ],
]


def run(*arguments, first=()):
    """The exit code and stderr; FIRST: answers before the good ones."""
    report.unlink(missing_ok=True)
    answers.write_text(json.dumps([*first, *GOOD]), encoding="utf-8")
    home, nothing = work / "home", work / "nothing"  # no other Python is found
    environment = dict(os.environ, ICLAB_PEERS=str(work / "peers"), HOME=str(home), LOGNAME="somebody-else")
    environment["PATH"] = str(nothing)
    environment.pop("OCL_ICD_VENDORS", None)
    command = [sys.executable, script, "--out", report, *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return ended.returncode, ended.stderr


def imitated(*first, minutes="9"):
    """With more time than a slow machine takes, but where a part hangs."""
    return run("--iclab", iclab, "--minutes", minutes, first=first)


def section(title):
    text = report.read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows_of(text):
    """The rows of the tables of a section, each a dictionary by column."""
    titles, rows = None, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            titles = None
        elif titles is None:
            titles = cells
        elif not set(line) <= set("|-: "):
            rows.append(dict(zip(titles, cells)))
    return rows


def has(title, **cells):
    """A row of the section has these cells; a blank of a column's name is a _."""
    cells = {name.replace("_", " "): value for name, value in cells.items()}
    rows = rows_of(section(title))
    ok(any(all(row.get(name) == value for name, value in cells.items()) for row in rows), f"{title}: {cells}", *rows)


def verdict(part, expected, words=""):
    rows = {row["part"]: row for row in rows_of(section("Summary"))}
    row = rows.get(part, {})
    said = row.get("what was seen or why not", "")
    ok(row.get("verdict", "").strip("*") == expected and words in said, f"{part}: {expected}, {words}", row)


# ---- Bad usage: one line, and no report ----
for arguments, code, words, name in (
    (["--devise", "opencl"], 2, "unknown argument '--devise': expected", "an unknown argument"),
    (["--device"], 2, "--device: expected a value", "an option without its value"),
    (["--device", "cpu"], 2, "--device 'cpu': expected opencl", "a device that is none of OpenCL"),
    (["--minutes", "0"], 2, "--minutes '0': expected a whole number", "no time at all"),
    (["--iclab", work / "no-iclab"], 2, "expected the unpacked bundle", "an iclab that is not there"),
    (["--out", work / "nowhere" / "r.md"], 2, "expected a folder that exists", "a folder that is not there"),
    (
        ["--iclab", iclab, "--out", "/proc/r.md"],
        3,
        "expected a file that can be written",
        "a file that cannot be written",
    ),
):
    found, complaint = run(*arguments)
    ok(
        (found, complaint.count("\n"), words in complaint, report.exists()) == (code, 1, True, False),
        f"refused: {name}",
        complaint,
    )

# ---- Every number, by its column ----
code, complaint = imitated()
ok(code == 0, "exit code 0 when every part passes", complaint)
text = report.read_text(encoding="utf-8")
titles = [row["part"] for row in rows_of(section("Summary"))]
ok(
    len(titles) == 11 and all(f"\n## {title[0].upper()}{title[1:]}\n" in text for title in titles),
    "every part has its section",
)
ok("NVIDIA H200 &lt;b&gt;" in text and "<b>" not in text, "a device's name is text, not markup")
has("Machine", fact="driver", value="570.1")
has("Machine", fact="local\\_memory", value="49,152")
has("Machine", fact="usable", value="True")
verdict("devices", "passed", "2 devices, 0 refused")
verdict("self-test", "passed", "4 ways")
verdict("conformance", "passed", "3 cases of 2 ops, largest error 0.750000 of its bound; 4321 had no turn")
has(
    "Conformance",
    op="reduce",
    **{"cases": "2", "failed": "0", "largest error / bound": "0.750000", "bits equal to cpu's at least %": "50.0"},
)
verdict("planted fault", "passed", "the fault was noticed")
has("Peaks", loop="peak multiply-add", rate="50,000", unit="GFLOP/s", data_sheet="67,000", **{"share in %": "75"})
has("Peaks", loop="copy (32Mi)", rate="2,800", unit="GB/s", data_sheet="4,800", **{"share in %": "58"})
has(
    "Ops",
    case="matmul (7x8)(8x9)",
    median_in_ms="1.23",
    **{
        "GFLOP/s": "17,000",
        "GB/s": "240",
        "of peak in %": "34.0",
        "launches": "5.00",
        "compile in s": "0.750",
        "times as fast as cpu": "61.0",
    },
)
verdict("ops", "passed", "1 cases were measured")
ok(len(rows_of(section("Ops"))) == 1, "peaks are no ops")
has(
    "Choices",
    case=GRADIENT.replace("_", "\\_"),
    **{
        "iclab's choice in ms": "10.0",
        "how many times as fast as iclab's choice": "interpreter 0.500, straight lines 1.25",
    },
)
ok(len(rows_of(section("Choices"))) == 15, "15 choices")
last = section("Verdicts on choices")
ok(
    "**straight lines** (`linear=straight`) is 1.25 times as fast as iclab's choice\n" in last,
    "the faster way is named with its gain",
    last,
)
ok(
    "**128 groups a unit** (`teams=128`) is 1.02 times as fast as iclab's choice, which stands\n" in last,
    "and what is no gain is called so",
    last,
)
order = (work / "order").read_text().split("\n")[:-1][-21:]
ok(len(set(order[::3])) == 3 and len(set(order[:3])) == 3, "contenders take turns, and each begins in its turn", order)
has(
    "Steps",
    step="recall",
    batch="–",
    median_in_ms="4.00",
    **{"million sequences / s": "–", "times as fast as cpu": "5.00"},
)
has(
    "Steps",
    step="d 20, tokens",
    batch="65,536",
    median_in_ms="32.0",
    **{"million sequences / s": "2.05", "times as fast as cpu": "–"},
)
has(
    "Peers",
    case="matmul",
    contender="torch, TF32",
    on="H200",
    median_in_ms="0.456",
    error="0.001",
    **{"times of iclab's": "0.789"},
)
ok("Not measured: fla: no module." in section("Peers"), "what was not there is named")
has("Training", predictor="model", mse="2.500", se="0.0100", half_adjusted="0.1100", se_of_it="0.0020")
verdict("training", "passed", "2000 steps in 12.5 s, 6 skipped, mse 2.500")
verdict(
    "conformance with other values", "passed", "1 cases of 1 ops, largest error 0.125000 of its bound; 77 had no turn"
)

# ---- What fails, crashes and hangs ----
pid = work / "pid"
code, complaint = imitated(
    ["--fast-math", {"signal": signal.SIGSEGV}],
    [
        "--seed 0",
        {
            "rows": [
                case("copy", "FAIL", None, None),
                case("reduce", "PASS", 0.5, 1),
                {"summary": {"left_out": 0, "worst": 1e308}},
            ],
            "code": 1,
        },
    ],
    ["linear forward", {"rows": [case("copy", "FAIL", 2, 1), case("attention_forward", "FAIL", 2, 1)], "code": 1}],
    ["copy (32Mi)", {"complaint": f"iclab: wrong in {work}/home/secret, says somebody-else", "code": 3}],
    ["--seconds 0.2", {"rows": [{"case": "nonsense", "median_s": "soon", "gflops": 1, "gbytes_per_s": 2}]}],
    ["--recipe recall", {"code": 3}],
    [
        "train versatile",
        {
            "rows": [predictor("model", 2, 1, 1, 1, 0.7), predictor("constrr", 2, 1, 1, 1, 0.7)],
            "folder": {"steps": 2000, "training_seconds": 1, "skipped_steps": 0},
        },
    ],
    ["import torch", {"code": 1}],
)
ok(code == 1, "exit code 1 when a part fails", complaint)
verdict("self-test", "FAILED", "crashed: Segmentation fault")
verdict("conformance", "FAILED", "1 of 2 cases failed: copy")
ok(
    "out[3] is 1, truth 2\n    iclab compare --op this" in section("Conformance"),
    "a failed case is there, with how to repeat it",
)
has("Conformance", op="**copy**", **{"failed": "1", "largest error / bound": "inf"})
verdict("planted fault", "FAILED", "expected failures of attention\\_forward alone, found attention\\_forward, copy")
verdict("peaks", "FAILED", "exit code 3: wrong in ~/secret, says NAME")
verdict("ops", "FAILED", "could not be read")
has("Steps", step="recall", median_in_ms="did not run or end in time")
verdict("steps", "passed", "24 of 25 settings were measured")
verdict("peers", "not run", "no Python here has PyTorch")
verdict("training", "FAILED", "no better than ridge")
verdict("conformance with other values", "passed")
ok(
    "**Failed: self-test, conformance, planted fault, peaks, ops, training.**" in report.read_text(),
    "the first lines name what failed",
)
imitated(
    ["--seed 0", {"rows": [{"summary": {"left_out": 0, "worst": 0}}]}],
    ["linear forward", {"rows": [case("attention_forward", "PASS", 0.5, 1), {"summary": {}}]}],
)
verdict("planted fault", "FAILED", "found none")
verdict("conformance", "FAILED", "0 cases were judged")
imitated(["--on-request", {"code": 3}])
verdict("choices", "FAILED", "no choice was measured")
verdict("steps", "FAILED", "no step was measured")
code, complaint = imitated(
    ["devices", {"rows": [dict(GPU, usable=False, verdict="wrong bits")]}],
    ["--seed 0", {"deaf": str(pid), "rows": [case("copy", "PASS", 0, 1)]}],
    minutes="1",
)
verdict("devices", "FAILED", "opencl:0.0: wrong bits")
verdict("conformance", "timed out", "; 1 cases were judged")
ok(code == 1, "a part that must end and does not fails the report", complaint)
try:
    os.kill(int(pid.read_text()), 0)
    ok(False, "what hangs is killed, also where it does not listen")
except ProcessLookupError:
    ok(True, "what hangs is killed, also where it does not listen")

code, complaint = imitated(
    ["--device cpu --recipe recall", {"times": {"": 0.02}, "turns": 5}],
    ["--recipe fastweight", {"times": {"": 0.02}, "turns": 5}],
    ["train versatile", {"deaf": str(pid)}],
    minutes="1",
)
has("Steps", step="recall", **{"times as fast as cpu": "–"})
has("Steps", step="fastweight", median_in_ms="did not run or end in time")
verdict("training", "timed out", "no end after")
ok(code == 0, "a part that may be late does not fail the report", complaint)

# ---- Drivers ----
unlisted = "iclab: the OpenCL driver /opt/x y/libcl.so.1 is on this machine, but no .icd file names it; this line"
imitated(["devices", {"unless": "OCL_ICD_VENDORS", "then": {"rows": [GPU]}, "complaint": unlisted}])
ok("No .icd file names /opt/x y/libcl.so.1" in section("Devices"), "a driver without a file is named")
has("Devices", spec="opencl:0.0", **{"self-test": "/opt/x y/libcl.so.1"})
code, complaint = imitated(
    ["update adam (1)", {"complaint": "iclab: device opencl: no OpenCL device on this machine", "code": 3}]
)
ok(
    (code, complaint.count("\n")) == (3, 1) and "says what was looked for" in complaint,
    "no device: one line",
    complaint,
)
verdict("devices", "not run", "no OpenCL device on this machine")

# ---- Whatever ends the script ----
for number, expected in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
    pid.unlink(missing_ok=True)
    report.unlink(missing_ok=True)
    answers.write_text(json.dumps([["copy (32Mi)", {"deaf": str(pid)}], *GOOD]), encoding="utf-8")
    process = subprocess.Popen([script, "--out", report, "--iclab", iclab], stderr=subprocess.DEVNULL)
    while not pid.exists() or not pid.read_text():
        time.sleep(0.05)
    process.send_signal(number)
    ok(process.wait() == expected, f"ended by {signal.Signals(number).name}: {process.returncode}")
    verdict("peaks", *(("not run", "interrupted") if number == signal.SIGTERM else ("running", "stopped here")))
    verdict("planted fault", "passed", "the fault was noticed")
    has("Conformance", op="reduce", cases="2")
    try:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    except ProcessLookupError:
        pass
ok(not re.search(r"/\S*report-\w+|somebody-else", report.read_text()), "the report names no folder of this machine")
done()

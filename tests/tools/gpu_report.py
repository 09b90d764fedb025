"""tools/gpu-report with an iclab of our own, whose times all differ: each is read back by column and label. What
becomes of the report when iclab fails, crashes, hangs or talks nonsense, and when the script is ended. The dry run with
the real command is tests/install/dry_report.sh. Arguments: tools/gpu-report, a folder to work in."""

import json
import os
import pathlib
import re
import shutil
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

# ---- The command answers as the first row of `answers` whose words are in its command line. ----

FAKE = """#!{python}
import json, os, signal, sys, time
line = " ".join(sys.argv[1:])
for words, answer in json.load(open({answers!r})):
    if words in line:
        break
else:
    sys.exit(99)
if "times" in answer and sys.stdin.read(0) == "" and "--quiet" in line:  # seconds of a call, by device or choices
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
vendors = os.environ.get("OCL_ICD_VENDORS", "/nowhere")
if "named" in answer and os.path.exists(vendors + "/nvidia.icd"):  # the loader is told of the driver
    files = {{name: open(vendors + "/" + name).read() for name in os.listdir(vendors)}}
    open(answer["files"], "a").write(json.dumps(files) + "\\n")
    answer["text"] = answer["named"]
print(answer.get("text", ""), flush=True)
print(answer.get("complaint", ""), file=sys.stderr, flush=True)
if "deaf" in answer:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(answer["deaf"], "w").write(str(os.getpid()))
    time.sleep(1000)
if "signal" in answer:
    os.kill(os.getpid(), answer["signal"])
sys.exit(answer.get("code", 0))
"""
answers, iclab = work / "answers", work / "bin/iclab"
iclab.parent.mkdir()
iclab.write_text(FAKE.format(python=sys.executable, answers=str(answers)), encoding="utf-8")
iclab.chmod(0o755)
faulty = work / "libexec/iclab-output_left_unwritten"
faulty.parent.mkdir()
shutil.copy(iclab, faulty)

GRADIENT = "linear_transformer gradient full L 4 d 20 gram (2048)"
CASES = "PASS       copy (3) plain\nPASS       reduce (3) plain\n\n2 cases: 2 passed\nclosest: reduce at 0.75"
GOOD = [
    ["--version", {"text": "iclab 9.9.9\n(tested, with CLBlast)"}],
    ["devices", {"text": "opencl:0.0 NVIDIA H200\n  usable: self-test passed ``` <b>", "complaint": "no .icd file"}],
    ["update adam (1)", {"complaint": "iclab: device opencl:0.0: NVIDIA H200 <b> (asked for with --device)"}],
    ["compare --device opencl:0.0 --against cpu --seconds", {"text": CASES}],
    ["compare --device opencl:0.0 --against cpu --op linear forward", {"text": "FAIL  linear forward", "code": 1}],
    ["train versatile --quiet --set train.steps=2000 --device opencl:0.0", {"text": "model 0.127"}],
    [
        "--on-request --quiet --device opencl:0.0 --op " + GRADIENT,
        {"times": {"": 0.010, "linear=steps": 0.020, "linear=straight": 0.008, "teams=128": 0.0098}, "slow": 8},
    ],
    ["gated delta T 64 d 16", {"times": {"": 0.005}, "log": str(work / "order")}],
    ["--on-request --quiet --device opencl:0.0 --recipe recall", {"times": {"": 0.004}}],
    ["--on-request --quiet --device cpu --recipe recall", {"times": {"": 0.020}}],
    ["train.batch=65536", {"times": {"": 0.032, "cpu": 0.001}}],
    ["--on-request", {"times": {"": 0.005}}],
    ["copy (32Mi)", {"text": "peak triad 3120 GB/s"}],
    ["--seconds 0.2", {"text": "matmul (7x8)(8x9) 17000 GFLOP/s\n" + "\n".join(f"case {i}" for i in range(500))}],
]


def environment(**more):
    """A machine without the vendors' tools, whose user has a name and a home folder."""
    machine = dict(os.environ, HOME=str(work / "home"), LOGNAME="somebody-else", PATH=str(work / "nothing"))
    machine = {name: value for name, value in machine.items() if name not in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")}
    return dict(machine, ICLAB_OPENCL_CHOICES="linear=steps", ICLAB_DEVICE="cpu", **more)


def run(*arguments, first=(), **more):
    """The exit code and stderr; FIRST: answers before the good ones. More: variables."""
    report.unlink(missing_ok=True)
    answers.write_text(json.dumps([*first, *GOOD]), encoding="utf-8")
    command = [sys.executable, script, "--out", report, *arguments]
    ended = subprocess.run(command, env=environment(**more), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return ended.returncode, ended.stderr


def imitated(*first, minutes="9", **more):
    """With more time than a slow machine takes, but where a part hangs."""
    return run("--iclab", iclab, "--minutes", minutes, first=first, **more)


def section(title):
    text = report.read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows_of(text):
    """The rows of a table, each a dictionary by column."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return [dict(zip(lines[0], cells)) for cells in lines[2:]]


def raced(part, case, milliseconds, ratios):
    found = [list(row.values())[1:] for row in rows_of(section(part)) if row["case"] == case]
    ok([milliseconds, ratios] in found, f"{part}, {case}: {milliseconds} ms; {ratios}", *found)


def verdict(part, expected, words=""):
    row = {row["part"]: row for row in rows_of(report.read_text(encoding="utf-8").split("\n## ")[0])}.get(part, {})
    said = row.get("what was seen or why not", "")
    ok(row.get("verdict", "").strip("*") == expected and words in said, f"{part}: {expected}, {words}", row)


def is_killed(pid):
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


# ---- Bad usage: one line, and no report ----
for arguments, code, words, name in (
    (["--devise", "opencl"], 2, "unrecognized arguments: --devise", "an unknown argument"),
    (["--device"], 2, "--device: expected one argument", "an option without its value"),
    (["--device", "cpu"], 2, "--device 'cpu': expected opencl", "a device that is none of OpenCL"),
    (["--minutes", "0"], 2, "--minutes '0.0': expected a number above 0", "no time at all"),
    (["--iclab", work / "no-iclab"], 2, "expected the unpacked bundle", "an iclab that is not there"),
    (["--out", work / "nowhere" / "r.md"], 2, "expected a folder that exists", "a folder that is not there"),
    (["--iclab", iclab, "--out", "/proc/r.md"], 3, "expected a file that can be written", "no file can be written"),
):
    found, complaint = run(*arguments)
    is_refused = (found, complaint.count("\n"), words in complaint, report.exists()) == (code, 1, True, False)
    ok(is_refused, f"refused: {name}", complaint)

# ---- Every number, by its column, and what commands said ----
code, complaint = imitated()
ok(code == 0, "exit code 0 when every part passes", complaint)
text = report.read_text(encoding="utf-8")
parts = ["devices", "self-test", "conformance", "planted-fault", "peaks", "ops", "choices", "steps", "training"]
ok(re.findall(r"\n## (.*)", text) == ["Machine", *map(str.capitalize, parts)], "every part has its section")
ok("# iclab on NVIDIA H200 &lt;b&gt;\n" in text, "the title names the device, as text and not as markup")
ok("iclab 9.9.9 (tested, with CLBlast), on Linux" in section("Machine"), "the command and the system are named")
ok("self-test passed ''' <b>\n```" in section("Devices"), "what a command said cannot leave its block")
ok("no .icd file" in section("Devices"), "what is said of drivers is there")
verdict("devices", "passed", "opencl:0.0: NVIDIA H200")
verdict("self-test", "passed", "passed in 4 ways")
ok(len(set(re.findall(r"\niclab bench .*request", section("Self-test")))) == 4, "each way is there to be repeated")
verdict("conformance", "passed", "2 cases: 2 passed")
ok("closest: reduce at 0.75" in section("Conformance"), "the judged cases are there")
verdict("planted-fault", "passed", "the fault was noticed")
verdict("training", "passed")
ok("model 0.127" in section("Training"), "the table of the training is there")
verdict("peaks", "passed")
ok("peak triad 3120 GB/s" in section("Peaks"), "peaks are there")
verdict("ops", "passed")
ops = section("Ops")
ok("17000 GFLOP/s" in ops and "case 499" in ops and "case 250" not in ops, "ops are there, and the middle is left out")
raced("Choices", GRADIENT.replace("_", "\\_"), "10", "linear=steps 0.5, linear=straight **1.25**")
ok("teams=64 1, teams=128 1.02" in section("Choices"), "what is no gain is not bold")
verdict("choices", "passed", " were measured")
ok(re.search(r"\b(\d+) of \1 were measured", report.read_text()), "each choice was measured")
order = (work / "order").read_text().split("\n")[:-1][-21:]
ok(len(set(order[::3])) == 3 and len(set(order[:3])) == 3, "contenders take turns, and each begins in its turn", order)
raced("Steps", "recall", "4", "cpu 0.2")
raced("Steps", "d 20, tokens, batch 65,536", "32", "–")
verdict("steps", "passed", "25 of 25 were measured")

# ---- What fails, crashes and hangs ----
pid, secret = work / "pid", work / "home/secret"
FAILURE = "FAIL       copy (3) plain\n  out[3] is 1, truth 2\n  iclab compare --op copy\n\n2 cases: 1 passed, 1 failed"
code, complaint = imitated(
    ["--fast-math", {"signal": signal.SIGSEGV}],
    ["--against cpu --seconds", {"text": FAILURE, "code": 1}],
    ["--against cpu --op", {"text": "PASS linear forward"}],
    ["copy (32Mi)", {"complaint": f"iclab: wrong in {secret} and {work}/home-too, says somebody-else", "code": 3}],
    ["--recipe recall", {"code": 3}],
    ["--device cpu --recipe garg", {"times": {"": 0.02}, "turns": 5}],
    ["--recipe fastweight", {"times": {"": 0.02}, "turns": 5}],
)
ok(code == 1, "exit code 1 when a part fails", complaint)
verdict("self-test", "FAILED", "crashed: Segmentation fault")
verdict("conformance", "FAILED", "2 cases: 1 passed, 1 failed")
ok("  out[3] is 1, truth 2\n  iclab compare --op copy" in section("Conformance"), "a failed case, and how to repeat it")
verdict("planted-fault", "FAILED", "exit code 0")
verdict("peaks", "FAILED", "exit code 3: wrong in ~/secret and ICLAB/home-too, says NAME")
raced("Steps", "recall", "did not run or end in time", "–")
raced("Steps", "garg", "5", "–")
raced("Steps", "fastweight", "did not run or end in time", "–")
verdict("steps", "passed", "23 of 25 were measured")
imitated(
    ["--against cpu --seconds", {"text": "0 cases: 0 passed"}],
    ["--against cpu --op", {"text": "no device", "code": 1}],
    ["--version", {"text": "iclab without it"}],
    ["copy (32Mi)", {"code": 3}],
    ["--on-request --quiet", {"code": 3}],
)
verdict("conformance", "FAILED", "compare did not come to its end; 0 cases were judged")
verdict("planted-fault", "FAILED", "no case of compare failed")
verdict("self-test", "passed", "passed in 3 ways")
verdict("peaks", "FAILED", "exit code 3: it said nothing")
verdict("choices", "FAILED", "nothing was measured")
code, complaint = imitated(["--against", {"deaf": str(pid), "text": "PASS copy\n"}], minutes="0.2")
verdict("conformance", "FAILED", "s; 1 cases were judged")
ok(code == 1, "a part that judges results and hangs fails the report", complaint)
ok(is_killed(pid), "what hangs is killed, also where it does not listen")

code, complaint = imitated(["copy (32Mi)", {"deaf": str(pid)}], minutes="0.3")
verdict("peaks", "timed out", "no end after")
ok(code == 0, "a part that may be late does not fail the report", complaint)
imitated(minutes="0.01")
verdict("devices", "not run", "the time for all parts was over")

# ---- A driver that no .icd file names ----


def listed(spec, kind, verdict="usable"):
    return f"{spec:14} some {kind}\n{'':14} {kind}, a platform\n{'':14} 2 compute units\n{'':14} {verdict}: so"


library, vendors, files = "/usr/local/nvidia/lib64/libnvidia-opencl.so.1", work / "ven dors", work / "files"
vendors.mkdir()
(vendors / "pocl.icd").write_text("libpocl.so.2\n")
(vendors / "readme").write_text("no driver\n")
TOLD = f"iclab: the OpenCL driver {library} is on this machine, but no .icd file names it; this line writes one: "
COPIES = f"v=~/.iclab-vendors && mkdir -p \"$v\" && cp '{vendors}'/*.icd \"$v\" && "
COPIES += f"echo '{library}' >\"$v/nvidia.icd\" && export OCL_ICD_VENDORS=\"$v\""
WRITES = f"mkdir -p '{vendors}' && echo '{library}' >'{vendors}/nvidia.icd'"
BOTH = {"pocl.icd": "libpocl.so.2\n", "nvidia.icd": library + "\n"}
HOST, GPU = listed("opencl:0.0", "cpu"), listed("opencl:1.0", "gpu")
OPENED = "iclab: device {}: {} (asked for with --device)"
BEST = ["compare --device opencl --op", {"complaint": OPENED.format("opencl:0.0", "a processor")}]


def named(line, then, *options, best=BEST, **more):
    """A report where `iclab devices` tells LINE and, once the driver is named, lists THEN. Returns its section on
    devices, and the .icd files of each call that had such a folder."""
    files.write_text("")
    told = ["devices", {"text": HOST, "complaint": TOLD + line, "named": then, "files": str(files)}]
    found = ["compare --device opencl:1.0 --op", {"complaint": OPENED.format("opencl:1.0", "a GPU")}]
    run("--iclab", iclab, "--minutes", "0.5", *options, first=[told, best, found], **more)
    return section("Devices"), [json.loads(text) for text in files.read_text().splitlines()]


for line in (COPIES, WRITES):
    text, seen = named(line, f"{HOST}\n\n{GPU}")
    ok(seen == [BOTH], "a driver without an .icd file is named beside the others", seen)
    ok(f"No .icd file names {library}: from here on OCL_ICD_VENDORS is" in text, "which is told", text)
    verdict("devices", "passed", "opencl:1.0: a GPU")
text, seen = named(WRITES, f"{HOST}\n\n{listed('opencl:1.0', 'gpu', 'REFUSED')}")
verdict("devices", "passed", "opencl:1.0: a GPU")
named(WRITES, f"{listed('opencl:2.0', 'gpu', 'REFUSED')}\n\n{GPU}\n\n{listed('opencl:3.0', 'gpu')}")
verdict("devices", "passed", "opencl:1.0: a GPU")
named(WRITES, f"{HOST}\n\n{GPU}", "--device", "opencl:0.0")
verdict("devices", "passed", "opencl:0.0: NVIDIA H200")
fast = ["compare --device opencl --op", {"complaint": OPENED.format("opencl:3.0", "a fast GPU")}]
named(WRITES, f"{GPU}\n\n{listed('opencl:3.0', 'gpu')}", best=fast)
verdict("devices", "passed", "opencl:3.0: a fast GPU")
text, seen = named(WRITES, "cpu  a host")
ok(seen == [BOTH] and "the machine's own serves" in text, "a driver that takes all devices away is left out", text)
verdict("devices", "passed", "opencl:0.0: a processor")
text, seen = named(WRITES, GPU, OCL_ICD_VENDORS=str(vendors))
ok(seen == [] and "from here on" not in text, "as is one that the user left out", seen)
verdict("devices", "passed", "opencl:0.0: a processor")

# ---- No device, and whatever ends the script ----
complaint = "iclab: device opencl: no OpenCL device on this machine"
code, complaint = imitated(["update adam (1)", {"complaint": complaint, "code": 3}])
is_one_line = (code, complaint.count("\n")) == (3, 1) and "says what was looked for" in complaint
ok(is_one_line, "no device: one line", complaint)
verdict("devices", "not run", "no OpenCL device on this machine")
for number, expected in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
    pid.unlink(missing_ok=True)
    report.unlink(missing_ok=True)
    answers.write_text(json.dumps([["copy (32Mi)", {"deaf": str(pid)}], *GOOD]), encoding="utf-8")
    command = [script, "--out", report, "--iclab", iclab]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(environment(), PATH=os.environ["PATH"]))
    while not pid.exists() or not pid.read_text():
        time.sleep(0.05)
    process.send_signal(number)
    ok(process.wait() == expected, f"ended by {signal.Signals(number).name}: {process.returncode}")
    verdict("peaks", *(("not run", "interrupted") if number == signal.SIGTERM else ("running",)))
    verdict("conformance", "passed", "2 cases")
    ok(number == signal.SIGKILL or is_killed(pid), "what runs is ended, too")
    if number == signal.SIGKILL:
        os.kill(int(pid.read_text()), signal.SIGKILL)
ok(not re.search(r"/\S*report-\w+|somebody-else", report.read_text()), "the report names no folder of this machine")
done()

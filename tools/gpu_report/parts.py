"""The parts of the report, in the order of their value. Each asks `iclab` and says what it saw."""

import glob
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

from gpu_report.document import FAILED, TIMED_OUT, Table, block, escape, fold, number, table
from gpu_report.lab import NoDevice, NotRun, ratio

HERE = pathlib.Path(__file__).resolve().parent
# Data sheets: what a device's name holds, fp32 TFLOP/s without tensor cores, GB/s of memory.
SHEETS = (
    ("H200", 67, 4800), ("GH200", 67, 4000), ("H100 PCIe", 51, 2000), ("H100 NVL", 60, 3900), ("H100", 67, 3350),
    ("B200", 80, 8000), ("A100-SXM4-80GB", 19.5, 2039), ("A100 80GB PCIe", 19.5, 1935), ("A100", 19.5, 1555),
    ("L40S", 91.6, 864), ("L4", 30.3, 300), ("A10", 31.2, 600), ("V100", 15.7, 900), ("T4", 8.1, 320),
    ("RTX 4090", 82.6, 1008), ("RTX 3090", 35.6, 936), ("MI300X", 163.4, 5300), ("gfx942", 163.4, 5300),
    ("gfx90a", 47.9, 3277), ("RX 7900 XTX", 61.4, 960), ("Arc(TM) A770", 19.7, 560),
)

# The ways to open a device, and the product that compiles CLBlast.
PRODUCT = "matmul (43008x21)(21x21)"
WAYS = (
    ("as iclab opens it", ()), ("own matrix products", ("--gemm", "native")),
    ("CLBlast's matrix products", ("--gemm", "clblast")), ("relaxed arithmetic", ("--fast-math",)),
)
UNLISTED = r"driver (/.+) is on this machine, but no \.icd file names it"  # in what `iclab devices` says
FAULT = "iclab-output_left_unwritten"  # a command whose kernel leaves the last row of a block unwritten


def op(name):
    return ("--op", name)


def step(recipe, **keys):
    return ("--recipe", recipe, *(word for key, value in keys.items() for word in ("--set", f"{key}={value}")))


def versatile(d, sampler, batch):
    keys = {"task.d": d, "task.n": 20, "task.sampler": sampler, "train.batch": batch}
    return step("versatile", **keys)


GRADIENT = "linear_transformer gradient full L 4 d 20 gram (2048)"
RECURRENCE = "recurrence forward gated delta T {}"
GEMM = {"own kernel": "gemm=native", "CLBlast": "gemm=clblast", "CLBlast, A100's": "gemm=clblast,clblast=a100"}
TEAMS = {f"{count} groups a unit": f"teams={count}" for count in (8, 16, 32, 64, 128)}
TILES = {"narrow": "gemm=native,tiles=narrow", "wide": "gemm=native,tiles=wide"}
LINEAR = {"interpreter": "linear=steps", "straight lines": "linear=straight"}
WALKS = {"tokens": "recurrence=tokens", "chunks": "recurrence=chunks"}
# The table of src/backend/opencl/choices.c decides each: the case, and its ways.
CHOICES = (
    (op(GRADIENT), LINEAR), (versatile(10, "gram", 2048), LINEAR), (versatile(20, "tokens", 2048), LINEAR),
    (op(RECURRENCE.format("64 d 16")), WALKS), (op(RECURRENCE.format("256 d 32")), WALKS),
    (op(RECURRENCE.format("1024 d 64")), WALKS),
    (op("matmul (1024x1024)(1024x1024)"), GEMM), (op(PRODUCT), GEMM), (op("matmul (21x43008)(43008x21)"), GEMM),
    (op("matmul batch 2048 (21x21)(21x21)"), GEMM), (op("matmul (1024x1024)(1024x1024)"), TILES),
    (op(GRADIENT), TEAMS), (op("attention softmax forward n 1024 d 64"), TEAMS), (op("unary exponential"), TEAMS),
    (step("sequence"), {"collected": "collect=on", "launched alone": "collect=off"}),
)
BATCHES = (256, 1024, 4096, 16384, 65536)
SEQUENCE_MODELS = ("sequence", "recall", "fastweight", "garg", "mesa")


# ---- The machine ----


def output_of(*command):
    """What the command prints, or nothing where it is not there, fails or hangs."""
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def facts(lab):
    """Markdown about the machine: a table, and what the system and the vendor's tools say of drivers."""
    device = next((row for row in lab.devices if row.get("spec") == lab.device), {})
    release = pathlib.Path("/etc/os-release")
    named = re.search(r'^PRETTY_NAME="?([^"\n]*)', release.read_text() if release.exists() else "", re.MULTILINE)
    system = named[1] if named else platform.system()
    rows = {"iclab": lab.version, "system": f"{system}, {platform.release()} {platform.machine()}"}
    rows["processors"] = str(os.cpu_count())
    rows["driver files"] = ", ".join(glob.glob("/etc/OpenCL/vendors/*.icd")) or "none in /etc/OpenCL/vendors"
    rows["OCL_ICD_VENDORS"] = lab.environment.get("OCL_ICD_VENDORS", "not set")
    rows.update((key, f"{value:,}" if type(value) is int else str(value)) for key, value in device.items())
    blocks = [table("fact,value", [[escape(name), escape(value)] for name, value in rows.items()])]
    query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,compute_cap"
    for command in (("nvidia-smi", query, "--format=csv"), ("rocm-smi",), ("clinfo",), ("ldconfig", "-p")):
        lines = output_of(*command).splitlines()
        if command[0] == "ldconfig":
            lines = [
                line for line in lines if re.search(r"opencl|nvidia|libcuda\.|amdocl|igdrcl|pocl|vulkan", line, re.I)
            ]
        if lines:
            blocks.append(fold(" ".join(command), block("\n".join(lines[:400]))))
    return blocks


# ---- Does it compute rightly? ----


def offer_drivers(lab, libraries):
    """Makes a folder of .icd files of ours: those of the system, and one for each library that has none."""
    folder = lab.folder / "vendors"
    folder.mkdir()
    for path in glob.glob("/etc/OpenCL/vendors/*.icd"):
        shutil.copy(path, folder)
    for i, library in enumerate(libraries):
        (folder / f"offered{i}.icd").write_text(library + "\n", encoding="utf-8")
    lab.environment["OCL_ICD_VENDORS"] = str(folder)
    lab.say(f"No .icd file names {', '.join(map(escape, libraries))}: this script offers them to the loader.")


def resolve_device(lab):
    """The device as P.D, by what `compare` opens: it alone opens one that fails its self-test. A device that hangs or
    crashes keeps the spec that was given: the parts will show it."""
    limits = ("--op", "update adam (1)", "--json")
    answer = lab.run([lab.iclab, "compare", "--device", lab.device, *limits], lab.left())
    if answer.code in (2, 3) and re.search(r"no such device|no OpenCL|expected auto", answer.complaints):
        raise NoDevice(answer.problem().partition(": ")[2])
    found = re.search(r"device (opencl:\d+\.\d+): ", answer.complaints)
    lab.device = found[1] if found else lab.device


def devices(lab, part):
    """All devices, each with the verdict of its self-test, and what `iclab devices` says of drivers."""
    answer = lab.ask("devices", "--json")
    unlisted = re.findall(UNLISTED, answer.complaints)
    if unlisted:
        offer_drivers(lab, unlisted)
        answer = lab.ask("devices", "--json")
    lab.devices = answer.rows("spec")
    if answer.complaints.strip():
        lab.say(block(answer.complaints))
    resolve_device(lab)
    rows = []
    for device in lab.devices:
        verdict = "usable" if device["usable"] else "**REFUSED**"
        words = (device["spec"], device["name"], device["kind"], device["platform"])
        rows.append([*map(escape, words), verdict, escape(device["verdict"])])
    lab.say(table("spec,name,kind,platform,verdict,self-test", rows))
    refused = [device["spec"] for device in lab.devices if not device["usable"]]
    part.note = part.note or f"{len(rows)} devices, {len(refused)} refused"
    own = [device for device in lab.devices if device["spec"] == lab.device]
    own = own or [device for device in lab.devices if device["kind"] != "host"]  # none could be opened to name it
    if own and not any(device["usable"] for device in own):
        part.worsen(FAILED, f"{', '.join(device['spec'] for device in own)}: {own[0]['verdict']}")


def self_test(lab, part):
    """The self-test in each way in which the device can be opened, and a product there. Kernels are compiled anew."""
    rows = []
    for title, options in WAYS:
        if "clblast" in options and "CLBlast" not in lab.version:
            continue
        answer = lab.ask("bench", "--device", lab.device, *options, *op(PRODUCT), "--on-request")  # and no request
        problem = answer.problem()
        rows.append([title, f"**{escape(problem)}**" if problem else "passed", f"{answer.seconds:.1f}"])
    lab.say(table("device opened,verdict,#whole command in s", rows))
    part.note = part.note or f"passed in {len(rows)} ways of opening the device"


def judge(lab, part, seed, limit):
    """Runs `compare` for LIMIT seconds: one row an op, and each failure in full."""
    limits = ("--seconds", f"{max(1, limit):.0f}", "--seed", seed)
    answer = lab.ask("compare", "--device", lab.device, "--against", "cpu", *limits, "--json", allowed=(0, 1))
    cases, summary = answer.rows("op"), answer.rows("summary")
    rows = []
    for name in dict.fromkeys(case["op"] for case in cases):
        own = [case for case in cases if case["op"] == name]
        failed = sum(case["verdict"] == "FAIL" for case in own)
        judged = [case["error_over_bound"] for case in own if case["verdict"] != "SKIP"]
        worst = max((float("inf") if found is None else found for found in judged), default=None)
        equal = [case["bit_equal"] for case in own if case["bit_equal"] is not None]
        cells = [f"**{name}**" if failed else name, str(len(own)), str(failed), number(worst, 6)]
        rows.append([*cells, f"{100 * min(equal):.1f}" if equal else "–"])
    titles = "op,#cases,#failed,#largest error / bound,#bits equal to cpu's at least %"
    lab.say(fold(f"{len(rows)} ops, {len(cases)} cases", table(titles, rows)))
    failures = [case for case in cases if case["verdict"] == "FAIL"]
    if failures:
        lab.say(block("\n".join(f"{case['reason']}\n    {case['repro']}" for case in failures)))
        named = ", ".join(sorted({case["op"] for case in failures}))
        part.worsen(FAILED, f"{len(failures)} of {len(cases)} cases failed: {named}")
    if not (summary and cases) and not answer.problem((0, 1)):
        part.worsen(FAILED, f"compare did not come to its end; {len(cases)} cases were judged")
    elif not summary:
        part.note += f"; {len(cases)} cases were judged"
    else:
        end = summary[0]["summary"]
        worst = f"largest error {number(end['worst'], 6)} of its bound"
        part.note = part.note or f"{len(cases)} cases of {len(rows)} ops, {worst}; {end['left_out']} had no turn"


def conformance(lab, part):
    """A sample of the cases, spread over all ops: the exact result and a proved bound, twice, with the same bits. An
    error of at most 1 bound is rounding."""
    judge(lab, part, 0, 0.7 * lab.left())


def other_values(lab, part):
    """Conformance in the time that is left, with other values."""
    judge(lab, part, 1, lab.left() - 10)


def planted_fault(lab, part):
    """Does conformance notice a wrong kernel on this device? A second iclab leaves the last row of a block unwritten in
    linear attention."""
    places = (lab.iclab.parent.parent / "libexec" / FAULT, lab.iclab.parent.parent / "tests" / "mutation" / FAULT)
    program = next((path for path in places if path.exists()), None)
    if not program:
        raise NotRun("no faulty command beside this iclab")
    arguments = ("compare", "--device", lab.device, "--against", "cpu", *op("linear forward"), "--json")
    answer = lab.ask(*arguments, "--seconds", f"{max(1, 0.6 * lab.left()):.0f}", program=program, allowed=(0, 1))
    named = sorted({case["op"] for case in answer.rows("op") if case["verdict"] == "FAIL"})
    part.note = part.note or "the fault was noticed"
    if not answer.problem((0, 1)) and named != ["attention_forward"]:
        part.worsen(FAILED, f"expected failures of attention_forward alone, found {', '.join(named) or 'none'}")


# ---- How fast is it? No time is judged. ----


def peaks(lab, part):
    """Multiply-adds in registers, a = b + s c and a copy in memory, beside the data sheet."""
    answer = lab.ask("bench", "--device", lab.device, *op("copy (32Mi)"), "--seconds", "0.5", "--json")
    device = next((row for row in lab.devices if row.get("spec") == lab.device), {"name": ""})
    sheet = next((row for row in SHEETS if row[0] in device["name"]), None)
    rows = []
    for row in answer.rows("median_s"):
        is_compute = row["gflops"] is not None
        rate, unit = (row["gflops"], "GFLOP/s") if is_compute else (row["gbytes_per_s"], "GB/s")
        stated = (1e3 * sheet[1] if is_compute else sheet[2]) if sheet else None
        share = number(100 * rate / stated, 2) if stated else "–"
        rows.append([escape(row["case"]), number(rate), unit, number(stated), share])
        lab.peaks[unit] = max(lab.peaks.get(unit, 0), rate)
    lab.say(table("loop,#rate,unit,#data sheet,#share in %", rows))
    part.note = part.note or "; ".join(f"{row[0]} {row[1]} {row[2]}" for row in rows)


def ops(lab, part):
    """Each op of `bench`: operations by the textbook, every operand's bytes once, and the larger share of the two peaks
    that were measured above."""
    rows = []
    for row in lab.ask("bench", "--device", lab.device, "--seconds", "0.2", "--json").rows("median_s"):
        if row["case"].startswith("peak"):
            continue
        rates = ((row["gflops"], "GFLOP/s"), (row["gbytes_per_s"], "GB/s"))
        shares = [100 * rate / lab.peaks[unit] for rate, unit in rates if rate and lab.peaks.get(unit)]
        cells = [escape(row["case"]), number(1e3 * row["median_s"]), *(number(rate) for rate, _ in rates)]
        cells += [number(max(shares, default=None)), number(row["launches"]), number(row["compile_s"])]
        rows.append([*cells, number(row["times_cpu"])])
    titles = "case,#median in ms,#GFLOP/s,#GB/s,#of peak in %,#launches,#compile in s,#times as fast as cpu"
    lab.say(table(titles, rows))
    part.note = f"{part.note + '; ' if part.note else ''}{len(rows)} cases were measured"


def choices(lab, part):
    """The choices that only times decide (src/backend/opencl/choices.c): each way of a case and iclab's own choice take
    turns. Ratios are medians over the rounds, to iclab's own choice."""
    own = "iclab's choice"
    shown = Table("case,#iclab's choice in ms,how many times as fast as iclab's choice")
    lab.say(shown)
    for arguments, ways in CHOICES:
        if lab.left() < 5:
            part.worsen(TIMED_OUT, f"{len(lab.verdicts)} of {len(CHOICES)} choices were measured")
            break
        case = " ".join(word for word in arguments if not word.startswith("--"))
        bench = ("--device", lab.device, *arguments)
        times = lab.contest({own: (bench, ""), **{name: (bench, text) for name, text in ways.items()}})
        if own not in times or len(times) == 1:
            lab.grow(shown, [escape(case), "–", "did not run or end in time"])
            continue
        ratios = {name: ratio(times[name], times[own]) for name in ways if name in times}
        best = max(ratios, key=ratios.get)
        own_ms = number(1e3 * sorted(times[own])[len(times[own]) // 2])
        gain = f"**{escape(best)}** (`{ways[best]}`) is {number(ratios[best])} times as fast as iclab's choice"
        stands = "" if ratios[best] >= 1.05 else ", which stands"
        lab.verdicts.append(f"{escape(case)}: {gain}{stands}")
        listed = ", ".join(f"{name} {number(value)}" for name, value in ratios.items())
        lab.grow(shown, [escape(case), own_ms, listed])
    if not lab.verdicts and lab.left() >= 5:
        part.worsen(FAILED, "no choice was measured")
    part.note = part.note or f"{len(lab.verdicts)} of {len(CHOICES)} choices were measured"


def steps(lab, part):
    """Whole training steps (sampling, predictions, gradient, update): four full layers with 20 labelled pairs by batch,
    then sequence models as their recipes have them. The device and cpu take turns up to 4,096 sequences."""
    settings = [
        (f"d {d}, {sampler}", batch, versatile(d, sampler, batch))
        for d, sampler in ((10, "gram"), (20, "gram"), (10, "tokens"), (20, "tokens"))
        for batch in BATCHES
    ]
    settings = [(name, None, step(name)) for name in SEQUENCE_MODELS[:2]] + settings
    settings += [(name, None, step(name)) for name in SEQUENCE_MODELS[2:]]
    shown = Table("step,#batch,#median in ms,#million sequences / s,#times as fast as cpu")
    lab.say(shown)
    measured = 0
    for name, batch, arguments in settings:
        if lab.left() < 3:
            part.worsen(TIMED_OUT, f"{measured} of {len(settings)} settings were measured")
            break
        contenders = {"device": (("--device", lab.device, *arguments), "")}
        if not batch or batch <= 4096:
            contenders["cpu"] = (("--device", "cpu", *arguments), "")
        times = lab.contest(contenders)
        if "device" not in times:
            lab.grow(shown, [name, number(batch), "did not run or end in time", "–", "–"])
            continue
        seconds = sorted(times["device"])[len(times["device"]) // 2]
        measured += 1
        faster = number(ratio(times["device"], times["cpu"])) if "cpu" in times else "–"
        rate = number(batch / seconds / 1e6) if batch else "–"
        lab.grow(shown, [name, f"{batch:,}" if batch else "–", number(1e3 * seconds), rate, faster])
    if not measured and lab.left() >= 3:
        part.worsen(FAILED, "no step was measured")
    part.note = part.note or f"{measured} of {len(settings)} settings were measured"


def peer_python(lab):
    """A Python that has PyTorch and NumPy, and the environment in which it finds the package iclab."""
    own = os.environ.get("ICLAB_PEERS", HERE.parent.parent / "build" / "peers")
    for python in (f"{own}/bin/python", "python3", "python"):
        if shutil.which(python) and lab.run([python, "-c", "import torch, numpy"], min(60, lab.left())).code == 0:
            break
    else:
        raise NotRun("no Python here has PyTorch and NumPy")
    wheel = next(iter(sorted(HERE.parent.parent.glob("*.whl"))), None)
    package = lab.folder / "package"
    if wheel:
        shutil.unpack_archive(wheel, package, "zip")
        (package / "iclab" / "_native" / "bin" / "iclab").chmod(0o755)
    else:
        lab.environment["ICLAB_LIBRARY"] = str(lab.iclab.parent.parent / "libiclab.so")
        package = HERE.parent / "python"
    lab.environment["PYTHONPATH"] = str(package)
    return shutil.which(python)


def peers(lab, part):
    """PyTorch on the same card, and what it brings (Triton through torch.compile; fla where it is installed), beside
    iclab, all taking turns. The error is the largest difference from double precision, relative to the largest
    element."""
    answer = lab.ask(HERE / "peers.py", lab.device, f"{0.8 * lab.left():.0f}", program=pathlib.Path(peer_python(lab)))
    found = answer.rows("contender")
    rows = [
        [
            escape(row["case"]),
            escape(row["contender"]),
            row["on"],
            number(row["ms"]),
            number(row["times_iclab"]),
            number(row["error"]),
        ]
        for row in found
    ]
    lab.say(table("case,contender,on,#median in ms,#times of iclab's,#error", rows))
    for row in answer.rows("unavailable"):
        lab.say(f"Not measured: {escape(row['unavailable'])}.")
    part.note = part.note or f"{len(rows)} contenders in {len({row['case'] for row in found})} cases"


def training(lab, part):
    """The recipe `versatile`, cut to 2,000 steps, with its table: errors on fresh sequences, the same for all. The
    model must be better than ridge regression with one constant: it has learned to adapt to the noise."""
    folder = lab.folder / "trained"
    keys = ("--set", "train.steps=2000", "--device", lab.device, "--out", folder)
    rows = lab.ask("train", "versatile", *keys, "--json").rows("predictor")
    if not rows:
        return
    values = ("mse", "se", "half_adjusted", "half_adjusted_se")
    cells = [[escape(row["predictor"]), *(number(row[key], 4) for key in values)] for row in rows]
    lab.say(table("predictor,#mse,#se,#half adjusted,#se of it", cells))
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    named = {row["predictor"]: row for row in rows}
    model, ridge = named["model"]["adjusted"], named["constrr"]["adjusted"]
    outcome = f"{run['steps']} steps in {number(run['training_seconds'])} s, {run['skipped_steps']} skipped, "
    outcome += f"mse {number(named['model']['mse'], 4)}"
    if model is None or not model < ridge:
        part.worsen(FAILED, f"{outcome}: the model is no better than ridge regression with one constant")
    part.note = part.note or outcome


# Title, the largest share of the time, whether a run that is late fails the report, and the function.
ALL = (
    ("devices", 0.2, True, devices), ("self-test", 0.3, True, self_test), ("conformance", 0.14, True, conformance),
    ("planted fault", 0.15, True, planted_fault), ("peaks", 0.15, True, peaks), ("ops", 0.15, False, ops),
    ("choices", 0.2, False, choices), ("steps", 0.15, False, steps), ("peers", 0.2, False, peers),
    ("training", 0.15, False, training), ("conformance with other values", 1, False, other_values),
)

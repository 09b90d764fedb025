"""Parts that ask whether the device computes rightly."""

from gpu_report import document
from gpu_report.document import FAILED, escape, number, table
from gpu_report.lab import NotRun

# Faults that the build plants in the kernels (tests/mutation/meson.build), of those that cannot make a kernel leave its
# buffers: name of the program, what is wrong, the op that must be named, the cases that are run.
FAULTS = (
    ("iclab-sum_in_plain_order", "a sum in plain order instead of the fixed tree: rounding alone", "reduce", "sum ("),
    ("iclab-output_left_unwritten", "the last row of a block is not written", "attention_forward", "linear forward"),
)
# Ways to open a device, and a product as the first work there, which has CLBlast compiled.
PRODUCT = "matmul (43008x21)(21x21)"
WAYS = (
    ("as iclab opens it", ()),
    ("own matrix products", ("--gemm", "native")),
    ("CLBlast's matrix products", ("--gemm", "clblast")),
    ("relaxed arithmetic", ("--fast-math",)),
)


def devices(lab, part):
    """All devices, each with the verdict of its self-test."""
    lab.devices = lab.ask(part, "devices", "--json").rows()
    rows = []
    for device in lab.devices:
        verdict = "usable" if device["usable"] else "**REFUSED**"
        name, platform = escape(device["name"]), escape(device["platform"])
        rows.append([device["spec"], name, device["kind"], platform, verdict, escape(device["verdict"])])
    header = ("spec", "name", "kind", "platform", "verdict", "self-test")
    part.say(table([(title, False) for title in header], rows))
    refused = [device["spec"] for device in lab.devices if not device["usable"]]
    part.note = part.note or f"{len(rows)} devices, {len(refused)} refused"
    if lab.device in refused:
        part.worsen(FAILED, f"{lab.device} is refused by its self-test")


def self_test(lab, part):
    """The self-test in each way in which the device can be opened, and a product there. Kernels are compiled anew."""
    rows = []
    for title, options in (WAYS[0], WAYS[-1]) if lab.quick else WAYS:
        if "clblast" in options and "CLBlast" not in lab.version:
            rows.append([title, "not run: built without CLBlast", "–"])
            continue
        answer = lab.ask(
            part, "bench", "--device", lab.device, *options, "--op", PRODUCT, "--seconds", "0", "--json", "--quiet"
        )
        problem = answer.problem()
        rows.append([title, f"**{escape(problem)}**" if problem else "passed", f"{answer.seconds:.1f}"])
    header = [("device opened", False), ("verdict", False), ("whole command, s", True)]
    part.say(table(header, rows))
    part.note = part.note or f"passed in {sum(row[1] == 'passed' for row in rows)} ways of opening the device"


def judge_cases(part, answer):
    """Verdicts of `compare --json`: one row an op, and each failure in full."""
    cases = [row for row in answer.rows() if "op" in row]
    end = next((row["summary"] for row in answer.rows() if "summary" in row), None)
    ops = {}
    for case in cases:
        ops.setdefault(case["op"], []).append(case)
    rows = []
    for op, own in ops.items():
        count = {verdict: sum(case["verdict"] == verdict for case in own) for verdict in ("FAIL", "SKIP", "MISTRUSTED")}
        judged = [case for case in own if case["verdict"] != "SKIP"]
        ratios = [float("inf") if case["error_over_bound"] is None else case["error_over_bound"] for case in judged]
        equal = [case["bit_equal"] for case in judged if case["bit_equal"] is not None]
        rows.append(
            [
                f"**{op}**" if count["FAIL"] else op,
                str(len(own)),
                str(count["FAIL"]),
                str(count["SKIP"]),
                str(count["MISTRUSTED"]),
                number(max(ratios, default=None), 6),
                f"{100 * min(equal):.1f}" if equal else "–",
            ]
        )
    header = (
        "op",
        "cases",
        "failed",
        "skipped",
        "mistrusted",
        "largest error / bound",
        "bits equal to cpu's, least, %",
    )
    part.say("An error of at most 1 bound is rounding. Mistrusted: within bounds, but a stuck output could look right.")
    part.fold(f"{len(ops)} ops, {len(cases)} cases", table([(title, title != "op") for title in header], rows))
    failures = [case for case in cases if case["verdict"] == "FAIL"]
    if failures:
        lines = [f"{case['reason']}\n    {case['repro']}" for case in failures]
        part.say(f"{len(failures)} cases failed:", document.block("\n".join(lines)))
        named = ", ".join(sorted({case["op"] for case in failures}))
        part.worsen(FAILED, f"{len(failures)} of {len(cases)} cases failed: {named}")
    if end is None or not cases:
        part.worsen(FAILED, f"compare did not come to its end; {len(cases)} cases were judged")
    elif not part.note:
        part.note = (
            f"{len(cases)} cases, {end['skipped']} skipped, largest error {number(end['worst'], 6)} of its bound"
        )


def conformance(lab, part):
    """Every op by the exact result and a proved bound, twice, with the same bits each time."""
    pattern = ["--op", "update"] if lab.quick else []
    answer = lab.ask(part, "compare", "--device", lab.device, "--against", "cpu", "--json", *pattern, allowed=(0, 1))
    judge_cases(part, answer)


def mutation(lab, part):
    """Does conformance notice a wrong kernel on this device? Each program is iclab with a fault in one kernel."""
    folder = lab.iclab.parent.parent / "tests" / "mutation"
    if not any((folder / name).exists() for name, *_ in FAULTS):
        raise NotRun("no faulty kernels beside this iclab: expected a build folder with its tests")
    rows = []
    for name, fault, op, cases in FAULTS:
        program = folder / name
        arguments = ("compare", "--device", lab.device, "--against", "cpu", "--op", cases, "--json", "--quiet")
        answer = lab.ask(part, *arguments, program=program, allowed=(0, 1))
        failed = [row for row in answer.rows() if row.get("verdict") == "FAIL"]
        named = sorted({row["op"] for row in failed})
        verdict = answer.problem((0, 1))
        if not verdict:
            verdict = "noticed" if answer.code == 1 and named == [op] else "**not noticed**"
        rows.append([fault, op, str(len(failed)), ", ".join(named) or "none", verdict])
        if verdict == "**not noticed**":
            part.worsen(FAILED, f"{name}: expected failures of {op} alone, found {', '.join(named) or 'none'}")
    header = [("planted fault", False), ("op", False), ("failed cases", True), ("ops named", False), ("verdict", False)]
    part.say(table(header, rows))
    part.note = part.note or f"{len(FAULTS)} of {len(FAULTS)} planted faults noticed"

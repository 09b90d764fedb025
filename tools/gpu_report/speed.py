"""Parts that measure how fast the device is. No time is judged."""

import os
import pathlib

from gpu_report import machine
from gpu_report.document import TIMED_OUT, escape, number, table
from gpu_report.lab import NotRun

BATCHES = (256, 1024, 4096, 16384, 65536)
TURNS = 12  # no fewer calls than `iclab bench` makes of a case on a device, for a guess of how long it takes


def milliseconds(seconds):
    return number(None if seconds is None else 1e3 * seconds)


def share(row):
    return number(None if row["peak_share"] is None else 100 * row["peak_share"])


def rate(row):
    """Millions of sequences in a second."""
    return row["batch"] / row["median_s"] / 1e6


def expected_seconds(row, growth):
    """How long a case takes that is GROWTH times as large as the measured one, on the device and on plain C."""
    return TURNS * growth * (row["median_s"] + (row["cpu_median_s"] or 0))


GBYTES = ("GB/s", lambda row: number(row["gbytes_per_s"]))
# What every table of measured cases has.
RATES = (
    ("GFLOP/s", lambda row: number(row["gflops"])),
    ("share of peak, %", share),
    ("driver's clock, ms", lambda row: milliseconds(row["kernels_s"])),
    ("launches", lambda row: "–" if row["launches"] is None else f"{row['launches']:.0f}"),
    ("compile, s", lambda row: number(row["compile_s"])),
    ("times as fast as cpu", lambda row: number(row["times_cpu"])),
)


def measured_table(rows, columns, texts):
    """COLUMNS: titles and what a row has there, numbers but for those in TEXTS."""
    titles = [(title, title not in texts) for title, _ in columns]
    return table(titles, [[cell(row) for _, cell in columns] for row in rows])


def bench_table(rows):
    first = [("case", lambda row: escape(row["case"])), ("median, ms", lambda row: milliseconds(row["median_s"]))]
    return measured_table(rows, [*first, RATES[0], GBYTES, *RATES[1:]], ["case"])


def without_peaks(rows):
    return [row for row in rows if not row["case"].startswith("peak")]


def measured_rows(answer):
    return [row for row in answer.rows() if "case" in row and "median_s" in row]


def long_attention(lab, part, rows):
    """Softmax attention over 1024 and 4096 tokens, which bench runs by name alone, where that ends in time."""
    known = [row for row in rows if "attention softmax" in row["case"] and " n 256 " in row["case"]]
    for tokens in (1024, 4096):
        growth = (tokens / 256) ** 2
        if not known or sum(expected_seconds(row, growth) for row in known) > lab.left():
            part.say(f"Softmax attention over {tokens} tokens was left out: it would not end in time.")
            continue
        answer = lab.ask(part, "bench", "--device", lab.device, "--op", f"n {tokens} d 64", "--json", "--quiet")
        rows += without_peaks(measured_rows(answer))


def products(lab, part, rows):
    """The products again, by each implementation, since `auto` shows one of them."""
    for gemm in ("native", "clblast"):
        if gemm == "clblast" and "CLBlast" not in lab.version:
            continue
        answer = lab.ask(part, "bench", "--device", lab.device, "--gemm", gemm, "--op", "matmul (", "--json", "--quiet")
        rows += [dict(row, case=f"{row['case']}, {gemm}") for row in without_peaks(measured_rows(answer))]


def bench(lab, part):
    """Ops alone: the median over turns, operations counted by the textbook, and the larger share of the device's two
    measured peaks."""
    options = ["--op", "update", "--seconds", "0"] if lab.quick else []
    rows = measured_rows(lab.ask(part, "bench", "--device", lab.device, "--json", "--quiet", *options))
    peaks = [row for row in rows if row["case"].startswith("peak")]
    if not lab.quick:
        products(lab, part, rows)
        long_attention(lab, part, rows)
    part.say(bench_table(rows))
    rates = [(row["gflops"], "GFLOP/s") if row["gflops"] else (row["gbytes_per_s"], "GB/s") for row in peaks]
    measured = ", ".join(f"{number(value)} {unit}" for value, unit in rates)
    part.note = part.note or f"{len(rows) - len(peaks)} cases; measured peaks {measured}"


def steps_of(lab, part, d, sampler, end, rows):
    """Steps with one setting, batch by batch, while there is time. END: seconds to leave for other settings."""
    last = None
    for batch in BATCHES[:2] if lab.quick else BATCHES:
        growth = batch / last["batch"] if last else 1
        if lab.left() < end or (last and expected_seconds(last, growth) > lab.left() - end):
            part.worsen(TIMED_OUT, f"d {d}, {sampler}: batches of {batch} and more would not have ended in time")
            return
        keys = {
            "task.d": d,
            "task.n": 20,
            "task.sampler": sampler,
            "model.layers": 4,
            "model.parameterization": "full",
            "train.batch": batch,
        }
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        seconds = ["--seconds", "0"] if lab.quick else []
        answer = lab.ask(
            part, "bench", "--device", lab.device, "--recipe", "versatile", *settings, *seconds, "--json", "--quiet"
        )
        found = without_peaks(measured_rows(answer))
        if not found:
            return
        last = dict(found[0], batch=batch, d=d, sampler=sampler)
        rows.append(last)
        if (d, sampler) == (10, "tokens"):
            lab.rate = 1e6 * rate(last)


def steps(lab, part):
    """Whole training steps (sampling, predictions, gradient, update) of four full layers with 20 labelled pairs, by
    batch size. The sampler draws every token or the Gram matrix alone."""
    settings = [(10, "gram"), (20, "gram"), (10, "tokens"), (20, "tokens")]
    rows = []
    for i, (d, sampler) in enumerate(settings):
        steps_of(lab, part, d, sampler, lab.left() * (1 - 1 / (len(settings) - i)), rows)
    columns = [
        ("d", lambda row: str(row["d"])),
        ("sampler", lambda row: row["sampler"]),
        ("batch", lambda row: f"{row['batch']:,}"),
        ("step, ms", lambda row: milliseconds(row["median_s"])),
        ("million sequences / s", lambda row: number(rate(row))),
        *RATES,
    ]
    part.say(measured_table(rows, columns, ["sampler"]))
    fastest = max(rows, key=rate, default=None)
    if fastest and not part.note:
        where = f"d {fastest['d']}, {fastest['sampler']}, batch {fastest['batch']:,}"
        part.note = f"{len(rows)} settings; at most {number(rate(fastest))} million sequences / s ({where})"


def peers(lab, part):
    """iclab beside PyTorch and JAX, all taking turns. Peers run on the device that they choose themselves."""
    python = pathlib.Path(os.environ.get("ICLAB_PEERS", machine.ROOT / "build" / "peers")) / "bin" / "python"
    if not python.exists():
        raise NotRun("PyTorch and JAX are not installed: tools/peers/setup installs them")
    if lab.quick:
        raise NotRun("left out by --quick")
    common = [
        "--devices",
        f"cpu,{lab.device}",
        "--rounds",
        "3",
        "--seconds",
        "0.3",
        "--iclab",
        lab.iclab,
        "--python",
        python,
    ]
    tables = 0
    for case in (["step"], ["attention", "--length", "1024"]):
        answer = lab.ask(part, *case, *common, program=machine.ROOT / "tools" / "peers" / "compare")
        part.say(answer.output)
        tables += answer.problem() is None
    part.note = part.note or f"{tables} comparisons"

"""Parts that train."""

import hashlib
import json

from gpu_report.document import FAILED, PASSED, TIMED_OUT, escape, number, table

# Variants of a step: title, keys. Together they run the fused kernels in both spaces, and every op of the tape.
VARIANTS = (
    ("every token drawn", ()),
    ("Gram sampler", ("task.sampler=gram",)),
    ("small operations on the tape", ("model.space=composed",)),
)
STEPS, BATCH = 2000, 2048  # of the training that is judged
DIFFERENCES = (
    "forced_loss_difference",
    "forced_gradient_difference",
    "drift_loss",
    "drift_parameters",
    "against_drift_parameters",
)


def settings(*keys):
    return [word for key in keys for word in ("--set", key)]


def train(lab, part, device, name, *keys):
    """Rows of the final table, with the folder."""
    folder = lab.folder / name
    command = ["train", "versatile", "--device", device, *settings(*keys), "--out", folder, "--json", "--quiet"]
    return [row for row in lab.ask(part, *command).rows() if "predictor" in row], folder


def model_of(rows):
    return next(row for row in rows if row["predictor"] == "model")


def is_trained(rows):
    """Better than ridge regression with one regularizer for all sequences: it has learned to adapt to the noise."""
    adjusted = {row["predictor"]: row["adjusted"] for row in rows}
    return adjusted["model"] is not None and adjusted["model"] < adjusted["constrr"]


def affordable_steps(lab):
    """As many as end in two thirds of the part's time at the rate that the part before it measured, at least ten."""
    if not lab.rate:
        return STEPS
    return max(10, min(STEPS, int(lab.left() * 2 / 3 * lab.rate / BATCH)))


def training_table(rows, own, device):
    named = [
        dict(model_of(found), predictor=f"model, {name}") for found, name in ((rows, device), (own, "cpu")) if found
    ]
    named += [row for row in rows if row["predictor"] != "model"]
    header = [(title, title != "predictor") for title in ("predictor", "mse", "se", "half_adjusted", "se")]
    values = ("mse", "se", "half_adjusted", "half_adjusted_se")
    return table(header, [[escape(row["predictor"]), *(number(row[key], 4) for key in values)] for row in named])


def training(lab, part):
    """The recipe `versatile`, cut to 2,000 steps, on the device and on cpu, with its table: errors on fresh sequences,
    the same for all. The two models differ by what rounding grows to."""
    steps = 20 if lab.quick else affordable_steps(lab)
    keys = [f"train.steps={steps}"] + (["eval.sequences=1000"] if steps < STEPS else [])
    keys += ["train.batch=256"] if lab.quick else []
    rows, folder = train(lab, part, lab.device, "trained", *keys)
    own, _ = train(lab, part, "cpu", "trained-cpu", *keys)
    if not rows:
        return
    part.say(training_table(rows, own, lab.device))
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    outcome = f"{run['steps']} steps in {number(run['training_seconds'])} s, mse {number(model_of(rows)['mse'], 4)}"
    part.say(
        "tools/reference/command.md explains predictors and columns; se is the standard error of the column before it."
    )
    part.say(
        f"{outcome}. The first step had ended {number(run['startup_seconds'])} s after the start. Steps skipped for a "
        f"gradient that is not finite: {run['skipped_steps']}."
    )
    if lab.quick:
        outcome += ", not judged (--quick)"
    elif steps < STEPS:
        part.worsen(TIMED_OUT, f"{outcome}, not judged: {STEPS} steps would not have ended in time")
    elif not is_trained(rows):
        part.worsen(FAILED, "the model is no better than ridge regression with one constant")
    part.note = part.note or outcome


def repeatability(lab, part):
    """The same device and seed must give the same bits: 50 steps with batches of 256, twice."""
    keys = ("train.batch=256", "train.steps=20" if lab.quick else "train.steps=50", "eval.sequences=1000")
    sums = []
    for name in ("first", "second"):
        _, folder = train(lab, part, lab.device, name, *keys)
        model = folder / "model.safetensors"
        sums += [hashlib.sha256(model.read_bytes()).hexdigest()] if model.exists() else []
    part.say(f"SHA-256 of the models: {', '.join(f'`{value}`' for value in sums) or 'none was written'}.")
    if part.verdict != PASSED:
        return  # a run that was ended leaves a model too, of fewer steps
    if len(sums) < 2:
        part.worsen(FAILED, "a model was not written")
    elif sums[0] != sums[1]:
        part.worsen(FAILED, "two runs gave different bits")
    part.note = part.note or "two runs gave the same bits"


def training_compared(lab, part):
    """Training steps of `versatile` on the device, on cpu and in double precision, the reference. Forced steps start
    from the reference's state and are judged; in the free run all start alike, and drift apart by rounding alone."""
    rows = []
    for title, keys in VARIANTS:
        command = [
            "compare",
            "--device",
            lab.device,
            "--against",
            "cpu",
            "--train",
            "versatile",
            *settings("train.batch=256", *keys),
            "--steps",
            "2" if lab.quick else "10",
            "--json",
            "--quiet",
        ]
        answer = lab.ask(part, *command, allowed=(0, 1))
        found = [row["summary"] for row in answer.rows() if "summary" in row]
        if answer.code == 1:
            part.worsen(FAILED, f"{title}: forced steps lost half of their digits: iclab compare --train shows which")
        if not found:
            rows.append([title, *["–"] * 7])
            continue
        end = found[0]
        rows.append([title, str(end["forced_steps"]), str(end["failed"]), *(number(end[key]) for key in DIFFERENCES)])
    header = (
        "step",
        "forced steps",
        "failed",
        "forced: loss",
        "gradient",
        "free: loss",
        "parameters",
        "parameters, cpu",
    )
    part.say(
        "Largest relative differences from the reference:", table([(title, title != "step") for title in header], rows)
    )
    part.note = part.note or f"{len(rows)} kinds of step, {sum(int(row[1]) for row in rows)} forced steps, none failed"

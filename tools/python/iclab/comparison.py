"""Is it a bug or is it rounding? Every operation, or training steps, on two devices beside the truth."""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import Any

from . import _arguments as arguments
from . import _library as library
from ._devices import Device, call_on, open_device
from .recipes import Recipe, Source
from .tables import Table


class Comparison(Table):
    """A row for each case, or step. `passed`: none failed."""

    passed: bool


def compare(
    device: str | Device | None = None, against: str | Device = "cpu", *, op: str | None = None, seed: int = 0
) -> Comparison:
    """Runs the cases of every operation whose name holds `op` on both devices, and judges both by the exact result and
    its error bound: error / bound above 1 is a bug. The columns are those of `iclab compare --json`."""
    first, second = open_device(device), open_device(against)
    rows: list[dict[str, Any]] = []

    def receive(_user: int, address: int, _error: int) -> int:
        rows.append(_case(library.at("icl_comparison", address), first, second))
        return library.constants["ICL_OK"]

    kept = library.callback("icl_comparison_callback", "", receive)
    params = library.struct(
        "icl_compare_params",
        device=first.pointer,
        against=second.pointer,
        pattern=None if op is None else library.encoded(op),
        seed=arguments.seed("seed", seed),
        callback=library.address_of(kept),
    )
    summary = library.struct("icl_compare_summary")
    _run("icl_compare", params, summary, first, second)
    made = Comparison.from_rows(rows, f"{first.spec} and {second.spec}: {summary.cases} cases")
    assert isinstance(made, Comparison)
    made.passed = summary.verdicts[library.constants["ICL_VERDICT_FAIL"]] == 0
    return made


def compare_training(
    recipe: Source,
    device: str | Device | None = None,
    against: str | Device = "cpu",
    *,
    steps: int = 50,
    **overrides: Any,
) -> Comparison:
    """Training steps of a recipe on both devices and on `ref`, in double precision: forced (each step starts from the
    reference's state) and free. Differences are relative ones to the reference."""
    first, second, reference = open_device(device), open_device(against), open_device("ref")
    rows: list[dict[str, Any]] = []

    def receive(_user: int, address: int, _error: int) -> int:
        rows.append(_step(library.at("icl_step_comparison", address)))
        return library.constants["ICL_OK"]

    made = Recipe(recipe, **overrides)
    kept = library.callback("icl_step_callback", "", receive)
    params = library.struct(
        "icl_training_params",
        device=first.pointer,
        against=second.pointer,
        reference=reference.pointer,
        recipe=made.pointer,
        steps=arguments.count("steps", steps, 1, arguments.LARGEST_COUNT),
        callback=library.address_of(kept),
    )
    summary = library.struct("icl_training_summary")
    _run("icl_compare_training", params, summary, first, second, reference)
    comparison = Comparison.from_rows(rows, f"{made.name} on {first.spec} and {second.spec} beside ref")
    assert isinstance(comparison, Comparison)
    comparison.passed = summary.failed == 0 and not math.isnan(summary.failed)
    return comparison


def _run(function: str, params: Any, summary: Any, *devices: Device) -> None:
    """Takes the devices, each once and always in the same order, so that no two threads wait for each other."""
    with contextlib.ExitStack() as taken:
        chosen = sorted(set(devices), key=id)
        for device in chosen:
            taken.enter_context(device)
        call_on(chosen, function, ctypes.byref(params), ctypes.byref(summary))


def _case(case: Any, first: Device, second: Device) -> dict[str, Any]:
    return {
        "op": library.words(case.op),
        "case": library.words(case.name),
        "device": first.spec,
        "against": second.spec,
        "error_over_bound": case.device.error_over_bound,
        "against_error_over_bound": case.against.error_over_bound,
        "bit_equal": case.bit_equal,
        "verdict": library.words(library.function("icl_verdict_name")(case.verdict)),
        "reason": library.words(case.reason),
    }


def _step(step: Any) -> dict[str, Any]:
    mode = library.words(library.function("icl_training_mode_name")(step.mode))
    row: dict[str, Any] = {"mode": mode, "step": step.step, "reference_loss": step.reference_loss}
    for prefix, side in (("", step.device), ("against_", step.against)):
        for name in ("loss_difference", "gradient_difference", "parameter_difference"):
            row[prefix + name] = getattr(side, name)
    row["verdict"] = library.words(library.function("icl_verdict_name")(step.verdict))
    return row

"""Evaluations: a model beside the reference predictors on the same fresh sequences."""

from __future__ import annotations

import ctypes
import json
from typing import Any

from . import _library as library
from ._devices import Device, Handle, call_on
from .errors import InputError
from .recipes import Recipe
from .tables import Table


def evaluate(device: Device, trainer: Handle, recipe: Recipe) -> Handle:
    """The library's evaluation of a trainer's model. The caller has the device."""
    made = Handle("icl_evaluation_destroy")
    call_on([device], "icl_evaluate", device, trainer, recipe, made.slot)
    return made


class Evaluation(Table):
    """A row for each predictor, the model's first, with the columns of `iclab eval --json`. `positions` has a row for
    each predictor and scored position, where there are several; `lines` are the rows as JSON. str() is the command's
    table."""

    positions: Table
    sequences: int
    lines: list[str]
    _text: str

    @classmethod
    def of(cls, device: Device, trainer: Handle, recipe: Recipe) -> Evaluation:
        """Evaluates a trainer's model. The caller has the device."""
        handle = evaluate(device, trainer, recipe)
        return cls.from_library(handle.pointer)

    @classmethod
    def from_library(cls, pointer: ctypes.c_void_p) -> Evaluation:
        evaluation = library.at("icl_evaluation", pointer.value or 0)
        score = library.declared.struct("icl_score")
        scores = (score * evaluation.count).from_address(evaluation.scores)
        lines = [library.take_text("icl_score_json", ctypes.byref(one)) for one in scores]
        made = cls._of_rows([json.loads(line) for line in lines], evaluation.sequences)
        made.lines = lines
        made._text = library.take_text("icl_evaluation_table", pointer)
        return made

    @classmethod
    def of_result(cls, result: dict[str, Any]) -> Evaluation | None:
        """That of a run's result.json; None where it has none."""
        rows = [row for row in result.get("rows", []) if "predictor" in row]
        if not rows:
            return None
        if rows[0]["predictor"] != "model":
            raise InputError(f"result.json: {rows[0]['predictor']} stands first: expected the model's row")
        made = cls._of_rows(rows, result.get("summary", {}).get("sequences", 0))
        made.lines = [json.dumps(row) for row in rows]
        made._text = Table.__repr__(made)
        return made

    @classmethod
    def _of_rows(cls, given: list[dict[str, Any]], count: int) -> Evaluation:
        rows = [dict(row) for row in given]
        positions = [
            {"predictor": row["predictor"], **one} for row in rows for one in row.pop("positions", None) or ()
        ]
        made = cls.from_rows(rows, f"on {count:,} fresh sequences")
        assert isinstance(made, Evaluation)
        made.sequences, made.positions = count, Table.from_rows(positions)
        return made

    @property
    def model(self) -> dict[str, Any]:
        """The model's row."""
        return self.row(0)

    def __str__(self) -> str:
        return self._text

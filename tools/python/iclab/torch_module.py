"""A trained model as a module of PyTorch, whose parameters train there and go back into a run folder: iclab.module and
iclab.save. This file alone imports torch at its top."""

from __future__ import annotations

import os
from typing import Any

import torch

import iclab_model

from .errors import InputError
from .models import load
from .recipes import Recipe
from .runs import Folder, Run
from .tasks import Batch

_FLOATS = {"float32": torch.float32, "float64": torch.float64}


class Module(torch.nn.Module):  # type: ignore[misc]
    """The formula of a model over parameters of PyTorch, which have iclab's names in `named_parameters` and
    `state_dict`. Called with inputs [B, T, p] or symbols [B, T] it gives outputs [B, S, q], as Run.outputs does;
    `loss` is what iclab minimizes. `recipe` says what the model is, and is a copy of the run's."""

    def __init__(self, source: Folder, dtype: Any = torch.float32) -> None:
        super().__init__()
        kind = _FLOATS.get(str(dtype).replace("torch.", ""))
        if kind is None:
            raise InputError(f"dtype = {dtype!r}: expected torch.float32 or torch.float64")
        self._formula = load(source)
        self.recipe = _recipe_of(source)
        for name, values in self._formula.tensors.items():
            *path, last = name.split(".")
            owner = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner._modules[part]
            tensor = torch.tensor(values, dtype=kind)
            if last == "directions":  # random features of model.feature_map = favor, which no gradient reaches
                owner.register_buffer(last, tensor)
            else:
                owner.register_parameter(last, torch.nn.Parameter(tensor))

    def tensors(self) -> dict[str, Any]:
        """What a file of the model holds, by iclab's names."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def forward(self, inputs: Any) -> Any:
        outputs = self._formula.predict(inputs, torch, self.tensors())
        return outputs[:, None, None] if outputs.ndim == 1 else outputs

    def loss(self, batch: Batch) -> Any:
        """The mean loss of a batch, as iclab.sample draws it: include/iclab/loss.h has the formulas."""
        if batch.inputs is None:
            raise InputError("batch: Gram matrices alone: expected sequences, as sampler=\"tokens\" draws them")
        outputs = self(batch.inputs)
        targets = torch.as_tensor(batch.targets, dtype=outputs.dtype, device=outputs.device)
        losses = _LOSSES[batch.shape.loss](outputs, targets)
        if batch.weights is not None:
            losses = losses * torch.as_tensor(batch.weights, dtype=outputs.dtype, device=outputs.device)[..., 0]
        return losses.mean()


def _recipe_of(source: Folder) -> Recipe:
    if isinstance(source, Run):
        return source.recipe
    return Recipe.of_run(source) if os.path.isdir(source) else Recipe.of_model(source)


# ---- Losses [B, S] of scored positions ----


def _squared_error(outputs: Any, targets: Any) -> Any:
    return ((outputs - targets) ** 2).sum(-1)


def _cross_entropy(outputs: Any, targets: Any) -> Any:
    return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten().long(), reduction="none").reshape(
        outputs.shape[:2]
    )


def _logistic(outputs: Any, targets: Any) -> Any:
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(-1)


_LOSSES = {"squared error": _squared_error, "cross-entropy": _cross_entropy, "logistic": _logistic}

"""Models as files: safetensors of iclab, state dictionaries of PyTorch, archives of NumPy; read, written, converted."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import TYPE_CHECKING, Any, Mapping, Union

import numpy

import iclab_model

from . import _arguments as arguments
from . import _library as library
from .errors import InputError
from .recipes import Recipe
from .runs import Folder, Run
from .tasks import task_shape

if TYPE_CHECKING:
    from .torch_module import Module


def load(source: Folder) -> iclab_model.Model:
    """The model of a run or of a .safetensors file, which NumPy and PyTorch evaluate."""
    if isinstance(source, Run):
        return source.model
    path = pathlib.Path(source)
    return iclab_model.Model(path / "model.safetensors" if path.is_dir() else path)


def module(source: Folder, dtype: Any = "float32") -> Module:
    """The model of a run or of a .safetensors file as a module of PyTorch, whose parameters train in float32 or
    float64: iclab.save takes it back."""
    try:
        from .torch_module import Module
    except ImportError as failure:
        raise InputError(f"module: {failure}: expected the package torch") from None
    return Module(source, dtype)


def save(
    folder: str | os.PathLike[str],
    tensors: Union[Mapping[str, Any], Module],
    recipe: Recipe | Mapping[str, Any] | None = None,
) -> Run:
    """A folder that evaluate, predict and the command take as a run, of a module that iclab.module made, or of arrays
    or PyTorch tensors by iclab's names, for which `recipe` says what they are. Matrices are [inputs, outputs], the
    transpose of torch.nn.Linear's. Numbers are rounded to single precision."""
    if recipe is None:
        recipe = getattr(tensors, "recipe", None)
    if hasattr(tensors, "tensors"):
        tensors = tensors.tensors()
    if recipe is None:
        raise InputError("recipe = None: expected one, which says what the tensors are, or a module of iclab.module")
    path, made = pathlib.Path(folder), Recipe(recipe)
    if not isinstance(tensors, Mapping):
        raise InputError(f"tensors of type {type(tensors).__name__}: expected a mapping of names to arrays")
    if (path / "checkpoint").exists():
        raise InputError(
            f"{path}: holds the checkpoint of a training, which would go on from another model: expected a folder "
            "without one"
        )
    path.mkdir(parents=True, exist_ok=True)
    plain = {name: values.detach().cpu() if hasattr(values, "detach") else values for name, values in tensors.items()}
    arrays = {name: arguments.numbers(name, values) for name, values in plain.items()}
    iclab_model.write(path / "model.safetensors", arrays, _metadata_of(made))
    (path / "recipe.ini").write_text(str(made), encoding="utf-8")
    library.call("icl_run_list_files", library.encoded(path))
    return Run(path)


def _metadata_of(recipe: Recipe) -> dict[str, str]:
    """What icl_trainer_export writes beside the tensors: include/iclab/train.h."""
    shape = {f"shape.{name}": str(value) for name, value in dataclasses.asdict(task_shape(recipe)).items()}
    described = {key: recipe.text(key) for key in recipe if key.startswith(("model.", "task.d", "task.n"))}
    described = {key: text for key, text in described.items() if key[:5] != "task." or key in ("task.d", "task.n")}
    return {"format": "iclab", "layout": "1", **shape, **described}


def state_dict(source: Folder) -> dict[str, Any]:
    """The parameters as tensors of PyTorch in single precision, by iclab's names."""
    import torch

    return {name: torch.from_numpy(values.astype(numpy.float32)) for name, values in _read(source)[1].items()}


def convert(
    source: Folder, target: str | os.PathLike[str], recipe: Recipe | Mapping[str, Any] | None = None
) -> None:
    """Writes the model of a run or file as another kind of file, by the ending of `target`: .safetensors; .pt, of
    PyTorch: {"metadata": …, "state_dict": …}, which torch.load reads with weights_only=True; .npz, of NumPy. `recipe`
    says what the model is where the source does not: a state dictionary that stands alone."""
    metadata, tensors = _read(source)
    if recipe is not None:
        metadata = _metadata_of(Recipe(recipe))
    if metadata.get("format") != "iclab":
        raise InputError(f"{os.fspath(source)}: does not say what model it holds: expected recipe=, too")
    _write(pathlib.Path(target), metadata, tensors)


def _read(source: Folder) -> tuple[dict[str, str], dict[str, numpy.ndarray[Any, Any]]]:
    path = pathlib.Path(os.fspath(source))
    path = path / "model.safetensors" if path.is_dir() else path
    if path.suffix == ".safetensors":
        metadata, tensors = iclab_model.read(path)
        return metadata, tensors
    if path.suffix == ".npz":
        with numpy.load(path) as archive:
            values = {name: archive[name] for name in archive.files}
        about = values.pop("__metadata__", numpy.empty((0, 2), str))
        return {str(key): str(value) for key, value in about}, values
    if path.suffix in (".pt", ".pth"):
        import torch

        found = torch.load(path, map_location="cpu", weights_only=True)
        described = found.get("metadata", {}) if "state_dict" in found else {}
        state = found.get("state_dict", found)
        return dict(described), {name: values.detach().double().numpy() for name, values in state.items()}
    raise InputError(f"{path}: expected a run folder, .safetensors, .npz, .pt or .pth")


def _write(path: pathlib.Path, metadata: dict[str, str], tensors: Mapping[str, numpy.ndarray[Any, Any]]) -> None:
    if path.suffix == ".safetensors":
        iclab_model.write(path, tensors, metadata)
    elif path.suffix == ".npz":
        about = numpy.array(list(metadata.items()))
        floats = {name: values.astype(numpy.float32) for name, values in tensors.items()}
        numpy.savez(path, __metadata__=about, **floats)  # type: ignore[arg-type]
    elif path.suffix in (".pt", ".pth"):
        import torch

        state = {name: torch.from_numpy(values.astype(numpy.float32)) for name, values in tensors.items()}
        torch.save({"metadata": metadata, "state_dict": state}, path)
    else:
        raise InputError(f"{path}: expected a name that ends in .safetensors, .npz, .pt or .pth")

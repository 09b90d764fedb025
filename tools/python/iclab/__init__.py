"""iclab, the lab of in-context learning, in Python.

    run = iclab.train("quickstart", layers=2, steps=1000)
    run.metrics["loss"], run.evaluation["half_adjusted"]
    run.predict(features, targets, fresh)["model"]
    iclab.sample("quickstart", 64).inputs
    iclab.train(task=iclab.Task(sample, shape)), iclab.train(data=array), iclab.module(run)

The page tools/reference/python.md begins with what one needs first. Failures are exceptions with the library's line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iclab_model import Model

from . import tape
from ._devices import Device, devices, open_device
from ._library import version as _version
from .comparison import Comparison, compare, compare_training
from .errors import DeviceError, DivergedError, Error, FileError, InputError, InterruptedTraining, OutOfMemoryError
from .evaluation import Evaluation
from .experiments import Evaluations, Inspection, Sweep, evaluate_over, generate, inspect, sweep
from .models import convert, load, module, save, state_dict
from .mixers import Block, Constants, Matrix, Mixer, Pass
from .own_data import task_of_data
from .own_predictors import Predictor
from .own_tasks import Task
from .prediction import Prediction
from .recipes import Recipe, recipe_keys
from .regression import Regression, regress
from .reproductions import Reproduction, reproduce, reproductions
from .runs import Run, evaluate, predict
from .tables import Table, example_table
from .tape import Variable
from .tasks import Batch, TaskShape, sample, task_shape
from .tidying import read_table
from .training import Progress, resume, train

if TYPE_CHECKING:
    from .regressor import InContextRegressor, TableRegressor

__version__ = _version()

__all__ = [
    "Batch",
    "Block",
    "Comparison",
    "Constants",
    "Device",
    "DeviceError",
    "DivergedError",
    "Error",
    "Evaluation",
    "Evaluations",
    "FileError",
    "InContextRegressor",
    "InputError",
    "Inspection",
    "InterruptedTraining",
    "Matrix",
    "Mixer",
    "Model",
    "OutOfMemoryError",
    "Pass",
    "Prediction",
    "Predictor",
    "Progress",
    "Recipe",
    "Regression",
    "Reproduction",
    "Run",
    "Sweep",
    "Table",
    "TableRegressor",
    "Task",
    "TaskShape",
    "Variable",
    "compare",
    "compare_training",
    "convert",
    "devices",
    "evaluate",
    "evaluate_over",
    "example_table",
    "generate",
    "inspect",
    "load",
    "module",
    "open_device",
    "predict",
    "read_table",
    "recipe_keys",
    "regress",
    "reproduce",
    "reproductions",
    "resume",
    "sample",
    "save",
    "state_dict",
    "sweep",
    "tape",
    "task_of_data",
    "task_shape",
    "train",
]


def __getattr__(name: str) -> Any:
    """The regressors come with their first use, because they bring scikit-learn where that is installed."""
    if name in ("InContextRegressor", "TableRegressor"):
        from . import regressor

        return getattr(regressor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""A trained model as an estimator of scikit-learn, which is optional: without it the class checks less."""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

import numpy

from .errors import InputError
from .prediction import Rows, predict_rows
from .recipes import Recipe
from .runs import Run, as_run

if TYPE_CHECKING:
    _Mixin: Any = object
    _Base: Any = object
else:
    try:
        from sklearn.base import BaseEstimator as _Base
        from sklearn.base import RegressorMixin as _Mixin
    except ImportError:
        from ._estimator import Estimator as _Base
        from ._estimator import Regressor as _Mixin

# Fewer rows say nothing about a scale (icl_predict).
_FEWEST_ROWS = 4

# Dimensions of the models that are trained where none is given: a table's features are padded to the next.
_SIZES = (4, 8, 16, 32, 64, 128)

_default_runs: dict[int, Run] = {}
_own_folder: list[tempfile.TemporaryDirectory[str]] = []


def _validate(estimator: Any, features: Any, targets: Any = None) -> tuple[Any, Any]:
    """Arrays of finite doubles, and estimator.n_features_in_."""
    options: dict[str, Any] = {"dtype": numpy.float64}
    if targets is None:
        options["reset"] = False
        targets_given: tuple[Any, ...] = ()
    else:
        options.update(y_numeric=True, ensure_min_samples=_FEWEST_ROWS)
        targets_given = (targets,)
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # before 1.6, or no scikit-learn: a method of the base
        found = estimator._validate_data(features, *targets_given, **options)
    else:
        found = validate_data(estimator, features, *targets_given, **options)
    return found if targets_given else (found, None)


def _cache_folder() -> pathlib.Path:
    """Where models are kept from process to process; a folder of this process's own where ICLAB_CACHE_DIR is empty."""
    named = os.environ.get("ICLAB_CACHE_DIR")
    if named:
        return pathlib.Path(named)
    if named is None:
        return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "iclab"
    if not _own_folder:
        _own_folder.append(tempfile.TemporaryDirectory(prefix="iclab-"))
    return pathlib.Path(_own_folder[0].name)


def default_run(features: int) -> Run:
    """The recipe `predict` for at least so many features: trained once, in seconds, and then kept in the cache."""
    from .training import train

    size = next((size for size in _SIZES if size >= features), None)
    if size is None:
        raise InputError(
            f"{features} features: expected at most {_SIZES[-1]} without a model; train one of "
            f'task.d = {features}, iclab.train("predict", d={features}), and pass it as model='
        )
    if size not in _default_runs:
        recipe = Recipe("predict", d=size)
        name = f"predict-d{size}-{hashlib.sha256(str(recipe).encode()).hexdigest()[:12]}"
        folder = _cache_folder() / "models" / name
        if not (folder / "model.safetensors").exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                made = train(recipe, out=pathlib.Path(scratch) / name, device="cpu", evaluate=False)
                try:
                    os.rename(made.folder, folder)
                except OSError:
                    if not folder.exists():  # another process was first
                        raise
        _default_runs[size] = Run(folder)
    return _default_runs[size]


class InContextRegressor(_Mixin, _Base):  # type: ignore[misc]
    """Predicts in context: `fit` keeps the rows, which the trained model sees before each query; nothing else is
    learned but means, deviations and principal components.

    Parameters
    ----------
    model : Run or path of a run folder, of a model of linear regression; None trains the recipe `predict` for the
        number of features the first time, in seconds, and keeps it in the cache.
    device : the device's spec.
    context : rows in a prompt at most; 0: 1,024, or the n of training for model.scale = raw.
    prompts : whose predictions are averaged where there are more rows; 0: 16.
    inputs : "auto", "standardized" or "whitened": how features are shown to the model.
    random_state : seed of the choice of rows for prompts; None is 0.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        device: str = "cpu",
        context: int = 0,
        prompts: int = 0,
        inputs: str = "auto",
        random_state: int | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.context = context
        self.prompts = prompts
        self.inputs = inputs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> InContextRegressor:  # noqa: N803
        """Keeps rows X [m, p] with their targets y [m], m of 4 or more."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        features, targets = _validate(self, X, y)
        targets = numpy.asarray(targets, numpy.float64)
        spread = numpy.ptp(targets)
        is_constant = not spread > 1e-12 * numpy.abs(targets).max()
        self.constant_ = float(targets[0]) if is_constant else None
        self.rows_ = Rows(features, targets)
        self._run()  # a model that cannot take the rows is refused here
        return self

    def _run(self) -> Run:
        return default_run(self.n_features_in_) if self.model is None else as_run(self.model)

    def predict(self, X: Any) -> numpy.ndarray[Any, Any]:  # noqa: N803
        """The model's predictions [k] for rows X [k, p]."""
        if not hasattr(self, "rows_"):
            _raise_not_fitted(self)
        features, _ = _validate(self, X)
        if self.constant_ is not None:
            return numpy.full(len(features), self.constant_)
        run = self._run()
        found = predict_rows(
            run.folder,
            run.recipe,
            self.rows_,
            Rows(features),
            device=self.device,
            held_out=False,
            context=self.context,
            prompts=self.prompts,
            seed=self.random_state or 0,
            inputs=self.inputs,
        )
        return found["model"]


def _raise_not_fitted(estimator: Any) -> None:
    message = f"This {type(estimator).__name__} instance is not fitted yet: call fit first"
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        raise InputError(message) from None
    raise NotFittedError(message)

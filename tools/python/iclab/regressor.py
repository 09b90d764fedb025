"""Estimators of scikit-learn, which is optional: without it the classes check less. InContextRegressor shows the rows
to a trained model, TableRegressor predicts by methods that need none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from . import _arguments as arguments
from . import _model_cache
from .errors import InputError
from .prediction import Rows, predict_rows
from .recipes import Recipe
from .regression import INTERVALS, Regression, regress_rows
from .runs import Run, as_run
from .tables import Table

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

# Rows that these models are trained on at once: a table gets the most of which it has four times as many. With fewer
# rows than that the shorter context predicts better.
_CONTEXTS = (40, 160, 640)

_DEFAULT_SEED = 1

_default_runs: dict[tuple[int, int], Run] = {}


def _validate(estimator: Any, features: Any, targets: Any = None) -> tuple[Any, Any]:
    """Arrays of finite doubles, and estimator.n_features_in_. A masked value is missing, and so refused."""
    features, targets = arguments.unmasked(features), arguments.unmasked(targets)
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


def default_run(features: int, rows: int) -> Run:
    """The recipe `predict` for at least so many features and a context by the number of rows: trained once, in seconds
    to minutes, and then kept."""
    size = next((size for size in _SIZES if size >= features), None)
    if size is None:
        raise InputError(
            f"{features} features: expected at most {_SIZES[-1]} without a model; train one of "
            f'task.d = {features}, iclab.train("predict", d={features}), and pass it as model='
        )
    context = max((context for context in _CONTEXTS if 4 * context <= rows), default=_CONTEXTS[0])
    if (size, context) not in _default_runs:
        _default_runs[size, context] = _model_cache.trained(Recipe("predict", d=size, n=context), size)
    return _default_runs[size, context]


class InContextRegressor(_Mixin, _Base):  # type: ignore[misc]
    """Predicts in context: `fit` keeps the rows, which the trained model sees before each query; nothing else is
    learned but means, deviations and principal components.

    The model that it trains by itself has seen contexts of 40 rows, for tables of 640 rows and more of 160, and from
    2,560 on of 640. On many rows least squares and ridge may learn more from them than it does: compare, as Run.predict
    does, or pass a model of another context, iclab.train("predict", d=..., n=...).

    Parameters
    ----------
    model : Run or path of a run folder, of a model of linear regression; None trains the recipe `predict` for the
        numbers of features and rows the first time, in seconds, and from 33 features on in minutes, and keeps it in the
        cache.
    device : the device's spec.
    context : rows in a prompt at most; 0: 1,024, or the n of training for model.scale = raw.
    prompts : whose predictions are averaged where there are more rows; 0: 16.
    inputs : "auto", "standardized" or "whitened": how features are shown to the model.
    random_state : seed of the choice of rows for prompts, or a generator of NumPy, from which fit draws one; None is 1.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        device: str = "cpu",
        context: int = 0,
        prompts: int = 0,
        inputs: str = "auto",
        random_state: Any = None,
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
        self.seed_ = arguments.random_state("random_state", self.random_state, _DEFAULT_SEED)
        if is_constant:
            self._run()
        else:  # what predict would refuse is refused here
            self._predict_rows(features[:1])
        return self

    def _run(self) -> Run:
        return default_run(self.n_features_in_, len(self.rows_.values)) if self.model is None else as_run(self.model)

    def predict(self, X: Any) -> numpy.ndarray[Any, Any]:  # noqa: N803
        """The model's predictions [k] for rows X [k, p]."""
        if not hasattr(self, "rows_"):
            _raise_not_fitted(self)
        features, _ = _validate(self, X)
        return self._predict_rows(features) if self.constant_ is None else numpy.full(len(features), self.constant_)

    def _predict_rows(self, features: Any) -> numpy.ndarray[Any, Any]:
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
            seed=self.seed_,
            inputs=self.inputs,
        )
        return found["model"]


class TableRegressor(_Mixin, _Base):  # type: ignore[misc]
    """Predicts by the methods of `iclab predict` without a run, with intervals.

    Parameters
    ----------
    method : "mixture" weighs the methods by their errors on rows that `fit` holds out, "best" is the one of the least
        error there; or "ridge", "ols", "neighbours", "gaussian_process", "mean" or "model".
    model : path of the run folder of a model of tables, task.family = tables; None: the model that ships.
    device : the device's spec, for the model.
    context : rows that all methods but mean and ridge learn from at most; 0: 500.
    random_state : seed of the choice of rows, or a generator of NumPy, from which fit draws one; None is 1.
    """

    def __init__(
        self,
        method: str = "mixture",
        *,
        model: Any = None,
        device: str = "cpu",
        context: int = 0,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.model = model
        self.device = device
        self.context = context
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> TableRegressor:  # noqa: N803
        """Keeps rows X [m, p] with their targets y [m], m of 4 or more, and weighs the methods or chooses one."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        features, targets = _validate(self, X, y)
        targets = numpy.asarray(targets, numpy.float64)
        is_constant = not numpy.ptp(targets) > 1e-12 * numpy.abs(targets).max()
        self.constant_ = float(targets[0]) if is_constant else None
        self.rows_ = Rows(features, targets)
        self.seed_ = arguments.random_state("random_state", self.random_state, _DEFAULT_SEED)
        self.method_, self.mixture_ = self.method, None
        if is_constant:
            self.method_ = "mean"
        elif self.method in ("mixture", "best"):
            found = self._regress(None, folds=min(5, len(targets)))
            self.scores_ = found.scores
            if self.method == "best":
                single = [row for row in found.scores.rows() if row["predictor"] != "mixture"]
                self.method_ = min(single, key=lambda row: float(row["mse"]))["predictor"]
            else:
                self.mixture_ = found.mixture
        else:  # what predict would refuse is refused here
            self._regress(features[:1])
        return self

    def _regress(self, features: Any, folds: int = 0) -> Regression:
        return regress_rows(
            self.rows_,
            None if features is None else Rows(features),
            model=self.model,
            device=self.device,
            methods=None if folds else self.method_,
            held_out=folds > 0,
            mixture=self.mixture_,
            importances=False,
            folds=folds,
            context=self.context,
            seed=self.seed_,
        )

    def predict(self, X: Any) -> numpy.ndarray[Any, Any]:  # noqa: N803
        """The predictions [k] for rows X [k, p]."""
        return self.predict_intervals(X)["prediction"]

    def predict_intervals(self, X: Any) -> Table:  # noqa: N803
        """The predictions with intervals of 50 % and 80 %: columns prediction, low_80, low_50, high_50, high_80."""
        if not hasattr(self, "rows_"):
            _raise_not_fitted(self)
        features, _ = _validate(self, X)
        names = ("prediction", *INTERVALS)
        if self.constant_ is not None:
            return Table({name: numpy.full(len(features), self.constant_) for name in names})
        found = self._regress(features)
        return Table({name: found[name] for name in names})


def _raise_not_fitted(estimator: Any) -> None:
    message = f"This {type(estimator).__name__} instance is not fitted yet: call fit first"
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        raise InputError(message) from None
    raise NotFittedError(message)

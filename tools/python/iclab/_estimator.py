"""What scikit-learn's base classes do for an estimator, for where it is not installed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy

from . import _arguments as arguments
from .errors import InputError


class Estimator:
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Any:
        for name, value in params.items():
            if name not in self.get_params():
                raise InputError(f"{name}: no parameter of {type(self).__name__}: expected one of {self.get_params()}")
            setattr(self, name, value)
        return self

    def _validate_data(self, X: Any, y: Any = None, *, reset: bool = True, **_options: Any) -> Any:  # noqa: N803
        names, features = arguments.column_names(X), arguments.doubles("X", X)
        fewest = _options.get("ensure_min_samples", 1)
        if features.ndim != 2 or len(features) < fewest or features.shape[1] == 0:
            raise InputError(f"X of shape {features.shape}: expected [rows, features], {fewest} rows or more")
        if not numpy.isfinite(features).all():
            raise InputError("X holds NaN or infinity: expected finite numbers")
        if reset:
            self.n_features_in_, self.columns_ = features.shape[1], names
        elif names is not None and self.columns_ is not None and names != self.columns_:
            raise InputError(f"X has columns {names}: expected {self.columns_}, as in fit")
        elif features.shape[1] != self.n_features_in_:
            raise InputError(f"X has {features.shape[1]} features: expected {self.n_features_in_}, as in fit")
        if y is None:
            return features
        targets = arguments.doubles("y", y)
        if targets.shape != features.shape[:1] or not numpy.isfinite(targets).all():
            raise InputError(f"y of shape {targets.shape}: expected {len(features)} finite numbers, one for each row")
        return features, targets


class Regressor:
    _estimator_type = "regressor"

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """R^2."""
        targets = arguments.doubles("y", y)
        error = targets - self.predict(X)  # type: ignore[attr-defined]
        return float(1 - (error**2).sum() / ((targets - targets.mean()) ** 2).sum())

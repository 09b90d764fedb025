"""scikit-learn's own checks of estimators on InContextRegressor, with the model that it trains by itself, and on
TableRegressor."""

import os
import pathlib
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

# What a check needs of its surroundings, not of the estimator.
ALLOWED = ("SCIPY_ARRAY_API is not set", "pandas is not installed")

try:
    import sklearn
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    tap.skip("scikit-learn's checks", "scikit-learn is not installed")
    tap.done()

with tempfile.TemporaryDirectory() as cache:
    os.environ["ICLAB_CACHE_DIR"] = cache
    import iclab
    from iclab import InContextRegressor, TableRegressor

    for estimator in (InContextRegressor(), TableRegressor()):
        name = type(estimator).__name__
        if not hasattr(sklearn.utils, "get_tags"):  # before 1.6 it raises at the first check that fails
            check_estimator(estimator)
            tap.ok(True, f"scikit-learn {sklearn.__version__}: every check of {name}")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(estimator, on_fail=None, on_skip=None)
        for result in results:
            reason = str(result["exception"]).splitlines()[0] if result["exception"] else ""
            passed = result["status"] == "passed" or (result["status"] == "skipped" and reason.startswith(ALLOWED))
            tap.ok(passed, f"{name}: {result['check_name']}: {result['status']} {reason}".rstrip())
        tap.ok(len(results) > 40, f"scikit-learn {sklearn.__version__}: {len(results)} checks of {name}")

    kept = os.listdir(f"{cache}/models")
    tap.ok(len(kept) >= 1, f"models are kept: {', '.join(sorted(kept))}")
    regressor = InContextRegressor()
    try:
        regressor.fit([[0.0] * 129] * 5, [1, 2, 3, 4, 5])
        message = ""
    except iclab.InputError as refusal:
        message = str(refusal)
    tap.ok("at most 128" in message, f"too many features for that: {message}")
tap.done()

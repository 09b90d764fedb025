# %% [markdown]
# # Your own table
# A model that was trained on random problems predicts a table's column in context: it sees the labelled rows and fits
# nothing to them but means, deviations and principal components. As a script: `python your_data.py [FOLDER]`.

# %%
import sys
import tempfile

import numpy

import iclab

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
swiss = iclab.example_table("swiss")
target = "Fertility"
features = numpy.column_stack([values for name, values in swiss.items() if values.dtype == float and name != target])
targets = swiss[target]
print(features.shape, "from", ", ".join(swiss))

# %% [markdown]
# The recipe `predict` makes a model for up to 8 features in seconds; here it is trained for fewer steps than it has.

# %%
run = iclab.train("predict", steps=800, growth=200, device="cpu", out=f"{folder}/predict", evaluate=False)

# %% [markdown]
# Errors are those on rows that were held out. Rows without a target are what is to be predicted.

# %%
found = run.predict(features[:-3], targets[:-3], fresh=features[-3:], device="cpu", repeats=2)
print(found.scores)
print(found)
print("the truth:", targets[-3:])

# %% [markdown]
# The same as an estimator of scikit-learn, for pipelines and cross-validation. Without scikit-learn it works, too.

# %%
regressor = iclab.InContextRegressor(run).fit(features[:30], targets[:30])
print(f"R^2 on {len(targets) - 30} rows that it did not see: {regressor.score(features[30:], targets[30:]):.2f}")
try:
    from sklearn.model_selection import cross_val_score
except ImportError:
    print("scikit-learn is not installed: no cross-validation")
else:
    print("cross-validated:", cross_val_score(regressor, features, targets, cv=3).round(2))

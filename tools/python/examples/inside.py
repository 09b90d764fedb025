# %% [markdown]
# # Inside a model
# Draw a task's sequences, ask the model and predictors of one's own about them, take the model to NumPy and PyTorch,
# change it and bring it back. As a script: `python inside.py [FOLDER]`.

# %%
import importlib.util
import sys
import tempfile

import numpy

import iclab

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
run = iclab.train("quickstart", steps=300, growth=100, device="cpu", out=f"{folder}/run", eval__sequences=2000)

# %% [markdown]
# Sequences are a function of purpose, seed and step, with the same bits on every device: rows (x_i, y_i), the last one
# the query (x, 0).

# %%
batch = iclab.sample(run.recipe, 512, purpose="evaluation", seed=7)
contexts, queries, truth = batch.inputs[:, :-1], batch.inputs[:, -1, :-1], batch.targets[:, 0, 0]
print(batch.shape, {name: values.shape for name, values in batch.sides.items()})

# %% [markdown]
# A predictor of one's own beside the model: ridge regression in a few lines.

# %%
x, y = contexts[:, :, :-1], contexts[:, :, -1:]
gram = numpy.swapaxes(x, 1, 2) @ x + 3 * numpy.eye(x.shape[2])
ridge = (queries[:, None] @ numpy.linalg.solve(gram, numpy.swapaxes(x, 1, 2) @ y))[:, 0, 0]
model = run.outputs(batch.inputs, device="cpu")[:, 0, 0]
for name, predictions in {"model": model, "ridge": ridge, "zero": 0 * ridge}.items():
    print(f"{name:6} {numpy.mean((predictions - truth) ** 2):.3f}")

# %% [markdown]
# The model in plain NumPy, in double precision, and in PyTorch, where that is installed.

# %%
print("difference to NumPy:", abs(run.model.predict(batch.inputs) - model).max())
if importlib.util.find_spec("torch"):
    iclab.convert(run, f"{folder}/model.pt")
    iclab.convert(f"{folder}/model.pt", f"{folder}/back.safetensors")
else:
    iclab.convert(run, f"{folder}/model.npz")
    iclab.convert(f"{folder}/model.npz", f"{folder}/back.safetensors")
if importlib.util.find_spec("torch"):
    module = iclab.module(run, dtype="float64")  # its parameters train
    print("loss by PyTorch:", module.loss(iclab.sample(run.recipe, 512, purpose="evaluation", seed=7)).item())
print("kept by conversion:", all((iclab.load(run).tensors[k] == v).all() for k, v in run.parameters.items()))

# %% [markdown]
# Changed parameters become a run again: here the last layer's attention is silenced.

# %%
last = max(int(name.split(".")[1]) for name in run.parameters)
silenced = {name: values * (not name.startswith(f"layer.{last}.")) for name, values in run.parameters.items()}
changed = iclab.save(f"{folder}/silenced", silenced, run.recipe)
print(changed.evaluate(device="cpu", eval__sequences=2000))

# %% [markdown]
# Is a device right? Every case of an operation beside the exact result.

# %%
compared = iclab.compare("cpu", op="matmul")
print(f"{compared.row_count} cases, all within their bounds: {compared.passed}")

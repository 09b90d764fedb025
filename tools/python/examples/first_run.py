# %% [markdown]
# # A first run
# Train a small linear transformer on noisy linear regression, watch its loss, and see what separates it from the best
# predictor there is. In a notebook, run the cells one by one; as a script: `python first_run.py [FOLDER]`.

# %%
import sys
import tempfile

import iclab

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
print(iclab.devices())

# %% [markdown]
# Any key of the recipe is a keyword. `progress` is called with the numbers of the last few steps; Ctrl-C ends the
# training with a checkpoint, and `run.resume()` goes on.

# %%
run = iclab.train(
    "quickstart",
    layers=2,
    steps=400,
    growth=100,
    device="cpu",
    out=f"{folder}/first",
    eval__sequences=5000,
    progress=lambda now: print(f"step {now.step} of {now.total_steps}: loss {now.loss:.3f}"),
)
print(run)

# %% [markdown]
# Metrics are arrays of NumPy, the evaluation a table: the model beside what knows more, or less, than it does.

# %%
losses = run.metrics["loss"]
print(f"loss {losses[:10].mean():.3f} in the first ten steps, {losses[-10:].mean():.3f} in the last")
print(run.evaluation)

# %% [markdown]
# The same model on other contexts: one evaluation for each length.

# %%
lengths = [5, 10, 20, 40]
distances = [
    run.evaluate(device="cpu", n=length, eval__sequences=2000).model["half_adjusted"] for length in lengths
]
print(iclab.Table({"n": lengths, "half_adjusted": distances}, "distance to the oracle by context length"))

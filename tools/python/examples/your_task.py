# %% [markdown]
# # Your own task, predictor and mixer
# Markov chains, each sequence with a chain of its own, beside the best predictor there is; and a mixer as a formula. As
# a script: `python your_task.py [FOLDER]`.

# %%
import sys
import tempfile

import numpy

import iclab
from iclab import tape

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
LETTERS, MOVES = 3, 40

# %% [markdown]
# The function draws `size` sequences with a generator of NumPy. The row of a chain for each letter has a uniform law,
# and the next letter is where a uniform number falls among the row's sums.


# %%
def chains(random, size):
    sums = numpy.cumsum(random.dirichlet(numpy.ones(LETTERS), (size, LETTERS)), -1)
    letters = numpy.empty((size, MOVES + 1), int)
    letters[:, 0] = random.integers(LETTERS, size=size)
    falls, every = random.random((size, MOVES, 1)), numpy.arange(size)
    for move in range(MOVES):
        rows = sums[every, letters[:, move], :-1]
        letters[:, move + 1] = (falls[:, move] > rows).sum(-1)
    return {"inputs": letters[:, :-1], "targets": letters[:, 1:]}


# %% [markdown]
# Bayes' prediction counts what came behind the same letter, with one more of each. Predictors see a batch as models do,
# and answer as they do: with logarithms of probabilities where the loss is the cross-entropy.


# %%
def counts(batch):
    size, positions = batch.inputs.shape
    seen = numpy.ones((size, LETTERS, LETTERS))
    answers, every = numpy.empty((size, positions, LETTERS)), numpy.arange(size)
    for position in range(positions):
        if position > 0:
            seen[every, batch.inputs[:, position - 1], batch.inputs[:, position]] += 1
        rows = seen[every, batch.inputs[:, position]]
        answers[:, position] = numpy.log(rows / rows.sum(-1, keepdims=True))
    return answers


def chance(batch):
    return numpy.full((*batch.inputs.shape, LETTERS), -numpy.log(LETTERS))


shape = iclab.TaskShape(positions=MOVES, symbols=LETTERS, outputs=LETTERS, loss="cross-entropy")
task = iclab.Task(chains, shape, predictors={"counts": counts, "chance": chance})
print(task)

# %% [markdown]
# The mixer `back` shows each position the one before it; in model.mixer it stands beside those of the library.


# %%
def parameters(block):
    return {"filter": iclab.Matrix(2, block.width), "output": iclab.Matrix(block.width, block.width, into_stream=True)}


def back(own, x):
    return tape.convolve(x, own["filter"]) @ own["output"]


iclab.Mixer("back", back, parameters)

# %% [markdown]
# The library's trainer takes them as its own: run folder, report, evaluation. The folder keeps the functions' source.

# %%
run = iclab.train(
    task=task,
    mixer="back,softmax",
    layers=2,
    width=32,
    norm="layer",
    feed_forward="none",
    learning_rate=0.01,
    warmup=20,
    batch=64,
    steps=150,
    device="cpu",
    out=f"{folder}/chains",
    eval__sequences=1000,
    eval__every=0,
)
print(run.evaluation)
above = run.evaluation.model["loss"] - run.evaluation.row("counts")["loss"]
print(f"above the best: {above:.3f} nats of {run.evaluation.row('chance')['loss']:.3f}")

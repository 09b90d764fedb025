"""Tasks, mixers and data of one's own: the library's trainer over functions of Python.

Argument: the folder of recipes.
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from tap import ok, refused

LETTERS, MOVES = 3, 12
SMALL = {"model.layers": 1, "model.width": 8, "train.batch": 16, "train.warmup": 1, "eval.every": 0,
         "eval.sequences": 300}


# ---- A task ----


def chains(random, size):
    """Markov chains, each sequence with its own; predictors may know its rows."""
    rows = random.dirichlet(numpy.ones(LETTERS), (size, LETTERS))
    letters = numpy.empty((size, MOVES + 1), int)
    letters[:, 0] = random.integers(LETTERS, size=size)
    falls = random.random((size, MOVES, 1))
    for move in range(MOVES):
        sums = numpy.cumsum(rows, -1)[numpy.arange(size), letters[:, move], :-1]
        letters[:, move + 1] = (falls[:, move] > sums).sum(-1)
    weights = numpy.ones((size, MOVES))
    weights[:, 0] = 0
    return {"inputs": letters[:, :-1], "targets": letters[:, 1:], "weights": weights, "rows": rows}


def told(batch):
    """Who knows the chain."""
    rows = batch.sides["rows"]
    return numpy.log(numpy.take_along_axis(rows, batch.inputs[..., None], 1))


def chance(batch):
    return numpy.zeros((*batch.inputs.shape, LETTERS))


def make_task(sample=None, **changes):
    shape = {"positions": MOVES, "symbols": LETTERS, "outputs": LETTERS, "loss": "cross-entropy"}
    given = {"predictors": {"told": told, "chance": chance}, "name": "test-chains", "shape": shape, **changes}
    return iclab.Task(sample or chains, **given)


def bits(run):
    return pathlib.Path(run, "model.safetensors").read_bytes()


def check_drawing(task):
    """What the library draws is what the function draws, of purpose, seed and step alone."""
    keys = {"task.family": task.name, "train.batch": 8}
    for device in ("cpu", "ref"):
        for purpose, seed, step in (("training", 3, 0), ("evaluation", 5, 2), ("fitting", 1, 2**40)):
            batch = iclab.sample(keys, 8, purpose=purpose, seed=seed, step=step, device=device)
            own = task.draw(8, purpose, seed, step)
            ok((batch.inputs == own.inputs).all() and (batch.targets == own.targets).all()
               and (batch.weights == own.weights).all()
               and (batch.sides["rows"] == own.sides["rows"].astype(numpy.float32)).all(),
               f"{device}: {purpose}, seed {seed}, step {step}: the library has what the function draws")
    drawn = [task.draw(64, *place).inputs for place in
             (("training", 1, 0), ("training", 1, 1), ("training", 2, 0), ("evaluation", 1, 0))]
    ok(all((drawn[i] != drawn[j]).any() for i in range(4) for j in range(i)), "another place, other sequences")


def check_training(task, work):
    run = iclab.train(task=task, device="cpu", out=f"{work}/whole", steps=10, **SMALL)
    rows = run.evaluation
    ok(rows["predictor"].tolist() == ["model", "told", "chance"], f"its predictors: {rows['predictor'].tolist()}")
    batch = task.draw(2048, "evaluation", 1, 0)
    expected = {}
    for name, predictor in (("told", told), ("chance", chance)):
        logits = predictor(batch)[:300]
        losses = numpy.log(numpy.exp(logits).sum(-1)) - numpy.take_along_axis(logits, batch.targets[:300], -1)[..., 0]
        expected[name] = losses[:, 1:].mean()  # the first position has the weight 0
    seen = {name: rows.row(name)["loss"] for name in expected}
    # The rows are floats in the library; a loss moves by at most the sum of relative errors of 2^-24.
    ok(all(abs(seen[name] - expected[name]) <= 2.0**-22 for name in expected),
       "with the losses of the definition", seen, expected)
    source = pathlib.Path(run, "own.py").read_text(encoding="utf-8")
    ok("def chains(random, size):" in source and "def told(batch):" in source, "the folder keeps their source")
    ok("family = test-chains" in str(run.recipe) and run.status == "finished", "the recipe names it")
    iclab.train(task=task, device="cpu", out=f"{work}/parts", until_step=4, steps=10, evaluate=False, **SMALL)
    ok(bits(iclab.resume(f"{work}/parts", until_step=10, evaluate=False, device="cpu")) == bits(run),
       "stopped and resumed: the same bits")
    again = iclab.evaluate(run, device="cpu")
    ok(again["loss"].tolist() == rows["loss"].tolist(), "evaluated again: the same numbers")
    mine = iclab.train("text-quick", task=task, device="cpu", out=f"{work}/recipe", until_step=2, evaluate=False,
                       **{**SMALL, "model.width": 12, "model.mixer": "softmax"})
    ok(mine.recipe["task.family"] == task.name and "file" not in str(mine.recipe)
       and mine.recipe["model.heads"] == iclab.Recipe("text-quick")["model.heads"], "a recipe gives all but the task")
    return run


def check_predictor(work):
    """A function stands beside the library's predictors, for tasks of its shape."""
    keys = {"task.d": 3, "task.n": 6, "model.layers": 1, **{key: SMALL[key] for key in SMALL if key[0] != "m"}}
    iclab.Predictor("last-label", lambda batch: batch.inputs[:, -2, -1:], iclab.task_shape(keys))
    run = iclab.train(keys, device="cpu", steps=2, out=f"{work}/judged-by", evaluate=False,
                      eval__predictors="last-label,ols", eval__fit_sequences=10)
    rows = run.evaluate(device="cpu")
    batch = iclab.sample(run.recipe, 2048, purpose="evaluation")
    expected = ((batch.inputs[:300, -2, -1] - batch.targets[:300, 0, 0]) ** 2).mean()
    # Differences and means of floats, against sums in double precision.
    ok({*rows["predictor"]} == {"model", "last-label", "ols"}
       and abs(rows.row("last-label")["mse"] - expected) <= 2.0**-16 * expected,
       f"a predictor for regression: {rows.row('last-label')['mse']:.6g}", rows, expected)
    ok("last-label" in run.evaluate(device="cpu", eval__predictors="all")["predictor"], "all takes it, too")
    other = run.evaluate(device="cpu", n=7, eval__predictors="all")
    ok("last-label" not in other["predictor"], "it does not answer a task of another shape")


def check_threads(work):
    """Two trainings at once, on two devices: each with the bits that it has alone."""
    alone = {}
    both = {}

    def train(device, kept):
        run = iclab.train({"task.family": "test-chains", "model.family": "sequence"}, device=device, steps=6,
                          out=f"{work}/{device}-{len(alone)}-{id(kept)}", evaluate=False, **SMALL)
        kept[device] = bits(run)

    for device in ("cpu", "ref"):
        train(device, alone)
    threads = [threading.Thread(target=train, args=(device, both)) for device in ("cpu", "ref")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ok(alone == both, "two threads train at once, with the bits that each has alone")


def check_draws_ahead(work):
    """On a device of OpenCL the library draws the next batch on a thread of its own, which takes the lock."""
    devices = [row["device"] for row in iclab.devices().rows() if row["usable"]]
    found = [device for device in devices if device.startswith("opencl")]
    if not found:
        tap.skip("a task in Python on OpenCL", "no usable OpenCL device")
        return
    seen = set()

    def watched(random, size):
        seen.add(threading.get_native_id())
        return chains(random, size)

    task = make_task(watched, name="watched")
    iclab.train(task=task, device=found[0], steps=6, out=f"{work}/opencl", evaluate=False, **SMALL)
    ok(len(seen) > 1, f"{found[0]}: drawn in {len(seen)} threads")


def check_failures(work):
    """What a function raises comes out, as the cause of the library's failure."""
    calls = []

    def fails(random, size):
        calls.append(size)
        if len(calls) > 4:
            raise ZeroDivisionError("the fifth call")
        return chains(random, size)

    task = make_task(fails, name="fails")
    raised = None
    try:
        iclab.train(task=task, device="cpu", steps=50, out=f"{work}/fails", **SMALL)
    except iclab.InputError as failure:
        raised = failure
    ok(isinstance(getattr(raised, "__cause__", None), ZeroDivisionError) and "task fails: ZeroDivisionError: the fifth "
       "call" in str(raised), f"an exception of the function: {raised}")

    def interrupts(random, size):
        if len(calls) > 4 and size == 7:
            raise KeyboardInterrupt
        return chains(random, size)

    make_task(interrupts, name="interrupts")
    with refused(KeyboardInterrupt, "", "Ctrl-C within the function"):
        iclab.sample({"task.family": "interrupts"}, 7)
    make_task(name="judged", predictors={"short": lambda batch: numpy.zeros((1, 2))})
    with refused(iclab.InputError, "predictor short: InputError: outputs of shape [1, 2]: expected [300, 12, 3]",
                 "a predictor of another shape"):
        iclab.train({"task.family": "judged", "model.family": "sequence"}, device="cpu", steps=1, out=f"{work}/judged",
                    **SMALL)


def check_process():
    """Draws leave no memory behind, and a process that was forked draws, too."""

    def wide(random, size):
        return {"inputs": random.standard_normal((size, 100, 4)), "targets": numpy.zeros(size)}

    iclab.Task(wide, iclab.TaskShape(100, inputs=4, first_scored=99))
    held = []
    for count in (20, 120):
        for step in range(count):
            batch = iclab.sample({"task.family": "wide"}, 256, step=step)  # 400 KiB
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) if sys.platform == "linux" else 0
        held.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
    ok(held[1] - held[0] < 20, f"100 further draws of 0.4 MiB: {held[0]:.0f} MiB held, then {held[1]:.0f}")
    child = os.fork()
    if child == 0:
        same = iclab.sample({"task.family": "wide"}, 256, step=119).inputs == batch.inputs
        os._exit(0 if same.all() else 1)
    ok(os.waitpid(child, 0)[1] == 0, "a process that was forked draws the same")


def changed(name, change):
    def sample(random, size):
        drawn = chains(random, size)
        drawn[name] = change(drawn[name])
        return drawn

    return sample


def check_refusals(work):
    for name, change, words in (
        ("inputs", lambda a: a[:, 1:], "inputs of shape [2, 11]: expected [2, 12]"),
        ("inputs", lambda a: a + 1, "expected symbols from 0 to 2"),
        ("inputs", lambda a: a * 0.5, "expected whole numbers from 0 to 2"),
        ("targets", lambda a: a - 1, "targets from -1 to 1: expected symbols from 0 to 2"),
        ("targets", lambda a: None, "returned no targets"),
        ("weights", lambda a: a[:1], "weights of shape [1, 12]: expected [2, 12, 1]"),
        ("rows", lambda a: a[:1], "rows of shape [1, 3, 3]: expected [2, ...]"),
    ):
        with refused(iclab.InputError, words, f"{name} that do not fit"):
            make_task(changed(name, change), name="refused")
    with refused(iclab.InputError, "is taken", "the name of a family of the library"):
        make_task(name="recall")
    with refused(iclab.InputError, "expected a word", "a name with a blank"):
        make_task(name="two words")
    with refused(iclab.InputError, "expected a recipe, a task or data", "nothing to train"):
        iclab.train()
    with refused(iclab.InputError, "task test-chains is in Python", "a sweep in processes of the command"):
        iclab.sweep({"task.family": "test-chains", "model.family": "sequence"}, {"seed": "1..2"}, out=f"{work}/sweep")
    make_task(name="later")
    run = iclab.train({"task.family": "later", "model.family": "sequence"}, device="cpu", steps=1, out=f"{work}/later",
                      evaluate=False, **SMALL)
    words = ("import sys, iclab\ntry:\n    iclab.Run(sys.argv[1])\nexcept iclab.InputError as failure:\n"
             "    print(failure)")
    said = os.popen(f"{sys.executable} -c '{words}' {run.folder} 2>&1").read()
    ok("own.py there has the source" in said, "another process is told where the source lies", said)


def check_renewed():
    """A later task of the same name takes its place, as in a notebook."""
    keys = {"task.family": "renewed"}
    make_task(name="renewed")
    first = iclab.Recipe(keys)
    before = iclab.sample(first, 4).inputs
    make_task(lambda random, size: {"inputs": numpy.full((size, 5), 1), "targets": numpy.zeros((size, 5))},
              name="renewed", predictors={}, shape={"positions": 5, "symbols": 2})
    ok(iclab.sample(keys, 4).inputs.shape == (4, 5) and (iclab.sample(first, 4).inputs == before).all(),
       "a later task takes the name, and an older recipe keeps its own")


# ---- A mixer ----


def parameters(block):
    square = {name: iclab.Matrix(block.width, block.width) for name in ("query", "key", "value")}
    return {**square, "output": iclab.Matrix(block.width, block.width, into_stream=True)}


def linear(own, x):
    q, k, v = (own.split(x @ own[name]) for name in ("query", "key", "value"))
    return own.merge(tape.recurrence(q, k, v, scale=q.shape[-1] ** -0.5)) @ own["output"]


def check_mixer(work):
    """Written in Python, the mixer `linear` is the library's: the same outputs, and after steps the same parameters."""
    iclab.Mixer("mine", linear, parameters)
    keys = {"task.d": 3, "task.n": 6, "task.sampler": "tokens", "model.family": "sequence", "model.heads": 2,
            "eval.predictors": "ols", "eval.fit_sequences": 10, **SMALL}
    library = {**keys, "model.mixer": "linear", "model.output_norm": "none"}
    plain = iclab.train(library, device="ref", steps=5, out=f"{work}/plain", evaluate=False)
    run = iclab.save(f"{work}/start", plain.parameters, {**keys, "model.mixer": "mine"})
    inputs = iclab.sample(plain.recipe, 32).inputs
    ours, theirs = run.outputs(inputs, device="ref"), plain.outputs(inputs, device="ref")
    ok(abs(ours - theirs).max() <= 2.0**-23 * abs(theirs).max() > 0, "a mixer in Python computes what one in C does")
    trained = []
    for name, recipe in (("linear", library), ("mine", {**keys, "model.mixer": "mine"})):
        made = iclab.train(recipe, device="ref", steps=5, out=f"{work}/{name}",
                           init=f"{work}/{'plain' if name == 'linear' else 'start'}/model.safetensors", evaluate=False)
        trained.append(made.parameters)
    moved = max(abs(trained[0][name] - values).max() for name, values in run.parameters.items())
    apart = max(abs(trained[0][name] - values).max() for name, values in trained[1].items())
    # Both in double precision; a file rounds to floats.
    ok(trained[0].keys() == trained[1].keys() and apart <= 2.0**-23 * 4 < moved,
       f"and learns what it does: moved by {moved:.1e}, apart by {apart:.1e}")
    with refused(ValueError, "model.mixer = mine: expected a mixer of iclab's own", "a model outside of the library"):
        iclab.load(run)
    return keys


def check_layers(keys, work):
    """Blocks whose parameters have other names."""

    def named(block):
        return {"first" if block.layer == 0 else "second": iclab.Matrix(block.width, block.width),
                "gain": iclab.Constants(block.width, 1 + block.layer)}

    def mix(own, x):
        return x @ own["first" if own.block.layer == 0 else "second"] * own["gain"]

    iclab.Mixer("layered", mix, named)
    run = iclab.train({**keys, "model.mixer": "layered", "model.layers": 2, "train.learning_rate": 1e-9}, device="ref",
                      steps=1, out=f"{work}/layered", evaluate=False)
    own = {name[6:]: values for name, values in run.parameters.items() if ".mixer." in name}
    ok({*own} == {"0.mixer.first", "0.mixer.gain", "1.mixer.second", "1.mixer.gain"}
       and abs(own["1.mixer.gain"] - 2).max() < 1e-6 and own["0.mixer.gain"].shape == (8,),
       f"each block has parameters of its own: {', '.join(own)}")


def softmax(scores):
    shares = numpy.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def delta_rule(q, k, v, beta, decay):
    state, outs = numpy.zeros((*k.shape[:2], k.shape[3], v.shape[3])), []
    for t in range(q.shape[2]):
        state = numpy.exp(decay[:, :, t, :, None]) * state
        held = numpy.einsum("bhm,bhmn->bhn", k[:, :, t], state)
        state = state + numpy.einsum("bhm,bhn->bhmn", beta[:, :, t] * k[:, :, t], v[:, :, t] - held)
        outs.append(2 * numpy.einsum("bhm,bhmn->bhn", q[:, :, t], state))
    return numpy.stack(outs, 2)


def check_values():
    """Each function, and what it hands on, by NumPy; in double precision, in which sums of ten terms and functions are
    right to 2^-40 of the largest value."""
    random = numpy.random.default_rng(6)
    x, y, near = random.standard_normal((3, 2, 5, 4))
    heads = [random.standard_normal((2, 2, 5, 4)) for _ in range(3)]
    beta, decay = random.random((2, 2, 5, 1)), -random.random((2, 2, 5, 4))
    gain, table, symbols = near[0, 0], near[0], numpy.array([[3, 0, 1]])
    hidden, lag = numpy.triu(numpy.ones((5, 5)), 1) > 0, numpy.subtract.outer(range(5), range(5))
    scores = x @ y.swapaxes(1, 2)
    mean, root = x.mean(-1, keepdims=True), numpy.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    half = numpy.arange(5)[:, None] * 100.0 ** -numpy.array([0, 0.5])
    a, b = x[..., :2], x[..., 2:]
    rows = (
        ("exp", tape.exp, (x,), numpy.exp(x)),
        ("log", tape.log, (x**2,), numpy.log(x**2)),
        ("tanh", tape.tanh, (x,), numpy.tanh(x)),
        ("sigmoid", tape.sigmoid, (x,), 1 / (1 + numpy.exp(-x))),
        ("relu", tape.relu, (x,), numpy.maximum(x, 0)),
        ("softplus", tape.softplus, (x,), numpy.log1p(numpy.exp(x))),
        ("silu", tape.silu, (x,), x / (1 + numpy.exp(-x))),
        ("gelu", tape.gelu, (x,), x / (1 + numpy.exp(-numpy.sqrt(8 / numpy.pi) * (x + 0.044715 * x**3)))),
        ("sin", tape.sin, (x,), numpy.sin(x)),
        ("cos", tape.cos, (x,), numpy.cos(x)),
        ("maximum", tape.maximum, (x, y), numpy.maximum(x, y)),
        ("minimum", lambda v: tape.minimum(v, 0.5), (x,), numpy.minimum(x, 0.5)),
        ("powers", lambda v: (v**2) ** 0.5 + v**1 - v**-1, (x,), abs(x) + x - 1 / x),
        ("numbers", lambda v: 3 - (2 * v + 1) / 4 - 1 / v, (x,), 3 - (2 * x + 1) / 4 - 1 / x),
        ("reductions", lambda v: v.max(-1) - v.sum((0, 1)) + v.mean(), (x,),
         x.max(-1, keepdims=True) - x.sum((0, 1), keepdims=True) + x.mean()),
        ("slices", lambda v: v[1:, 1:3][..., -1] * v[0, 1:3, :1].detach(), (x,), x[1:, 1:3, -1:] * x[:1, 1:3, :1]),
        ("filled", lambda v: v * tape.filled(v, (5, 1), 3), (x,), 3 * x),
        ("matmul", lambda v, w: tape.matmul(v, w.swap_axes(1, 2), 0.5), (x, y), scores / 2),
        ("softmax attention", tape.attention, (x, y, near),
         softmax(numpy.where(hidden, -numpy.inf, scores / 2)) @ near),
        ("in both directions", lambda *v: tape.attention(*v, causal=False, scale=1), (x, y, near),
         softmax(scores) @ near),
        ("a window", lambda *v: tape.attention(*v, window=2), (x, y, near),
         softmax(numpy.where((lag < 0) | (lag > 1), -numpy.inf, scores / 2)) @ near),
        ("linear attention", lambda *v: tape.attention(*v, kind="linear", scale=3), (x, y, near),
         3 * numpy.where(hidden, 0, scores) @ near),
        ("recurrence", lambda q, k, v, s, d: tape.recurrence(q, k, v, beta=s, decay=d, delta=True, scale=2),
         (*heads, beta, decay), delta_rule(*heads, beta, decay)),
        ("other keys", lambda q, k, v, r, w: tape.recurrence(q, k, v, read_key=r, write_key=w, delta=True, scale=2),
         (*heads, heads[1], heads[1]), delta_rule(*heads, beta**0, 0 * decay)),
        ("from rows", lambda q, k, v: tape.recurrence(q, k, v, from_rows=True), heads,
         numpy.where(hidden, 0, heads[0] @ heads[2].swapaxes(2, 3)) @ heads[1]),
        ("convolve", tape.convolve, (x, y[0, :2]),
         x * y[0, 1] + numpy.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :5] * y[0, 0]),
        ("rotate", lambda v: tape.rotate(v, 100), (x,),
         numpy.concatenate([a * numpy.cos(half) - b * numpy.sin(half), a * numpy.sin(half) + b * numpy.cos(half)], -1)),
        ("rms", lambda v, g: tape.normalize(v, gain=g), (x, gain), x / root * gain),
        ("layer norm", lambda v, s: tape.normalize(v, "layer", shift=s), (x, gain),
         (x - mean) / numpy.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) + gain),
        ("unit", lambda v: tape.normalize(v, "unit", epsilon=0), (x,), x / numpy.sqrt((x**2).sum(-1, keepdims=True))),
        ("look up", tape.look_up, (table, symbols), table[symbols]),
        ("cross-entropy", tape.cross_entropy, (table[:3], symbols[0][:, None]),
         -numpy.log(numpy.take_along_axis(softmax(table[:3]), symbols[0][:, None], -1))),
        ("concatenate", lambda *v: tape.concatenate(v, 1), (x, y), numpy.concatenate([x, y], 1)),
    )
    for name, formula, arrays, expected in rows:
        value = tape.value(formula, *arrays, device="ref")
        ok(value.shape == expected.shape and abs(value - expected).max() <= 2.0**-40 * abs(expected).max(),
           f"{name} is that of NumPy", value.shape, expected.shape, abs(value - expected).max())


def check_slopes():
    """A formula's gradient, by central differences: the bound is derived in tests/tape/gradients.c."""
    random = numpy.random.default_rng(5)
    shapes = [(2, 2, 5, 3), (2, 2, 5, 3), (2, 2, 5, 4), (2, 2, 5, 1), (2, 2, 5, 1), (4,)]
    arrays = [random.standard_normal(shape) for shape in shapes]

    def formula(q, k, v, beta, decay, gain):
        o = tape.recurrence(tape.normalize(q, "unit"), tape.gelu(k), v, beta=tape.sigmoid(beta),
                            decay=-tape.softplus(decay), delta=True)
        o = tape.normalize(o, "rms", gain=gain)
        o = tape.concatenate([o[..., 1:] / (2 + tape.exp(o[..., :1])), tape.tanh(o[:, :, :, 0]) ** 2 - abs(o)], -1)
        heads = o.swap_axes(1, 2).reshape(2, 5, 14)
        return tape.attention(heads, heads, 1 - heads).sum(1).mean(-1)

    value, slopes = tape.gradient(formula, *arrays, device="ref")
    ok(value.shape == (2, 1, 1) and value.dtype == numpy.float64, f"a formula's value: {value.ravel()}")
    worst = 0.0
    for place, array in enumerate(arrays):
        for _ in range(3):
            way, step = random.standard_normal(array.shape), 1e-5
            ends = [tape.gradient(formula, *arrays[:place], array + side * way, *arrays[place + 1 :], device="ref")[0]
                    for side in (step, -step)]
            slope = (ends[0] - ends[1]).mean() / (2 * step)
            along = (slopes[place] * way).sum()
            worst = max(worst, abs(slope - along) / (1 + abs(along)) / abs(way).max())
    ok(worst <= 1e-7, f"its gradient is that of central differences: off by {worst:.1e}")
    with refused(iclab.InputError, "matmul: b [7, 3] does not broadcast to [3, 3]", "an op that fails says so at once"):
        tape.gradient(lambda a, b: a @ b, numpy.ones((7, 3)), numpy.ones((7, 3)), device="ref")
    with refused(iclab.InputError, "expected a variable or a number", "an array beside a variable"):
        tape.gradient(lambda a: a + numpy.ones(3), numpy.ones(3), device="ref")


def check_mixer_failures(keys, work):
    def fails(own, x):
        raise ZeroDivisionError("in the mixer")

    for name, mix, words in (
        ("failing", fails, "mixer failing: ZeroDivisionError: in the mixer"),
        ("short", lambda own, x: x[..., :1], ", 7, 1]): expected a variable of shape"),
        ("absent", lambda own, x: x @ own["absent"], "mixer absent: KeyError: 'absent'"),
        ("plain", lambda own, x: x @ own["query"][:1], "matmul"),
    ):
        iclab.Mixer(name, mix, parameters)
        with refused(iclab.InputError, words, f"a mixer that is {name}"):
            iclab.train({**keys, "model.mixer": name}, device="cpu", steps=1, out=f"{work}/{name}", evaluate=False)


# ---- Data ----


def check_data(work):
    random = numpy.random.default_rng(2)
    stream = random.integers(0, 7, 4000)
    task = iclab.task_of_data(stream, length=10)
    batch = task.draw(400, "evaluation")
    places = [numpy.flatnonzero((numpy.lib.stride_tricks.sliding_window_view(stream, 10) == row).all(1))
              for row in batch.inputs]
    ok(task.shape == iclab.TaskShape(10, symbols=7, outputs=7, loss="cross-entropy")
       and (batch.inputs[:, 1:] == batch.targets[:, :-1, 0]).all(), f"windows of a stream: {task.shape}")
    ok(all(row.max() >= 3601 for row in places), "evaluations see its end, behind the last symbol of trainings")
    ok(max(numpy.flatnonzero((numpy.lib.stride_tricks.sliding_window_view(stream, 10) == row).all(1)).min()
           for row in task.draw(400, "training").inputs) < 3591, "and trainings the rest")
    inputs = random.standard_normal((200, 6, 3))
    targets = inputs.sum(-1)[:, 3:]
    task = iclab.task_of_data(inputs, targets, name="sums")
    ok(task.shape == iclab.TaskShape(6, inputs=3, first_scored=3), f"sequences with targets: {task.shape}")
    run = iclab.train(data=(inputs, targets), device="cpu", steps=3, out=f"{work}/rows", **SMALL)
    ok(run.evaluation["predictor"].tolist() == ["model"], "arrays train")
    ok(iclab.task_of_data(inputs, (targets[:, -1:] > 0).astype(int)).shape.outputs == 2, "classes")
    ok(iclab.task_of_data(inputs).shape == iclab.TaskShape(5, inputs=3, outputs=3), "the next coordinates")
    for given, words in (
        ((inputs, targets[:-1]), "targets of shape [199, 3]"),
        ((inputs[0],), "expected whole numbers"),
        ((stream, stream), "targets beside a stream"),
    ):
        with refused(iclab.InputError, words, "arrays that do not fit"):
            iclab.task_of_data(*given)
    text = pathlib.Path(work, "bytes")
    text.write_bytes(bytes(97 + (i * i + i // 7) % 11 for i in range(20000)))
    run = iclab.train(data=text, device="cpu", until_step=1, out=f"{work}/text", evaluate=False, task__length=16,
                      **{**SMALL, "model.width": 12, "model.mixer": "softmax"})
    ok(run.recipe["task.file"] == str(text), "the path of a text trains on it")


def main():
    with tempfile.TemporaryDirectory() as work:
        task = make_task()
        check_drawing(task)
        check_training(task, work)
        check_predictor(work)
        check_threads(work)
        check_draws_ahead(work)
        check_failures(work)
        check_process()
        check_refusals(work)
        check_renewed()
        check_values()
        check_slopes()
        keys = check_mixer(work)
        check_layers(keys, work)
        check_mixer_failures(keys, work)
        check_data(work)


os.environ["ICLAB_RECIPES"] = sys.argv[1]
if importlib.util.find_spec("numpy"):
    import iclab
    import numpy
    from iclab import tape

    main()
else:
    tap.skip("parts of one's own", "numpy is not installed")
tap.done()

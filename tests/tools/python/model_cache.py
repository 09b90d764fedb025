"""The regressor's models, kept from process to process: made once, anew where damaged, in a folder of one's own alone.

Argument: the folder of recipes.
"""

import importlib.util
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap
from tap import ok

os.environ["ICLAB_RECIPES"] = sys.argv[1]
if not importlib.util.find_spec("numpy"):
    tap.skip("the regressor's models", "numpy is not installed")
    tap.done()
from iclab import Recipe, _model_cache, regressor  # noqa: E402

SIZE = 3
TRAIN = ("import iclab._model_cache as cache, iclab; "
         f"cache.trained(iclab.Recipe('predict', d={SIZE}, steps=3000, growth=0), {SIZE})")
said = []
trainings = []


class Listener(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


def ask():
    """The run, and how many models were trained for it."""
    before = len(trainings)
    said.clear()
    return _model_cache.trained(recipe, SIZE), len(trainings) - before


def train(*arguments, **options):
    trainings.append(arguments)
    return train_a_model(*arguments, **options)


def check_damage(folder):
    for name, damage in {
        "model.safetensors": lambda path: os.truncate(path, 100),
        "recipe.ini": lambda path: path.write_text(""),
        "sha256": lambda path: path.unlink(),
    }.items():
        damage(folder / name)
        run, trained = ask()
        ok(trained == 1 and "trained anew" in said[0] and run.folder == folder, f"{name} is damaged: {said[0]}")
        ok(ask()[1] == 0, "and the next process finds it whole")
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ok(ask()[1] == 1, "one bit of the model is wrong")
    (folder / "recipe.ini").chmod(0o666)
    ok(ask()[1] == 1 and "others can write there" in said[0], f"a file that others can write: {said[0]}")
    target = folder.with_name("elsewhere")
    folder.rename(target)
    folder.symlink_to(target)
    ok(ask()[1] == 1 and "symbolic link" in said[0] and not folder.is_symlink(), f"a link: {said[0]}")
    ok((target / "model.safetensors").exists(), "whose target stays")


def check_folders(work):
    """Where the cache cannot be used, a folder of this process's own is."""
    models = pathlib.Path(work, "cache", "models")
    models.chmod(0o777)
    run, trained = ask()
    ok(trained == 1 and models not in run.folder.parents and "others can write there" in said[0], f"refused: {said[0]}")
    ok(ask()[1] == 0, "where the model is kept, too")
    models.chmod(0o700)
    for value, name in ((f"{work}/file/below", "a folder that cannot be made"), ("", "no cache")):
        pathlib.Path(work, "file").touch()
        os.environ["ICLAB_CACHE_DIR"] = value
        run, trained = ask()
        ok(trained == 0 and run.folder.parent == pathlib.Path(_model_cache._own_folder[0].name), name)


def check_two_processes(work):
    environment = {**os.environ, "ICLAB_CACHE_DIR": f"{work}/shared"}
    line = [sys.executable, "-c", TRAIN]
    both = [subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [process.communicate()[1] for process in both]
    codes = [process.returncode for process in both]
    ok(codes == [0, 0] and "".join(texts).count("training a model for up to 3 features") == 1,
       f"two processes at once train once: {codes}", *texts)


def check_contexts():
    """The regressor's model was trained on the most rows of which the table has four times as many."""
    asked = []
    kept, _model_cache.trained = _model_cache.trained, lambda recipe, size: asked.append(recipe) or len(asked)
    runs = [regressor.default_run(3, rows) for rows in (1, 639, 640, 2559, 2560, 10**6)]
    _model_cache.trained = kept
    regressor._default_runs.clear()
    contexts = [int(recipe.text("task.n")) for recipe in asked]
    ok(contexts == [40, 160, 640] and runs == [1, 1, 2, 2, 3, 3], f"models of {contexts} rows, of each one: {runs}")


with tempfile.TemporaryDirectory() as scratch:
    scratch = os.path.realpath(scratch)
    os.environ["ICLAB_CACHE_DIR"] = f"{scratch}/cache"
    logging.getLogger("iclab").addHandler(Listener())
    logging.getLogger("iclab").propagate = False
    train_a_model, _model_cache.train = _model_cache.train, train
    recipe = Recipe("predict", d=SIZE, steps=30, growth=0)
    kept, made = ask()
    ok(made == 1 and "training a model for up to 3 features" in said[0], f"the first time says: {said[0]}")
    ok(ask()[1] == 0 and not said, "the second time finds it, and says nothing")
    ok(os.stat(kept.folder.parent).st_mode & 0o777 == 0o700, "the folder is the user's alone")
    version = _model_cache.library.version
    _model_cache.library.version = lambda: "9.9.9"
    ok(ask()[1] == 1, "another version of iclab trains its own")
    _model_cache.library.version = version
    _model_cache._SECONDS_BETWEEN_LINES = 0.0
    (kept.folder / "sha256").unlink()
    ask()
    ok(any("step 30 of 30" in line for line in said), f"a training says how far it is: {said[-1]}")
    check_damage(kept.folder)
    check_folders(scratch)
    check_two_processes(scratch)
    check_contexts()
tap.done()

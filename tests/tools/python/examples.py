"""The examples of tools/python run from top to bottom, and say what they should; so do those of its page that train on
a task of one's own and in PyTorch.

Argument: their folder.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

# A line of each that shows how it ended.
EXPECTED = {
    "first_run.py": "distance to the oracle by context length",
    "your_data.py": "cross-validated: [" if importlib.util.find_spec("sklearn") else "no cross-validation",
    "inside.py": "all within their bounds: True",
    "your_task.py": "above the best: 0.",
}


def blocks_of(heading):
    """The page's Python below a heading, with trainings that take a second."""
    page = (folder.parents[1] / "reference" / "python.md").read_text(encoding="utf-8")
    text = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", re.sub(r"steps=\d+|(?<=range\()\d+", shorter, text), re.DOTALL)


def shorter(found):
    return "steps=4, batch=8, eval__sequences=64" if found[0].startswith("steps") else "2"


def check_page():
    """The task and the mixer as they stand there, one behind the other; and the training in PyTorch of a small run."""
    task, _, mixer = blocks_of("Your own task, data and mixer")
    small = 'run = iclab.train("quickstart", layers=1, steps=2, growth=0, warmup=1, batch=8, eval__sequences=64)\n'
    programs = {"a task and a mixer": task + mixer.replace("layers=2", "layers=2, steps=2, eval__sequences=64")}
    if importlib.util.find_spec("torch"):
        programs["training in PyTorch"] = "import torch\n" + small + blocks_of("Models in PyTorch")[0]
    for name, program in programs.items():
        with tempfile.TemporaryDirectory() as work:
            script = pathlib.Path(work, "page.py")
            script.write_text("import iclab\n" + program, encoding="utf-8")
            ran = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, cwd=work)
        tap.ok(ran.returncode == 0, f"the page: {name}", ran.stderr[-2000:])


folder = pathlib.Path(sys.argv[1])
if importlib.util.find_spec("numpy"):
    tap.ok(sorted(EXPECTED) == sorted(path.name for path in folder.glob("*.py")), "every example is here")
    for name, words in EXPECTED.items():
        with tempfile.TemporaryDirectory() as work:
            line = [sys.executable, "-W", "error", str(folder / name), work]
            ran = subprocess.run(line, check=False, capture_output=True, text=True)
        tap.ok(ran.returncode == 0 and words in ran.stdout, f"{name} comes to its end")
        if ran.returncode != 0:
            print("\n".join("# " + text for text in ran.stderr.splitlines()[-20:]))
    check_page()
else:
    tap.skip("the examples", "numpy is not installed")
tap.done()

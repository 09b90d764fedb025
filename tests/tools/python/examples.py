"""The examples of tools/python run from top to bottom, and say what they should.

Argument: their folder.
"""

import importlib.util
import pathlib
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
else:
    tap.skip("the examples", "numpy is not installed")
tap.done()

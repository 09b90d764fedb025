"""The package's types hold, by mypy.

Argument: the root of the sources, whose pyproject.toml says what is checked, and how.
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

if importlib.util.find_spec("mypy"):
    with tempfile.TemporaryDirectory() as cache:
        line = [sys.executable, "-m", "mypy", "--cache-dir", cache]
        ran = subprocess.run(line, check=False, capture_output=True, text=True, cwd=sys.argv[1])
    tap.ok(ran.returncode == 0, "mypy finds nothing")
    print("\n".join("# " + text for text in (ran.stdout + ran.stderr).splitlines()[-20:]))
else:
    tap.skip("types", "mypy is not installed")
tap.done()

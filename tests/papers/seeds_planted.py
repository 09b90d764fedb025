#!/usr/bin/env python3
"""The test gives seeds.py results of a planted command, and reads what it says of them. It prints TAP."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tap

# The planted command writes one study's results: the verdicts of a seed stand in VERDICTS, one for each finding.
COMMAND = """#!/usr/bin/env python3
import json, pathlib, sys
VERDICTS = {verdicts!r}
words = dict(zip(sys.argv, sys.argv[1:]))
seed, folder = words["--seed"], pathlib.Path(words["--out"]) / ("planted-" + words["--scale"])
folder.mkdir()
rows = [{{"reproduction": "planted", "what": "part %d, seed %s" % (i // 2, seed), "quantity": "loss",
         "judgement": verdict}} for i, verdict in enumerate(VERDICTS[seed])]
missed, judged = VERDICTS[seed].count("missed"), len(VERDICTS[seed]) - VERDICTS[seed].count("shown")
(folder / "result.json").write_text(json.dumps({{"rows": rows, "date": "2026-0%s-01T00:00:00Z" % seed,
    "device": "cpu", "device_name": "Machine " + seed, "commit": "commit" + seed,
    "summary": {{"reproduction": "planted", "scale": words["--scale"], "judged": judged, "missed": missed}}}}))
sys.exit(missed > 0)
"""


def run(verdicts):
    """What seeds.py prints of these verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        command = pathlib.Path(folder) / "command"
        command.write_text(COMMAND.format(verdicts=verdicts))
        command.chmod(0o755)
        return subprocess.run([sys.executable, HERE / "seeds.py", command, "ci", f"{folder}/out", *verdicts],
                              capture_output=True, text=True, check=False)


# Findings 0 and 1 have the same name but for their place; finding 3 is never judged.
ran = run({"3": ["met", "missed", "met", "shown", "met"], "5": ["met", "met", "missed", "shown", "met"],
           "4": ["met", "met", "missed", "shown", "met"]})
tap.ok("ok 4 - planted: part 0, seed, loss: met in 2 of 3 seeds\n" in ran.stdout, "two of three pass", ran.stdout)
tap.ok("not ok 5 - planted: part 1, seed, loss: met in 1 of 3 seeds\n" in ran.stdout, "one of three fails", ran.stdout)
tap.ok("not ok 6 - 2 of 4 findings are met by every seed\n" in ran.stdout, "the share", ran.stdout)
tap.ok("# | `planted` | ci | 2026-05-01 | Machine 5, `cpu` | commit5 | 3 of 4, 3 of 4, 3 of 4 |\n" in ran.stdout,
       "the row of the page", ran.stdout)
tap.ok(ran.returncode == 1 and "\n1..6\n" in ran.stdout, "a failure is an exit code of 1", ran.stdout)
ran = run({"1": ["met"] * 50, "2": ["missed"] + ["met"] * 49, "3": ["met"] * 50})
tap.ok("ok 5 - 49 of 50 findings are met by every seed\n" in ran.stdout and ran.returncode == 0, "98 % are enough",
       ran.stdout)
ran = run({"1": ["met"] * 49, "2": ["missed"] + ["met"] * 48, "3": ["met"] * 49})
tap.ok("not ok 5 - 48 of 49 findings are met by every seed\n" in ran.stdout, "less than that is not", ran.stdout)
ran = run({"1": ["shown"]})
tap.ok("not ok 2 - 0 of 0 findings" in ran.stdout, "no judged finding fails", ran.stdout)
tap.done()

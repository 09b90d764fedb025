"""Pictures by gnuplot, by the rules of the command (tools/picture.c)."""

from __future__ import annotations

import logging
import os
import pathlib
import subprocess
from typing import Any

from . import _library as library

_logger = logging.getLogger("iclab")
_ENDS = {".svg": b"</svg>", ".png": b"IEND"}


def find_gnuplot() -> str | None:
    """The gnuplot of PATH. Elements that are empty or relative are passed over: in the folder of a picture they would
    name a program that lies there."""
    for element in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(element, "gnuplot")
        if os.path.isabs(element) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _draw(folder: pathlib.Path, script: str) -> None:
    """Leaves no half of a picture, such as gnuplot does on a disk that is full."""
    gnuplot = find_gnuplot()
    if gnuplot is None:
        return
    # -d: without the settings of the user, or of a file in the folder
    done = subprocess.run([gnuplot, "-d", script], cwd=folder, check=False, capture_output=True)
    pictures = [(folder / script).with_suffix(suffix) for suffix in _ENDS]
    lost = [path for path in pictures if done.returncode != 0 or not _is_whole(path)]
    for path in lost:
        path.unlink(missing_ok=True)
        _logger.warning("%s was not drawn: %s", path, done.stderr.decode("utf-8", "replace").strip()[-200:])


def _is_whole(path: pathlib.Path) -> bool:
    return path.exists() and _ENDS[path.suffix] in path.read_bytes()[-16:]


class Drawing:
    """The callback that draws, and what was raised in it, such as Ctrl-C: the library sees a status alone. Where
    gnuplot is not installed, the data and scripts lie in the folder in any case."""

    def __init__(self, struct: str) -> None:
        self.callback = library.callback(struct, "draw", self._draw)
        self._raised: BaseException | None = None

    def _draw(self, _user: int, folder: bytes, script: bytes, _error: int) -> int:
        try:
            _draw(pathlib.Path(os.fsdecode(folder)), os.fsdecode(script))
        except BaseException as raised:
            self._raised = raised
            return library.constants["ICL_ERROR_INTERRUPTED"]
        return library.constants["ICL_OK"]

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library that draws, and raises what was raised meanwhile."""
        try:
            library.call(name, *arguments)
        except BaseException:
            if self._raised is None:
                raise
        if self._raised is not None:
            raise self._raised

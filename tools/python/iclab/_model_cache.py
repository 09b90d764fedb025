"""Models that the regressor trains by itself, kept from process to process by the rules of the kernels' cache
(src/core/cache.c): in a folder of the user's own that others cannot write to and that is no link, each with checksums,
so that one which is damaged is made anew. A lock keeps two processes from training the same one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import pathlib
import shutil
import stat
import tempfile
import threading
import time
from typing import Callable, Iterator

from . import _library as library
from .errors import FileError
from .recipes import Recipe
from .runs import Run
from .training import Progress, train

_logger = logging.getLogger("iclab")
_CHECKED = ("model.safetensors", "recipe.ini")
_SUMS = "sha256"
_SECONDS_BETWEEN_LINES = 10.0

_own_folder: list[tempfile.TemporaryDirectory[str]] = []
_one_at_a_time = threading.Lock()


def _cache_folder() -> pathlib.Path | None:
    """As icl_cache_folder: None where ICLAB_CACHE_DIR is empty, or where there is no home."""
    named, caches, home = (os.environ.get(name) for name in ("ICLAB_CACHE_DIR", "XDG_CACHE_HOME", "HOME"))
    if named is not None:
        return pathlib.Path(os.path.abspath(named)) if named else None
    if caches and caches.startswith("/"):
        return pathlib.Path(caches) / "iclab"
    return pathlib.Path(home) / ".cache" / "iclab" if home and home.startswith("/") else None


def _check_own(path: pathlib.Path, is_folder: bool) -> None:
    """Refuses what others could have put there."""
    facts = os.lstat(path)
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(facts.st_mode):
        raise FileError(f"{path}: expected a {'folder' if is_folder else 'file'} that is no symbolic link")
    if facts.st_uid != os.geteuid():
        raise FileError(f"{path}: belongs to another user: expected one's own")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FileError(f"{path}: others can write there: expected otherwise (chmod go-w makes it so)")


def _make_own(path: pathlib.Path) -> None:
    if not os.path.lexists(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    _check_own(path, is_folder=True)


def _folder() -> pathlib.Path:
    """Where models are kept: of this process alone where there is no cache, or none that can be used."""
    chosen = _cache_folder()
    if chosen is not None:
        try:
            _make_own(chosen / "models")
            if not os.access(chosen / "models", os.W_OK):
                raise FileError(f"{chosen / 'models'}: cannot be written")
            return chosen / "models"
        except OSError as failure:
            if not _own_folder:
                _logger.warning("%s; the regressor's models are kept in this process alone", failure)
    if not _own_folder:
        _own_folder.append(tempfile.TemporaryDirectory(prefix="iclab-"))
    return pathlib.Path(_own_folder[0].name)


def _sums(folder: pathlib.Path) -> str:
    return "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in _CHECKED)


def _find(folder: pathlib.Path) -> Run | None:
    """The run that is kept there; None where there is none, or where it is damaged or not to be trusted."""
    if not os.path.lexists(folder):
        return None
    try:
        _check_own(folder, is_folder=True)
        for name in (*_CHECKED, _SUMS):
            _check_own(folder / name, is_folder=False)
        if (folder / _SUMS).read_text(encoding="ascii") == _sums(folder):
            return Run(folder)
        reason = "its checksums are wrong"
    except (OSError, ValueError) as failure:
        reason = str(failure)
    _logger.warning("%s: %s; the model is trained anew", folder, reason)
    return None


@contextlib.contextmanager
def _lock(path: pathlib.Path) -> Iterator[None]:
    """Held against other processes, and given back when this one ends."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _logger.warning("%s: another process trains this model: waiting for it", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as failure:  # a file system without locks is no reason not to train
            _logger.warning("%s: %s: nothing keeps another process from training this model, too", path, failure)
        yield
    finally:
        os.close(file)


def _reporter(features: int) -> Callable[[Progress], None]:
    """Says every few seconds how far a training is."""
    said = time.monotonic()

    def report(now: Progress) -> None:
        nonlocal said
        if time.monotonic() - said > _SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            _logger.warning("the model for up to %d features: step %d of %d", features, now.step, now.total_steps)

    return report


def _remove(folder: pathlib.Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _train(recipe: Recipe, features: int, folder: pathlib.Path) -> None:
    rows = recipe.text("task.n")
    _logger.warning(
        "training a model for up to %d features by contexts of %s rows, once; it is kept in %s", features, rows, folder
    )
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        report = _reporter(features)
        made = train(recipe, out=pathlib.Path(scratch) / "run", device="cpu", evaluate=False, progress=report)
        (made.folder / _SUMS).write_text(_sums(made.folder), encoding="ascii")
        for path in (made.folder, *(made.folder / name for name in (*_CHECKED, _SUMS))):
            path.chmod(path.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
        _remove(folder)
        os.rename(made.folder, folder)


def trained(recipe: Recipe, features: int) -> Run:
    """The run of a recipe for so many features: that of the cache, or a new one. A new version of iclab trains anew."""
    key = hashlib.sha256(f"{library.version()}\n{recipe}".encode()).hexdigest()[:16]
    with _one_at_a_time:
        folder = _folder() / f"predict-d{features}-{key}"
        found = _find(folder)
        if found is None:
            with _lock(folder.with_name(folder.name + ".lock")):
                found = _find(folder)
                if found is None:
                    _train(recipe, features, folder)
                    found = Run(folder)
        return found

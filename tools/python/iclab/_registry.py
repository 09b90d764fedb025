"""Families of one's own in this process: the library's registry of what Task and Mixer make, and its calls into Python.

Recipes take the registry as it is when they are made. A family under a name that one of one's own has takes its place
in a new registry; old ones stay, because recipes and models hold on to them."""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import threading
from typing import Any, Callable, Protocol

from . import _library as library
from .errors import InputError

SOURCES = "own.py"  # in a run folder: the source of what it was trained with


class Family(Protocol):
    """What can be registered."""

    name: str
    kind: str  # "task" or "mixer"
    struct: Any  # the library's description, which is borrowed

    def source(self) -> str:
        """Its functions as they are written, for the run folder."""


class _Families:
    """The families by kind and name, and the library's registry of them, NULL without any."""

    def __init__(self) -> None:
        self.members: dict[tuple[str, str], Family] = {}
        self.pointer = ctypes.c_void_p()
        self.kept: list[Any] = []  # all that a registry of this process ever borrowed
        self.lock = threading.Lock()


_families = _Families()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_families.lock.acquire,
        after_in_parent=_families.lock.release,
        after_in_child=_families.lock.release,
    )


def register(family: Family) -> None:
    """Makes a family known to the recipes that are made from now on. InputError if the name is the library's own."""
    if not isinstance(family.name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.+-]*", family.name):
        raise InputError(f"name = {family.name!r}: expected a word of letters, digits and -, _, + or .")
    with _families.lock:
        members = {**_families.members, (family.kind, family.name): family}
        pointer = ctypes.c_void_p()
        library.call("icl_families_create", ctypes.byref(pointer))
        try:
            for (kind, _), member in members.items():
                library.call(f"icl_families_add_{kind}", pointer, ctypes.byref(member.struct))
        except BaseException:
            library.function("icl_families_destroy")(ctypes.byref(pointer))
            raise
        _families.members, _families.pointer = members, pointer
        _families.kept += [family, pointer]


def current() -> ctypes.c_void_p:
    """The registry, for a new recipe."""
    return _families.pointer


def named_in(task: str, mixers: str) -> list[Family]:
    """The families that a recipe names: values of task.family and model.mixer."""
    names = [("task", task), *(("mixer", word.strip()) for word in mixers.split(","))]
    return [_families.members[name] for name in dict.fromkeys(names) if name in _families.members]


def write_sources(folder: pathlib.Path, task: str, mixers: str) -> None:
    """Keeps the source of the families that a recipe names beside its run."""
    found = named_in(task, mixers)
    if found:
        parts = [f"# ---- {family.kind} {family.name} ----\n\n{family.source()}" for family in found]
        about = "# The functions of Python that this run was trained with, as they were written. Nothing reads this.\n"
        (folder / SOURCES).write_text("\n".join([about, *parts]), encoding="utf-8")


# ---- Calls from the library ----


def _told(address: int, message: str) -> int:
    error = library.at("icl_error", address)
    error.status = library.constants["ICL_ERROR_INPUT"]
    error.message = message.encode("utf-8", "replace")[: library.constants["ICL_ERROR_CAPACITY"] - 1]
    return int(error.status)


def callback(kind: str, member: str, label: str, function: Callable[..., None]) -> Any:
    """A function of the library's kind that returns an icl_status and takes an icl_error last. What Python raises is
    the library's failure, and comes out of the call that led here. The library calls from threads of its own, too;
    ctypes takes the interpreter's lock."""

    def called(*arguments: Any) -> int:
        try:
            function(*arguments[:-1])
            return library.constants["ICL_OK"]
        except BaseException as raised:
            return _told(arguments[-1], library.remember(label, raised))

    return library.callback(kind, member, called)


def fail_tape(tape: int, label: str, raised: BaseException) -> None:
    """The same for functions whose failures are a tape's."""
    error = library.struct("icl_error")
    _told(ctypes.addressof(error), library.remember(label, raised))
    library.function("icl_tape_fail")(tape, ctypes.byref(error))

"""The shared library: where it lies, its functions, and what it gives back.

ctypes releases the interpreter's lock during every call.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from typing import Any, Callable

from . import errors
from ._declarations import Declarations

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = HERE / "_native"  # what Meson installs, in a wheel
SOURCES = HERE.parent.parent.parent  # "/" has itself as its parent, so this works for a package in /FOLDER, too


def _find() -> tuple[pathlib.Path, pathlib.Path]:
    """The library's file, and the folder of its headers."""
    headers = INSTALLED / "include" / "iclab"
    if not headers.is_dir():
        headers = SOURCES / "include" / "iclab"
    named = os.environ.get("ICLAB_LIBRARY")
    if named:
        return pathlib.Path(named), headers
    for suffix in ("so*", "dylib"):
        for path in sorted((INSTALLED / "lib").glob(f"libiclab*.{suffix}")):
            return path, headers
    raise ImportError(
        f"iclab: no shared library in {INSTALLED / 'lib'}: install the package (pip install .), "
        "or name the library of a build in ICLAB_LIBRARY"
    )


def _find_drivers() -> None:
    """The OpenCL loader reads the drivers' names from one folder. Where that has none and the folder of NVIDIA's
    containers does, it is to read the latter, as in the command."""
    if os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH"):
        return
    folders = ["/etc/OpenCL/vendors"]
    folders += [f"/usr/local/nvidia/{name}OpenCL/vendors" for name in ("etc/", "", "share/")]
    for folder in folders:
        if any(pathlib.Path(folder).glob("*.icd")):
            if folder != folders[0]:
                os.environ["OCL_ICD_VENDORS"] = folder
            return


def _set_missing_path() -> None:
    """PoCL runs ld, and without a PATH it aborts the process."""
    if not os.environ.get("PATH"):
        os.environ["PATH"] = os.defpath


_find_drivers()
_set_missing_path()
path, headers = _find()
declared = Declarations(headers)
constants = declared.constants
_loaded = ctypes.CDLL(str(path))
_functions: dict[str, Any] = {}
_raised: dict[str, BaseException] = {}  # by Python functions that the library called, under what it was told


def remember(label: str, raised: BaseException) -> str:
    """Keeps what a function that the library called raised, for the call that led there; returns the line for it."""
    line = " ".join(f"{label}: {type(raised).__name__}: {raised}".split())[:2000]
    while len(_raised) > 16:  # of calls that never came back to Python
        del _raised[next(iter(_raised))]
    _raised[line] = raised
    return line


def _cause(message: str) -> BaseException | None:
    """What Python raised below a call that failed with this message. Ctrl-C goes on as it is."""
    for line in [line for line in _raised if line in message]:
        cause = _raised.pop(line)
        if not isinstance(cause, Exception):
            raise cause
        return cause
    return None


def function(name: str) -> Any:
    """A function of the library, with the types that its header declares."""
    if name not in _functions:
        found = getattr(_loaded, name)
        found.restype, found.argtypes = declared.signature(name)
        _functions[name] = found
    return _functions[name]


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns an icl_status and takes an icl_error last."""
    error = struct("icl_error")
    status = function(name)(*arguments, ctypes.byref(error))
    if status != constants["ICL_OK"]:
        message = error.message.decode("utf-8", "replace")
        raise errors.failure(status, message) from _cause(message)


def call_until(stop: ctypes.c_int, name: str, *arguments: Any) -> None:
    """The same in a thread of its own, while this one waits: what is raised here meanwhile, such as Ctrl-C, sets the
    flag that ends the call, and goes on behind it. Thread.join is no way to wait: what interrupts it makes Python 3.11
    believe that the thread has ended."""
    ended = threading.Event()
    failures: list[BaseException] = []
    raised: BaseException | None = None

    def work() -> None:
        try:
            call(name, *arguments)
        except BaseException as failure:
            failures.append(failure)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name=name)
    while not ended.is_set():
        try:
            if thread.ident is None and thread not in threading.enumerate():
                thread.start()
            ended.wait(1)
        except BaseException as interrupt:
            if isinstance(interrupt, RuntimeError) and thread.ident is None:
                raise  # no thread can be started
            raised, stop.value = interrupt, 1
    for failure in filter(None, (raised, *failures)):
        raise failure


def struct(kind: str, /, **members: Any) -> Any:
    """A struct of that name, zero but for these members. AttributeError where it has no such member."""
    made = declared.struct(kind)()
    for member, value in members.items():
        if not hasattr(made, member):
            known = ", ".join(field[0] for field in made._fields_)
            raise AttributeError(f"{kind} has no member {member}: expected one of {known}")
        setattr(made, member, value)
    return made


def at(name: str, address: int) -> Any:
    """The struct that lies at an address; it stays the library's."""
    return declared.struct(name).from_address(address)


def take_text(name: str, *arguments: Any) -> str:
    """Calls a function that writes a text of its own to its last argument before the error, and frees that."""
    text = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(text))
    try:
        return ctypes.string_at(text.value or 0).decode("utf-8", "replace") if text.value else ""
    finally:
        function("icl_text_free")(ctypes.byref(text))


def words(result: bytes | None) -> str:
    """A text that the library owns."""
    return (result or b"").decode("utf-8", "replace")


def encoded(text: str | os.PathLike[str]) -> bytes:
    """A text or a path for the library, to which a NUL would be its end."""
    if not isinstance(text, (str, bytes, os.PathLike)) or b"\0" in os.fsencode(text):
        raise errors.InputError(f"{text!r}: expected a text or a path, without NUL")
    return os.fsencode(text)


def callback(kind: str, member: str, of: Callable[..., Any]) -> Any:
    """Of a struct's member, or of a function type where there is no member. Keep it while it may be called."""
    return declared.callback(kind, member)(of)


def address_of(pointer: Any) -> ctypes.c_void_p:
    """For members that hold addresses."""
    return ctypes.cast(pointer, ctypes.c_void_p)


def version() -> str:
    """Of the library that runs."""
    return words(function("icl_version")())


_headers_version = ".".join(str(constants[f"ICL_VERSION_{part}"]) for part in ("MAJOR", "MINOR", "PATCH"))
if version() != _headers_version:
    raise ImportError(f"iclab: {path} is version {version()}: expected {_headers_version}, that of {headers}")

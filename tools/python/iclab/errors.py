"""Failures of the library as exceptions: the message is the library's own line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runs import Run


class Error(Exception):
    """Any failure of the library."""


class InputError(Error, ValueError):
    """A recipe, a shape, an option or a file's contents is wrong."""


class DeviceError(Error, RuntimeError):
    """A device, a driver or a kernel failed, or none was found."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class OutOfMemoryError(Error, MemoryError):
    """Memory of the host or of the device is exhausted."""


class DivergedError(Error, ArithmeticError):
    """Training met NaN or infinity."""


class InterruptedTraining(KeyboardInterrupt):
    """Ctrl-C ended a training; its checkpoint is written, and `run.resume()` goes on."""

    def __init__(self, message: str, run: Run | None = None) -> None:
        super().__init__(message)
        self.run = run


# In the order of icl_status.
_KINDS: tuple[type[BaseException] | None, ...] = (
    None,
    InputError,
    DeviceError,
    FileError,
    OutOfMemoryError,
    DivergedError,
    InterruptedTraining,
)


def failure(status: int, message: str) -> BaseException:
    """The exception of a status that is not ICL_OK."""
    kind = _KINDS[status] if 0 < status < len(_KINDS) else Error
    return (kind or Error)(message)

"""Devices, listed and opened. A device is opened once in a process, because its self-test takes time, and used by one
thread at a time."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from typing import Any, Callable, Sequence

from . import _library as library
from .errors import DeviceError, InputError
from .tables import Table

_logger = logging.getLogger("iclab")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def _log(_user: int, level: int, message: bytes) -> None:
    _logger.log(_LEVELS[level], "%s", library.words(message))


_log_callback = library.callback("icl_log_callback", "", _log)


def _log_struct() -> Any:
    level = library.constants["ICL_LOG_INFO"]
    return library.struct("icl_log", callback=library.address_of(_log_callback), level=level)


def devices() -> Table:
    """Lists what exists, each with the verdict of its self-test; the host's first."""
    rows, count = ctypes.c_void_p(), ctypes.c_size_t()
    log = _log_struct()
    library.call("icl_devices_list", ctypes.byref(log), ctypes.byref(rows), ctypes.byref(count))
    try:
        found = (library.declared.struct("icl_device") * count.value).from_address(rows.value or 0)
        return Table.from_rows([_describe(device) for device in found])
    finally:
        library.function("icl_devices_free")(ctypes.byref(rows))


def _describe(device: Any) -> dict[str, Any]:
    about = device.capabilities
    kind = library.words(library.function("icl_device_kind_name")(about.kind))
    return {
        "device": library.words(about.spec),
        "name": library.words(about.name),
        "kind": kind,
        "platform": library.words(about.platform),
        "driver": library.words(about.driver),
        "compute_units": about.compute_units,
        "global_memory": about.global_memory,
        "usable": bool(device.usable),
        "verdict": library.words(device.verdict),
    }


class Device:
    """A device that is open. `with device:` takes it for this thread; what it holds ends when nothing refers to it."""

    def __init__(self, spec: str | None) -> None:
        self.pointer = ctypes.c_void_p()
        params = library.struct(
            "icl_backend_params", spec=None if spec is None else library.encoded(spec), log=_log_struct()
        )
        library.call("icl_backend_open", ctypes.byref(params), ctypes.byref(self.pointer))
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._condemned: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        about = library.at("icl_capabilities", library.function("icl_backend_capabilities")(self.pointer))
        self.spec, self.name = library.words(about.spec), library.words(about.name)
        self.is_double = about.element_size == 8
        weakref.finalize(self, _close, self.pointer, self.process)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return self.pointer

    def __repr__(self) -> str:
        return f"<iclab device {self.spec}: {self.name}>"

    def __enter__(self) -> Device:
        self.check_process()
        self._lock.acquire()
        return self

    def check_process(self) -> None:
        """Refuses a device that a process before a fork opened: its threads are not in this one."""
        if os.getpid() != self.process:
            raise DeviceError(
                f"{self.spec}: opened in process {self.process}, before a fork: expected a device that this process "
                f"opens, as open_device({self.spec!r}) does"
            )

    def __exit__(self, *_: object) -> None:
        while self._condemned:
            end, arguments = self._condemned.pop()
            end(*arguments)
        self._lock.release()

    def end(self, end: Callable[..., None], *arguments: Any) -> None:
        """Frees something of this device: now, or after the call that is using it. Collection of garbage may come at
        any time and in any thread."""
        if os.getpid() != self.process:
            return  # a forked process has none of the threads
        self._condemned.append((end, arguments))
        if self._lock.acquire(blocking=False):
            self.__exit__()


def _close(pointer: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process:
        library.function("icl_backend_close")(ctypes.byref(pointer))


_open: dict[str | None, Device] = {}
_opening = threading.Lock()
if hasattr(os, "register_at_fork"):  # another thread may hold it
    os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_opening.release)


def open_device(device: str | Device | None = None) -> Device:
    """The device of a spec ("cpu", "ref", "opencl:TEXT", "auto"); None: $ICLAB_DEVICE, else "auto"."""
    if isinstance(device, Device):
        device.check_process()
        return device
    if device is not None and not isinstance(device, str):
        raise InputError(f"device = {device!r}: expected a device, or a text such as \"cpu\", without NUL")
    spec = device or os.environ.get("ICLAB_DEVICE") or None
    with _opening:
        found = _open.get(spec)
        if found is None or found.process != os.getpid():
            found = _open[spec] = Device(spec)
        return found


def spec_of(device: str | Device | None) -> str | None:
    """The text that names a device to the command."""
    return device.spec if isinstance(device, Device) else device


def call_on(devices: Sequence[Device], name: str, *arguments: Any) -> None:
    """Calls a function that works on devices, which the caller has taken. Ctrl-C ends it with their next op."""
    stop, stop_on = ctypes.c_int(0), library.function("icl_backend_stop_on")
    for device in devices:
        stop_on(device, ctypes.byref(stop))
    try:
        library.call_until(stop, name, *arguments)
    finally:
        for device in devices:
            stop_on(device, None)


class Handle:
    """An object of the library: its address, destroyed with the last reference. What it uses stays until then."""

    def __init__(self, destroy: str, device: Device | None = None) -> None:
        self.pointer = ctypes.c_void_p()
        self.device = device
        self._finalizer = weakref.finalize(self, _destroy, destroy, self.pointer, device)

    def release(self) -> None:
        """Destroys it now."""
        self._finalizer()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """As an argument: the call keeps the object until it returns."""
        return self.pointer

    @property
    def slot(self) -> Any:
        """For the function that makes it."""
        return ctypes.byref(self.pointer)


def _destroy(function: str, pointer: ctypes.c_void_p, device: Device | None) -> None:
    if device is None:
        library.function(function)(ctypes.byref(pointer))
    else:
        device.end(library.function(function), ctypes.byref(pointer))

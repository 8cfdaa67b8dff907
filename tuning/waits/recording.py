"""Records the sleeps of running threads with the kernel's own trace (ftrace).

No other program is needed. A trace instance is made and removed again; other users of the trace are not disturbed.
Where the trace's file system is not mounted, it is mounted for this process alone. Only root can do that.
"""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import TuningError
from .sleeps import Sleep, SleepReader

_PLACES: Final = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_INSTANCE: Final = "highwater-waits-"
_BUFFER_KIB: Final = 8192
_SWITCH: Final = "events/sched/sched_switch"
_STACK_OF_A_SLEEP: Final = "stacktrace if prev_state & 2"
"""2 is TASK_UNINTERRUPTIBLE (include/linux/sched.h)."""
_HOST_PROCESS_NAMESPACE: Final = 0xEFFFFFFC
"""PROC_PID_INIT_INO: the trace has the process ids of this namespace only."""
_CLONE_NEWNS: Final = 0x20000
_MS_REC_PRIVATE: Final = 0x4000 | 0x40000
_READ_BYTES: Final = 1 << 20
_POLL_MS: Final = 100


@dataclass(frozen=True)
class Recorded:
    """What happened in `seconds`. processes: the one that was asked for first, then those that it started.

    lost_events: dropped by the kernel; there may be more sleeps than these. waited_for_processor_s:
    of the main threads together, while they could have run.
    """

    seconds: float
    sleeps: tuple[Sleep, ...]
    processes: tuple[int, ...]
    lost_events: int
    waited_for_processor_s: float
    has_ended: bool
    """Whether the program ended meanwhile."""


def find_process(name: str) -> int:
    """Return the process with this id, or the main process of the systemd unit of this name. Raises TuningError."""
    if name.isdecimal():
        if not Path(f"/proc/{int(name)}/task").exists():
            raise TuningError(f"there is no process {name}; name one that runs, or a service unit")
        return int(name)
    try:
        shown = subprocess.run(
            ["systemctl", "show", "--property=MainPID", "--value", "--", name],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        raise TuningError(f"{name!r} is not a process id, and this host has no systemctl to find a unit") from None
    process = shown.stdout.strip()
    if not process.isdecimal() or process == "0":
        raise TuningError(f"{name!r} is neither the id of a process nor a service unit that runs now")
    return int(process)


def record(process: int, seconds: float, goes_on: Callable[[], bool]) -> Recorded:
    """Record a process and its children for so long, or while `goes_on()` is True. Raises TuningError."""
    if Path("/proc/self/ns/pid").stat().st_ino != _HOST_PROCESS_NAMESPACE:
        raise TuningError("the kernel's trace knows the processes of the host only; call this outside of the container")
    if os.geteuid() != 0:
        raise TuningError("the kernel's trace is for root; call this with sudo")
    processes = _with_children(process)
    reader = SleepReader(frozenset(thread for one in processes for thread in _threads(one)))
    sleeps: list[Sleep] = []
    with _instance(_trace_folder()) as instance:
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _begin(instance, reader)
            waited_s = sum(map(_waited_for_processor_s, processes))
            began_s = time.monotonic()
            lines = _Lines(pipe)
            while time.monotonic() - began_s < seconds and _runs(process) and goes_on():
                for line in lines.read():
                    sleeps += reader.feed(line)
            took_s = time.monotonic() - began_s
            waited_s = sum(map(_waited_for_processor_s, processes)) - waited_s
            _write(instance / "tracing_on", "0")
            while rest := lines.read():
                for line in rest:
                    sleeps += reader.feed(line)
        finally:
            os.close(pipe)
    return Recorded(took_s, tuple(sleeps), tuple(processes), reader.lost_events, max(0.0, waited_s), not _runs(process))


class _Lines:
    """The whole lines of the trace so far; waits a moment for the first ones."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._rest = ""

    def read(self) -> list[str]:
        self._poll.poll(_POLL_MS)
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        return lines


def _begin(instance: Path, reader: SleepReader) -> None:
    _write(instance / "buffer_size_kb", str(_BUFFER_KIB))
    descriptor = os.open(instance / "set_event_pid", os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        for thread in sorted(reader.threads):
            os.write(descriptor, b"%d\n" % thread)
    finally:
        os.close(descriptor)
    _write(instance / _SWITCH / "trigger", _STACK_OF_A_SLEEP)
    _write(instance / _SWITCH / "enable", "1")


@contextmanager
def _instance(folder: Path) -> Iterator[Path]:
    """Make an instance of the trace, and remove it; also those that killed runs left behind."""
    instances = folder / "instances"
    for left in instances.glob(f"{_INSTANCE}*"):
        if not _runs(int(left.name.removeprefix(_INSTANCE))):
            with suppress(OSError):
                left.rmdir()
    instance = instances / f"{_INSTANCE}{os.getpid()}"
    try:
        instance.mkdir()
    except OSError as error:
        raise TuningError(f"the kernel refuses a trace ({error}); its lockdown mode forbids it, for example") from None
    try:
        if not (instance / _SWITCH / "trigger").exists():
            raise TuningError("this kernel traces no events (CONFIG_EVENT_TRACING); use a kernel of the distribution")
        yield instance
    finally:
        # A reader that has just closed may still hold it for a moment.
        for _ in range(20):
            with suppress(OSError):
                instance.rmdir()
                break
            time.sleep(0.05)


def _trace_folder() -> Path:
    for place in _PLACES:
        if (place / "instances").is_dir():
            return place
    place = _PLACES[0]
    if "tracefs" not in Path("/proc/filesystems").read_text("utf-8") or not place.is_dir():
        raise TuningError("this kernel has no trace (CONFIG_FTRACE); use a kernel of the distribution")
    libc = ctypes.CDLL(None, use_errno=True)
    steps = (
        (libc.unshare, (_CLONE_NEWNS,)),
        (libc.mount, (b"none", b"/", None, _MS_REC_PRIVATE, None)),
        (libc.mount, (b"tracefs", os.fsencode(place), b"tracefs", 0, None)),
    )
    for function, arguments in steps:
        if function(*arguments) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise TuningError(f"the kernel's trace cannot be mounted on {place} ({reason}); mount it, or be root")
    return place


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "ascii")
    except OSError as error:
        raise TuningError(f"{path} cannot be written ({error})") from None


def _with_children(process: int) -> list[int]:
    """Return the process and all that it started, such as the brokers of `--processes N`."""
    found = [process]
    for parent in found:  # grows meanwhile
        for thread in _threads(parent):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{parent}/task/{thread}/children").read_text("ascii").split())
    return found


def _threads(process: int) -> list[int]:
    try:
        return [int(thread.name) for thread in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return []


def _runs(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _waited_for_processor_s(process: int) -> float:
    """How long the main thread was ready to run, and no processor was free (proc(5), schedstat)."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0

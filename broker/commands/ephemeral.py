"""What a broker for a test needs: a temporary folder that surely goes away, and a ready descriptor."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from highwater.common.errors import UsageError, text_of

FOR_TESTS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Defaults of a broker for a test, where a group has few members: with Kafka's, the first record takes it 3 s."""
_STOP_WITHIN_MS: Final = 20_000
_REMOVE_WITHIN_S: Final = 20.0
_DESCRIPTORS: Final = 1 << 20


@contextmanager
def guarded_folder() -> Iterator[Path]:
    """Make a temporary folder that is removed at the end, also after SIGKILL of this process.

    A second process, the guard, waits for the end of this one and of its parent. When the parent has ended, however
    that came, it stops this process with SIGTERM. It has pidfds of both: PR_SET_PDEATHSIG would already come when the
    thread ends that has started this process, and standard input can be /dev/null or a script. Raises UsageError.

    No thread may have been started before.
    """
    import tempfile  # here, as only this broker needs it

    try:
        folder = Path(tempfile.mkdtemp(prefix="highwater-"))
    except OSError as error:
        raise UsageError(f"no temporary folder can be made: {text_of(error)}; set TMPDIR to one that exists") from None
    parent = os.getppid()  # 0: it is outside of this container
    watched = [os.pidfd_open(os.getpid()), *([os.pidfd_open(parent)] if parent else [])]
    guard = os.fork()
    if not guard:
        _guard(folder, *watched)
    for descriptor in watched:
        os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        # Where nobody adopts processes, as in many containers, a guard that ends later would stay as a zombie.
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)


def _guard(folder: Path, guarded: int, *parent: int) -> NoReturn:
    """Remove the folder when the guarded process has ended, and stop that when its parent has. Both are pidfds."""
    os.setsid()  # Ctrl-C is for the others
    lowest = 0
    # Who reads the output of the guarded process would otherwise wait for the guard too.
    for kept in sorted((guarded, *parent)):
        os.closerange(lowest, kept)
        lowest = kept + 1
    os.closerange(lowest, _DESCRIPTORS)
    if guarded not in _ended([guarded, *parent]):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(guarded, signal.SIGTERM)
            if not _ended([guarded], _STOP_WITHIN_MS):
                signal.pidfd_send_signal(guarded, signal.SIGKILL)
    _ended([guarded])
    deadline_s = time.monotonic() + _REMOVE_WITHIN_S
    while folder.exists() and time.monotonic() < deadline_s:
        shutil.rmtree(folder, ignore_errors=True)  # its processes may write until they end too
        time.sleep(0.02)
    os._exit(0)


def _ended(pidfds: Sequence[int], timeout_ms: int | None = None) -> set[int]:
    """Wait until one of the processes has ended, and return those that have."""
    poll = select.poll()
    for each in pidfds:
        poll.register(each, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(timeout_ms)}


def check_ready_fd(descriptor: int) -> None:
    """Raises UsageError unless it is open for writing. Programs that the broker starts do not get it."""
    try:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    except OSError:
        raise UsageError(
            f"--ready-fd {descriptor} is not open: open it in the process that starts the broker, or use 1"
        ) from None
    if flags & os.O_ACCMODE == os.O_RDONLY:
        raise UsageError(f"--ready-fd {descriptor} is open for reading alone: give the end of the pipe that is written")
    os.set_inheritable(descriptor, descriptor <= 2)

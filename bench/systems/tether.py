"""Run a command that dies with the process that started it, however that one dies.

`python -P bench/systems/tether.py PARENT_PID COMMAND…` asks the kernel to kill it when its parent ends (prctl(2),
PR_SET_PDEATHSIG, which survives execve), then becomes the command. A wrapper of its own, because running Python between
fork and exec inside a process with threads (preexec_fn) can deadlock.

The tether holds one process only. A command that starts others (a shell script around a broker) is run with `--guard`:
the wrapper stays as their parent, hands SIGTERM on, and when its own parent ends, kills all that run under it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GUARD = "--guard"


def command(arguments: list[str], *, guard: bool = False) -> list[str]:
    """`arguments`, tethered to the calling process; guard: and with everything that they start."""
    # As a file, not as a module: PYTHONPATH may name another checkout, for the command and not for its tether.
    wrapper = [sys.executable, "-P", str(Path(__file__)), str(os.getpid())]
    return [*wrapper, *([_GUARD] if guard else []), *arguments]


def main() -> None:
    parent, *arguments = sys.argv[1:]
    guard = arguments[0] == _GUARD
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM if guard else signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)  # the parent ended before the tether held
    try:
        if guard:
            _guard(arguments[1:], int(parent))
        os.execvp(arguments[0], arguments)
    except OSError as error:
        sys.exit(f"cannot run {arguments[1 if guard else 0]}: {error.strerror}")


def _guard(arguments: list[str], parent: int) -> None:
    """Run a command to its end and end like it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what its children leave behind becomes ours, and is found by _descendants
    child = subprocess.Popen(arguments)

    def asked_to_end(_: int, __: FrameType | None) -> None:
        if os.getppid() == parent:
            child.terminate()
        else:
            _kill_descendants()

    signal.signal(signal.SIGTERM, asked_to_end)
    code = child.wait()
    _kill_descendants()
    if code < 0:
        if -code == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _kill_descendants() -> None:
    """Until none is left: one that is about to start another must not get away."""
    while children := _children(os.getpid()):
        for process_id in _below(children):
            try:
                os.kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process_id in children:
            try:
                os.waitpid(process_id, 0)
            except ChildProcessError:
                continue


def _below(process_ids: list[int]) -> list[int]:
    return process_ids + [found for process_id in process_ids for found in _below(_children(process_id))]


def _children(process_id: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]
    except OSError:
        return []  # it has ended


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


if __name__ == "__main__":
    main()

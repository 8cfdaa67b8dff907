"""Run a command that dies with the process that started it, however that one dies.

`python -P -m bench.tether PARENT_PID COMMAND…` asks the kernel to kill it when its parent ends (prctl(2),
PR_SET_PDEATHSIG, which survives execve), then becomes the command. A wrapper of its own, because running Python between
fork and exec inside a process with threads (preexec_fn) can deadlock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def command(arguments: list[str]) -> list[str]:
    """`arguments`, tethered to the calling process."""
    return [sys.executable, "-P", "-m", "bench.tether", str(os.getpid()), *arguments]


def main() -> None:
    parent, *arguments = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        sys.exit(1)  # the parent ended before the tether held
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        sys.exit(f"cannot run {arguments[0]}: {error.strerror}")


if __name__ == "__main__":
    main()

"""`python -m spark_loadgen.process_worker FD`: a process that runs load tasks for ProcessLauncher, one after the other.

FD is its end of a connection on which jobs come and outcomes go. It ends when the other end is closed, in the middle of
a load too: then whoever launched it is gone.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection

from highwater.spark_loadgen.task import Job, Outcome, run_task


def main() -> None:
    """Serve until the connection ends."""
    # An interrupt at the terminal reaches all its processes; the driver alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    jobs: queue.SimpleQueue[tuple[Job, int]] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(connection, jobs), name="jobs", daemon=True).start()
    while True:
        job, task = jobs.get()
        answer: Outcome | Exception
        try:
            answer = run_task(job, task)
        except Exception as error:
            answer = error
        connection.send(answer)


def _read_jobs(connection: Connection, jobs: queue.SimpleQueue[tuple[Job, int]]) -> None:
    try:
        while True:
            jobs.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)  # the load, if any, is nobody's any more


if __name__ == "__main__":
    main()

"""`python -m highwater.spark_loadgen.process_worker FD`: runs load tasks for ProcessLauncher.

FD is this process's end of a connection that receives jobs and sends outcomes. The process ends when the launcher
closes its end or is gone, even in the middle of a load.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection

from highwater.spark_loadgen.task import Job, TaskOutcome, run_task


def main() -> None:
    """Serve until the connection ends."""
    # Ctrl-C reaches all processes of the terminal; only the driver handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    jobs: queue.SimpleQueue[tuple[Job, int]] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(connection, jobs), name="jobs", daemon=True).start()
    while True:
        job, task = jobs.get()
        answer: TaskOutcome | Exception
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
        os._exit(0)  # nobody waits for the outcome of a running load


if __name__ == "__main__":
    main()

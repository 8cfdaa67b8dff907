"""Drill what a stranger can do before a login: hostile bytes by seed, while an honest client is served.

    python -m tests.drills.before_login --cases 20000
    python -m tests.drills.before_login --seconds 3600 --seed 7
    python -m tests.drills.before_login --seed 7 --case 4711

A broker with SASL, with SASL over TLS and with TLS alone gets hostile connections, some at a time, and a crowd of idle
ones at the begin. Meanwhile a stock client logs in, writes and reads. The exit status is 1 if the client was refused or
a record was lost, if the broker ended, if its log tells of a bug or has the password, or if its memory grew by more
than `MOST_GROWTH_BYTES`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.drills.before_login.drill import Failed, drill


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drills.before_login")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=None, help="end after so many cases (20,000)")
    parser.add_argument("--seconds", type=float, default=None, help="end after so many seconds")
    parser.add_argument("--idle", type=int, default=2000, help="connections that do nothing, at the begin")
    parser.add_argument("--case", type=int, default=None, help="this case alone")
    options = parser.parse_args()
    first = options.case or 0
    most = 1 if options.case is not None else options.cases
    if most is None and options.seconds is None:
        most = 20_000
    ends_s = time.monotonic() + options.seconds if options.seconds is not None else float("inf")
    with tempfile.TemporaryDirectory(prefix="before-login-") as directory:
        try:
            result = drill(Path(directory), options.seed, first, most, ends_s, options.idle, tell=_tell)
        except Failed as failure:
            _tell(f"FAILED: {failure}")
            return 1
    _tell(result.text())
    return 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Let every file operation in a broker's life fail, be where it is killed, or be where the power goes: one at a time.

    python -m tests.drills.every_operation

What is lived, on a simulated disk, and what must hold afterwards stands in `tests/broker/one_life.py`. Exit status 1
when a promise is broken; the operation's number and the trouble are told.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable

from tests.broker.one_life import CRASHES, FAILURES, crash, fail


def every_operation(live: Callable[[int, str], bool], how: str) -> int:
    """Try one kind of trouble at each operation in turn; how many times a promise was broken."""
    number = broken = 0
    is_reached = True
    while is_reached:
        try:
            is_reached = live(number, how)
        except Exception:
            broken += 1
            print(f"{how}, operation {number}:\n{traceback.format_exc()}")
        number += 1
    print(f"{how}: {number - 1} operations, {broken} broken promises", flush=True)
    return broken


def main() -> int:
    logging.disable(logging.CRITICAL)
    broken = sum(every_operation(fail, how) for how in FAILURES)
    broken += sum(every_operation(crash, how) for how in CRASHES)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

"""A process that writes one batch of ten rows for the tests, and prints what became of it.

Run as `python -m tests.pipeline.database.driver URL BATCH [KEY]`; the tests stop it at crash points.
"""

from __future__ import annotations

import sys

from highwater.pipeline.errors import PipelineError
from tests.pipeline.database.tables import Database, batch, ten, write


def main(url: str, number: int, key: list[str]) -> int:
    try:
        decision = write(Database(url).writer(key=key), batch(number), ten(number))
    except PipelineError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{decision.value}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))

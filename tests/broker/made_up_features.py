"""`python -m tests.broker.made_up_features …`: the command highwater, whose broker has a feature that only tests have.

The processes that a broker of several processes starts are without it.
"""

from __future__ import annotations

import sys
from typing import Final

from highwater.broker import features

COMMAND: Final = (sys.executable, "-m", "tests.broker.made_up_features")
COLOUR: Final = features.Range(0, 2)


def main() -> None:
    vars(features)["SERVED"] = {**features.SERVED, "colour": COLOUR}
    from highwater.cli import main as highwater  # only now, as other modules take the table when they are imported

    highwater()


if __name__ == "__main__":
    main()

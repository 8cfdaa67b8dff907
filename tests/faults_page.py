"""Writes the table of kinds into docs/faults.md: `make docs`, or `python -m tests.faults_page`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from highwater.broker.faults.kinds import ALL, KINDS, FaultKind
from highwater.broker.faults.request import CONNECT

PAGE: Final = Path(__file__).parent.parent / "docs/faults.md"
_TABLE: Final = re.compile(r"(?<=<!-- kinds -->\n).*?(?=<!-- end of kinds -->)", re.DOTALL)


def page() -> str:
    """The page with the table as the code has it."""
    rows = "\n".join(map(_row, KINDS.values()))
    table = f"\n| kind | what it does | APIs | parameters |\n|---|---|---|---|\n{rows}\n\n"
    return _TABLE.sub(lambda _: table, PAGE.read_text("utf-8"))


def _row(kind: FaultKind) -> str:
    parameters = "; ".join(
        f"`{name}`: {each.says.rstrip('.')} ({each.default})" for name, each in kind.parameters.items()
    )
    return f"| `{kind.name}` | {kind.says} | {_apis(kind)} | {parameters} |"


def _apis(kind: FaultKind) -> str:
    without = [name for name in ALL if name not in kind.apis]
    if len(without) < len(ALL) // 2:
        more = " and Connect" if CONNECT in kind.apis else ""
        return f"all{more}" + (f" but {', '.join(without)}" if without else "")
    return ", ".join(kind.apis)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

"""The exit codes of `highwater tune`."""

from __future__ import annotations

from typing import Final

AS_WANTED: Final = 0
DIFFERS: Final = 1
REFUSED: Final = 2
CHANGED_IN_PART: Final = 3
"""A change failed part-way, and the rollback of the changes before it failed too; the journal stays."""
INTERRUPTED: Final = 130

SUMMARY: Final = (
    "Exit codes: 0 as wanted, or done; 1 something differs; 2 a mistake in the call, or refused with nothing changed; "
    "3 failed part-way, highwater tune rollback restores what was there before; 130 interrupted."
)

"""The exit codes of `highwater tune`, for scripts, and the sentences that say them in each verb's help."""

from __future__ import annotations

from typing import Final

AS_WANTED: Final = 0
DIFFERS: Final = 1
REFUSED: Final = 2
CHANGED_IN_PART: Final = 3
"""A change failed on its way; the journal holds the way back."""
INTERRUPTED: Final = 130

SUMMARY: Final = (
    "Exit codes: 0 as wanted, or done; 1 something differs; 2 a mistake in the call, or refused with nothing changed; "
    "3 a change failed part-way, and the journal holds the way back; 130 interrupted."
)

"""Exit codes of `highwater pipeline …`: stable and documented, one meaning each."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
"""A mistake in the call, the file or the set-up."""
EXIT_DATA_LOSS: Final = 3
"""Records are gone that were to be read."""
EXIT_FAILED: Final = 5
"""Everything else: a step, a broker or a sink failed. What was committed is kept, and a restart goes on from there."""
EXIT_INTERRUPTED: Final = 130
"""Stopped by a second signal, in the middle of a batch."""

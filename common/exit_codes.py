"""The exit codes of every command: stable, one meaning each, documented in docs/exit-codes.md."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
"""Done, and the answer is yes."""
EXIT_NO: Final = 1
"""The answer is no (something differs, does not fit, is not healthy), or the work failed or was refused."""
EXIT_USAGE: Final = 2
"""A usage error: a mistake in the call, a file or the set-up. Nothing was changed, and finished work is kept."""
EXIT_DAMAGE: Final = 3
"""Records were lost or damaged, a broker under test failed, or a host was left changed in part."""
EXIT_INVALID: Final = 4
"""A measurement that must not be believed, or a result that is damaged or contradicts itself."""
EXIT_ENVIRONMENT: Final = 5
"""The two results were not measured under the same conditions."""
EXIT_STEP_FAILED: Final = 5
"""For `highwater pipeline`: a step, a broker or a sink failed. A restart continues from what was committed.

The only number with two meanings: gates skip on the one, supervisors of pipelines retry on the other.
"""
EXIT_LOAD: Final = 6
"""The two results had different loads."""
EXIT_REGRESSION: Final = 10
"""A check confirmed a fault: a regression, or a guarantee that does not hold."""
EXIT_INCONCLUSIVE: Final = 11
"""Undecided; only with --strict."""
EXIT_OBJECTIVE: Final = 12
"""All trials are usable, but at least one missed an objective (slo:)."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM; what was finished before is kept."""

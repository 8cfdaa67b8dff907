"""Exit codes: stable, documented in docs/bench.md, one meaning each."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_DOES_NOT_FIT: Final = 1
"""Only of `highwater plan`: the load does not fit."""
EXIT_USAGE: Final = 2
"""A mistake in the call, a file or the set-up; trials finished before it showed are kept."""
EXIT_TARGET: Final = 3
"""The system under test failed, or lost or damaged records."""
EXIT_INVALID: Final = 4
"""A measurement that must not be believed, or a result directory that contradicts itself."""
EXIT_ENVIRONMENT: Final = 5
"""The two results were not measured under the same conditions."""
EXIT_LOAD: Final = 6
"""The two results had different loads."""
EXIT_REGRESSION: Final = 10
EXIT_INCONCLUSIVE: Final = 11
"""Only with --strict."""
EXIT_OBJECTIVE: Final = 12
"""Every trial is a measurement, and some usable one missed an objective (slo:)."""
EXIT_INTERRUPTED: Final = 130

# Of `bench run`, for its last line.
MEANINGS_OF_A_RUN: Final = {
    EXIT_USAGE: "a mistake in the call, the workload or the set-up",
    EXIT_TARGET: "the broker failed, or lost or damaged records",
    EXIT_INVALID: "some trial is no valid measurement",
    EXIT_OBJECTIVE: "an objective was missed",
    EXIT_INTERRUPTED: "interrupted",
}

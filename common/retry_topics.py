"""Names of topics of retries and dead letters: the pipeline makes them, and the monitor finds them."""

from __future__ import annotations

from typing import Final

DEAD_LETTER_PREFIX: Final = "dlq."
"""The default prefix of KIP-1191: `dlq.TOPIC.GROUP`."""
RETRY_SUFFIX: Final = ".retry"
"""`TOPIC.GROUP.retry` has the records that are due again; `TOPIC.GROUP.retry.10s` those that wait."""
PARKED_SUFFIX: Final = ".retry.parked"
"""The state of failing keys."""

"""The error of a fenced producer, by the API version of its client (KIP-588)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


def for_version(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """Return `error`, but INVALID_PRODUCER_EPOCH for PRODUCER_FENCED if the version does not have PRODUCER_FENCED."""
    is_unknown = error is ErrorCode.producer_fenced and not knows_fenced
    return ErrorCode.invalid_producer_epoch if is_unknown else error

"""Which error a fenced producer gets, by the API version that its client speaks (KIP-588)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


def as_known(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """`error`, with INVALID_PRODUCER_EPOCH for PRODUCER_FENCED where the version does not have that."""
    is_unknown = error is ErrorCode.producer_fenced and not knows_fenced
    return ErrorCode.invalid_producer_epoch if is_unknown else error

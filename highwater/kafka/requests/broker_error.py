"""The error that a broker answered, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.kafka.client.request import error_text

RETRIED: Final = frozenset(code for code in ErrorCode if code.retriable)


@dataclass(frozen=True, slots=True)
class BrokerError:
    """An error code, and what the broker said about it, if anything."""

    code: ErrorCode
    detail: str = ""

    @property
    def name(self) -> str:
        """The name in Kafka's documentation, such as NOT_LEADER_OR_FOLLOWER."""
        return self.code.name.upper()

    @property
    def is_retriable(self) -> bool:
        """Whether the same request can succeed later. The client has retried it until its time was up."""
        return self.code in RETRIED

    def __str__(self) -> str:
        return error_text(self.code, self.detail)


def error_of(code: ErrorCode, detail: str | None = None) -> BrokerError | None:
    return None if code is ErrorCode.none else BrokerError(code, detail or "")


LEFT_OUT: Final = BrokerError(ErrorCode.unknown_topic_or_partition, "the answer leaves the partition out")
"""An answer without a partition says nothing about it, least of all that it is gone."""

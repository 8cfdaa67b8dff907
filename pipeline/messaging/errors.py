"""What ends a mover, a consumer or a replay, and what only ends a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.pipeline.errors import PipelineError


class MessagingError(PipelineError):
    """It cannot go on. Nothing is lost: what was not committed is read again by the next one."""


class NotCommittedError(MessagingError):
    """The transaction was aborted: nothing of it is written, and it can be tried again."""


class RejectedError(MessagingError):
    """The broker does not take some records, however often they are sent; nothing of the transaction is written."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        """`reasons`: by the index of the record."""
        super().__init__("; ".join(sorted(set(reasons.values()))))
        self.reasons = dict(reasons)

    def __reduce__(self) -> tuple[type[RejectedError], tuple[dict[int, str]]]:
        """Errors of this room can be pickled."""
        return type(self), (self.reasons,)

"""Why a request was not carried out: the error code and the message that the client gets."""

from __future__ import annotations

from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode


class Problem(NamedTuple):
    error_code: ErrorCode
    message: str


def error_fields(problem: Problem | None) -> dict[str, Any]:
    """The two fields of an answer that say what became of one thing; None if it was carried out."""
    if problem is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": problem.error_code, "error_message": problem.message}

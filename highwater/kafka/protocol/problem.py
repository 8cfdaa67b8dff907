"""Why a request was not carried out: the error code and the message that the client gets."""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode


class Problem(NamedTuple):
    error_code: ErrorCode
    message: str

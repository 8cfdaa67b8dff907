"""The Java that systems of others run on."""

from __future__ import annotations

from highwater.common.errors import MissingDependencyError, UsageError
from highwater.common.java import find_java


def java_for(purpose: str) -> str:
    """The first `java` of this host. Raises UsageError when there is none."""
    try:
        return str(find_java(purpose))
    except MissingDependencyError as error:
        raise UsageError(str(error)) from None

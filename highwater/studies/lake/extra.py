"""Names the extra `lake` when one of its packages is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from highwater.common.errors import UsageError
from highwater.common.extras import how_to_install


@contextmanager
def named_extra() -> Iterator[None]:
    """Raises UsageError with the extra `lake` when one of its packages is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("duckdb", "pyarrow"):
            raise
        raise UsageError(f"a lake needs {error.name}, which is not installed: {how_to_install('lake')}") from None

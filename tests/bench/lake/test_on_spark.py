from __future__ import annotations

import pytest

from highwater.bench.lake.on_spark import session
from highwater.common.errors import UsageError


def test_a_master_that_is_none_is_one_line_before_java_starts() -> None:
    with pytest.raises(UsageError, match=r"^'bogus' is not a Spark master: use local"), session("bogus"):
        pass

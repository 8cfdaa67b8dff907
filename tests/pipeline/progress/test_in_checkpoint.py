"""The offsets that Spark writes into a checkpoint, as a sink over Spark Connect reads them."""

from __future__ import annotations

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.progress.in_hand import offsets_of_log

LOG = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1795962649764,"conf":{}}
{"orders":{"0":10,"1":0},"#ids":{"orders":"8a4c2f66-6c60-4e52-8a5a-0a4ad0a4f0f7"}}
0
-
{"payments":{"0":3}}"""


def test_each_source_has_its_offsets_and_those_without_topics_have_none() -> None:
    found = offsets_of_log(LOG)
    assert [dict(each.next) for each in found] == [{("orders", 0): 10, ("orders", 1): 0}, {}, {}, {("payments", 0): 3}]
    assert set(found[0].ids) == {"orders"}


def test_a_version_of_another_spark_is_refused() -> None:
    with pytest.raises(SettingsError, match="in version v2, and only v1 can be read"):
        offsets_of_log("v2\n{}\n{}")

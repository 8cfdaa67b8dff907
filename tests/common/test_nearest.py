"""The hint at what somebody meant."""

from __future__ import annotations

from highwater.common.nearest import did_you_mean, nearest


def test_a_near_name_is_found_and_a_strange_one_is_not() -> None:
    assert nearest("partitons", ["partitions", "replicas"]) == "partitions"
    assert did_you_mean("partitons", iter(["partitions", "replicas"])) == "; did you mean partitions?"
    assert nearest("xyz", ["partitions"]) is None
    assert did_you_mean("xyz", ["partitions"]) == ""

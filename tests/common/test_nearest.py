"""The hint at what somebody meant."""

from __future__ import annotations

import re

from highwater.common.nearest import did_you_mean, nearest, no_topic
from tests.import_graph import ROOT, place_of, rooms


def test_a_near_name_is_found_and_a_strange_one_is_not() -> None:
    assert nearest("partitons", ["partitions", "replicas"]) == "partitions"
    assert did_you_mean("partitons", iter(["partitions", "replicas"])) == "; did you mean partitions?"
    assert nearest("xyz", ["partitions"]) is None
    assert did_you_mean("xyz", ["partitions"]) == ""


def test_a_topic_that_is_not_in_a_list_may_be_hidden() -> None:
    assert no_topic("ordrs", ["orders"], may_be_hidden=False) == "there is no topic ordrs; did you mean orders?"
    assert no_topic("t") == "there is no topic t, or this user may not see it (that needs DESCRIBE on the topic)"


def test_the_sentence_is_said_in_one_place() -> None:
    files = [file for room in rooms() for file in place_of(room).rglob("*.py")]
    assert files
    said = [str(file.relative_to(ROOT)) for file in files if re.search(r"there is no topic \{", file.read_text())]
    assert said == ["common/nearest.py"]

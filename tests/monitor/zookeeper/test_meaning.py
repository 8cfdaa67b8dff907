"""Every znode that Kafka 3.9 writes has a meaning, in words that say what its data say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.monitor.zookeeper.meaning import meaning, title

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9-znodes.txt"
MEANINGS = Path(__file__).with_name("meanings.txt").read_text("utf-8")


def znodes_of_kafka() -> list[tuple[str, str]]:
    """Path and data as Kafka 3.9 wrote them while it was administered; names stand for what differs by run."""
    found = []
    for line in GOLDEN.read_text().splitlines():
        match = re.fullmatch(r"(/\S*) (?:ephemeral |version \d+ )?(null|\d+|\{.*\})", line)
        if match:
            data = re.sub(r'"(TIME|ANY)"', '"1790000000000"', match[2]).replace("PORT", "909")
            found.append((match[1], "" if data == "null" else re.sub(r":ANY", ":1", data)))
    return found


def test_every_znode_that_kafka_writes_is_known_and_its_data_are_understood() -> None:
    znodes = znodes_of_kafka()
    assert len(znodes) > 60
    for path, data in znodes:
        found = meaning(path, data.encode())
        assert found is not None, path
        assert found.title, path
        assert bool(found.sentences) == bool(data), (path, found)
        assert "not what Kafka writes" not in " ".join(found.sentences), (path, data)


@pytest.mark.parametrize(
    ("path", "data", "sentence"), re.findall(r"^(/\S+) (.+)\n=> (.+)", MEANINGS, re.MULTILINE), ids=repr
)
def test_the_words_say_what_the_data_say(path: str, data: str, sentence: str) -> None:
    found = meaning(path, data.encode())
    assert found is not None
    assert sentence in " ".join((found.title, *found.sentences))


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"partitions": 7}', b"1e999"]
)
def test_other_data_give_no_error(data: bytes) -> None:
    for path in (
        "/controller",
        "/controller_epoch",
        "/brokers/ids/1",
        "/brokers/topics/a",
        "/config/topics/a",
        "/feature",
    ):
        found = meaning(path, data)
        assert found is not None


def test_a_path_that_is_not_kafkas_has_no_meaning() -> None:
    assert title("/hbase") == ""
    assert meaning("/hbase/master", b"x") is None


def test_a_hostile_name_is_no_format() -> None:
    assert title("/brokers/topics/{0.__class__}") == "replicas of topic {0.__class__}"

"""Every znode that Kafka 3.9 writes has a meaning, in words that say what its data say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from highwater.monitor.zookeeper.meaning import meaning, title

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9-znodes.txt"


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


def says(path: str, value: object) -> str:
    found = meaning(path, json.dumps(value).encode())
    assert found is not None, path
    return " ".join((found.title, *found.sentences))


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "/controller",
            {"version": 2, "brokerid": 3, "timestamp": "1790000000000", "kraftControllerEpoch": -1},
            "Broker 3 has been the controller since 2026-09-21 14:13:20 UTC.",
        ),
        ("/controller_epoch", 7, "The controller of term 7 was elected"),
        (
            "/brokers/topics/orders/partitions/2/state",
            {
                "controller_epoch": 1,
                "leader": -1,
                "version": 1,
                "leader_epoch": 4,
                "isr": [],
                "leader_recovery_state": 1,
            },
            "No broker leads, with leader epoch 4. In sync: none.",
        ),
        (
            "/brokers/topics/orders",
            {"partitions": {"0": [1, 2], "1": [2, 1, 3]}, "adding_replicas": {"1": [3]}, "removing_replicas": {}},
            "2 partitions, replication factor 2 to 3.",
        ),
        (
            "/brokers/topics/orders",
            {"partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}, "removing_replicas": {}},
            "A reassignment is under way: partition 0 gets 2.",
        ),
        ("/brokers/topics/none", {"partitions": {}}, "0 partitions, no replica."),
        (
            "/admin/reassign_partitions",
            {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [2, 1]}]},
            "1 partition to be moved: a-0 to 2,1.",
        ),
        (
            "/kafka-acl/Topic/orders",
            {
                "version": 1,
                "acls": [{"principal": "User:ann", "permissionType": "Allow", "operation": "Read", "host": "*"}],
            },
            "1 rule: allow User:ann from * to Read.",
        ),
        (
            "/kafka-acl-extended/prefixed/Group/bill",
            {"version": 1, "acls": []},
            "rules of access to Group bill, prefixed 0 rules",
        ),
        (
            "/kafka-acl-extended-changes/acl_changes_0000000003",
            {"version": 1, "resourceType": "Topic", "name": "t", "patternType": "PREFIXED"},
            "The rules of Topic t (PREFIXED) were changed.",
        ),
        (
            "/isr_change_notification/isr_change_0000000001",
            {"version": 1, "partitions": [{"topic": "a", "partition": n} for n in range(12)]},
            "12 partitions: a-0; a-1; a-2; a-3; a-4; a-5; a-6; a-7; a-8; a-9 and 2 more.",
        ),
        (
            "/log_dir_event_notification/log_dir_event_0000000000",
            {"version": 1, "broker": 2, "event": 1},
            "A log directory of broker 2 failed.",
        ),
        (
            "/highwater/features",
            {"version": 1, "epoch": 1796000000, "levels": {"transaction.version": 2}},
            "Finalised levels, in epoch 1796000000: transaction.version 2.",
        ),
        (
            "/latest_producer_id_block",
            {"version": 1, "broker": 1, "block_start": "1000", "block_end": "1999"},
            "Broker 1 has the newest block: 1,000 to 1,999.",
        ),
        (
            "/migration",
            {"kraft_controller_id": 3000, "kraft_controller_epoch": 2, "kraft_metadata_offset": 9},
            "Controller 3000 of the quorum, epoch 2, has copied up to offset 9.",
        ),
        (
            "/config/users/bo%3Ab/clients/app",
            {"version": 1, "config": {"producer_byte_rate": "1000"}},
            "quotas of user bo:b with client app 1 setting: producer_byte_rate = 1000.",
        ),
    ],
)
def test_the_words_say_what_the_data_say(path: str, value: object, sentence: str) -> None:
    assert sentence in says(path, value)


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

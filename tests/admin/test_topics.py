"""`highwater broker topics` against a running broker."""

from __future__ import annotations

import socket

import pytest

from tests.admin.calling import Result, call
from tests.broker.running import RunningBroker

pytestmark = pytest.mark.clients


def topics(broker: RunningBroker, *arguments: str) -> Result:
    return call("topics", "--bootstrap-server", broker.address, *arguments)


def assert_refused(result: Result, exit_code: int, *words: str) -> None:
    assert (result.exit_code, result.output) == (exit_code, ""), result
    assert result.errors.startswith("error: ")
    assert result.errors.count("\n") == 1
    for word in words:
        assert word in result.errors


def test_a_topic_from_its_creation_to_its_end(broker: RunningBroker) -> None:
    created = topics(
        broker, "--create", "--topic", "whole-life", "--partitions", "3", "--replication-factor", "1",
        "--config", "max.message.bytes=5000", "--config", "flush.messages=1",
    )  # fmt: skip
    assert created == Result(0, "Created topic whole-life.\n", "")
    assert "whole-life" in topics(broker, "--list").output.splitlines()
    assert call("produce", "--bootstrap-server", broker.address, "--topic", "whole-life", "--partition", "1",
                stdin="a\nb\n").exit_code == 0  # fmt: skip

    (described,) = topics(broker, "--describe", "--topic", "whole-life", "--json").json
    assert described["config"] == {"flush.messages": "1", "max.message.bytes": "5000"}
    assert [
        (p["partition"], p["leader"], p["replicas"], p["in_sync_replicas"], p["log_end_offset"])
        for p in described["partitions"]
    ] == [(0, 0, [0], [0], 0), (1, 0, [0], [0], 2), (2, 0, [0], [0], 0)]
    table = topics(broker, "--describe", "--topic", "whole-life").output
    assert f"Id: {described['topic_id']}" in table
    assert "max.message.bytes=5000" in table
    assert max(map(len, table.splitlines())) <= 80

    assert topics(broker, "--alter", "--topic", "whole-life", "--partitions", "5").exit_code == 0
    assert len(topics(broker, "--describe", "--topic", "whole-life", "--json").json[0]["partitions"]) == 5
    assert topics(broker, "--delete", "--topic", "whole-life") == Result(0, "Deleted topic whole-life.\n", "")
    assert "whole-life" not in topics(broker, "--list").output.splitlines()


def test_a_topics_id_is_written_as_kafka_writes_it(broker: RunningBroker) -> None:
    topics(broker, "--create", "--topic", "identified")
    (described,) = topics(broker, "--describe", "--topic", "identified", "--json").json
    metadata = (broker.log_dir / "identified-0" / "partition.metadata").read_text()
    assert metadata.endswith(f"topic_id: {described['topic_id']}")


def test_an_expression_stands_for_several_topics_but_a_name_for_itself_only(broker: RunningBroker) -> None:
    for name in ("some.one", "some-one", "some-two"):
        topics(broker, "--create", "--topic", name)
    # "some.one" as an expression would match some-one too, and --delete must not.
    assert topics(broker, "--delete", "--topic", "some.one").output == "Deleted topic some.one.\n"
    assert topics(broker, "--list", "--topic", "some-.*").output == "some-one\nsome-two\n"
    assert_refused(
        topics(broker, "--delete", "--topic", "some-one,some-t.*"), 2, "there is no terminal to confirm this on"
    )
    assert topics(broker, "--delete", "--topic", "some-one,some-t.*", "--force").exit_code == 0
    assert topics(broker, "--list", "--topic", "some.*").output == ""


def test_mistakes_are_one_line_each(broker: RunningBroker) -> None:
    topics(broker, "--create", "--topic", "orders")
    assert_refused(topics(broker, "--create", "--topic", "orders"), 1, "already exists")
    assert_refused(
        topics(broker, "--describe", "--topic", "ordrs"), 1, "there is no topic ordrs", "did you mean orders?"
    )
    assert_refused(topics(broker, "--delete", "--topic", "ordrs"), 1, "did you mean orders?")
    assert_refused(topics(broker, "--alter", "--topic", "orders", "--partitions", "1"), 1, "already has 1")
    assert_refused(topics(broker, "--create", "--topic", "x", "--replication-factor", "3"), 1, "Replication factor: 3")
    assert_refused(topics(broker, "--create", "--topic", "x", "--config", "retention.mss=1"), 1, "retention.ms")
    assert_refused(topics(broker, "--create", "--topic", "x", "--config", "retention.ms"), 2, "name=value")
    assert_refused(topics(broker), 2, "--create, --list, --describe, --alter, --delete")
    assert_refused(topics(broker, "--create", "--list"), 2, "--create and --list")
    assert_refused(topics(broker, "--create"), 2, "--topic")
    assert_refused(topics(broker, "--list", "--partitions", "3"), 2, "--partitions")
    assert_refused(topics(broker, "--describe", "--topic", "("), 2, "regular expression")


def test_what_is_no_mistake_when_said_so(broker: RunningBroker) -> None:
    topics(broker, "--create", "--topic", "twice")
    assert topics(broker, "--create", "--topic", "twice", "--if-not-exists").exit_code == 0
    assert topics(broker, "--delete", "--topic", "never-was", "--if-exists").exit_code == 0
    assert topics(broker, "--describe", "--topic", "twice", "--under-replicated-partitions").output == ""


def test_a_broker_that_is_not_there_is_told_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert_refused(call("topics", "-b", address, "--list"), 2, address, "Connection refused")
    assert_refused(call("topics", "-b", "localhost", "--list"), 2, "host:port")
    assert_refused(call("topics", "-b", "no.such.host.invalid:9092", "--list"), 2, "no.such.host.invalid")


def test_a_server_that_is_no_broker_is_told_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.admin.client.REQUEST_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        assert_refused(call("topics", "-b", address, "--list"), 2, address, "does not answer as a Kafka broker")


def test_a_topic_with_the_replicas_that_were_asked_for(broker: RunningBroker) -> None:
    address = ("--bootstrap-server", broker.address)
    created = call("topics", *address, "--create", "--topic", "assigned", "--replica-assignment", "0,0")
    assert created.exit_code == 0, created.errors
    described = call("topics", *address, "--describe", "--topic", "assigned", "--json").json[0]
    assert [p["replicas"] for p in described["partitions"]] == [[0], [0]]
    for text, reason in (("0:0", "every broker once"), ("0:x", "write it as 1:2,2:3"), ("7", "7")):
        refused = call("topics", *address, "--create", "--topic", "other", "--replica-assignment", text)
        assert refused.exit_code in (1, 2)
        assert reason in refused.errors


def test_partitions_by_what_they_need_to_be_written(broker: RunningBroker) -> None:
    address = ("--bootstrap-server", broker.address)
    for name, needed in (("needs-one", 1), ("needs-two", 2)):
        assert (
            call("topics", *address, "--create", "--topic", name, "--config", f"min.insync.replicas={needed}").exit_code
            == 0
        )
    for option, name in (("--under-min-isr-partitions", "needs-two"), ("--at-min-isr-partitions", "needs-one")):
        found = call("topics", *address, "--describe", "--topic", "needs-one|needs-two", option, "--json").json
        assert [topic["topic"] for topic in found] == [name]

"""`highwater broker dlq|retry|delay|trace` on a running broker."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import highwater.cli
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.delay import delay
from highwater.pipeline.messaging.delivery import Delivery
from highwater.pipeline.messaging.policy import Reject, Retry
from highwater.pipeline.messaging.replay import Replay
from tests.admin.calling import Result
from tests.pipeline.messaging.test_consumer import consuming, header, produce
from tests.pipeline.messaging.test_mover import send
from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until

pytestmark = pytest.mark.clients


def call(topics: Topics, *arguments: str, stdin: str = "") -> Result:
    found = CliRunner().invoke(highwater.cli.app, ["broker", *arguments, "-b", topics.address], input=stdin)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Result(found.exit_code, found.stdout, found.stderr)


def die(topics: Topics, topic: str, *values: str) -> str:
    """Make dead letters of these, on one partition, and return their topic."""
    topics.create(topic, 1)

    def handle(record: Delivery) -> None:
        raise Reject("no such customer") if b"x" in (record.value or b"") else ValueError("never")

    produce(topics, topic, *values)
    with consuming(topics, topic, handle, backoff="", mover=False) as consumer:
        wait_until(lambda: consumer.counts["dead"] == len(values), "the dead letters")
    return f"dlq.{topic}.{topic}-group"


def values_of(topics: Topics, topic: str) -> list[Any]:
    return [row["value"] for row in topics.rows(topic, read_committed=True)]


def test_list_and_show(topics: Topics) -> None:
    dead = die(topics, "listed", "ax", "b", "c")
    found = call(topics, "dlq", "list", "--json").json
    (mine,) = (each for each in found if each["topic"] == dead)
    assert mine["records"] == 3
    assert mine["dispositions"] == {"rejected": 1, "exhausted": 2}
    listed = call(topics, "dlq", "list").output
    assert dead in listed
    assert re.match(r"\d+ dead letters in \d+ topics?: \d+ exhausted, .*; the newest died \d+ m?s ago\.\n", listed)
    shown = call(topics, "dlq", "show", dead)
    assert "no such customer" in shown.output
    assert "ValueError: never" in shown.output
    some = call(topics, "dlq", "show", dead, "--where", "hw-disposition = 'rejected'", "--json").json_lines
    assert [each["value"] for each in some] == ["ax"]
    assert "--limit shows more" in call(topics, "dlq", "show", dead, "--limit", "1").output
    assert "no dead letters that match" in call(topics, "dlq", "show", dead, "--where", "key = 'no'").output


def test_replay_into_the_origin_once(topics: Topics) -> None:
    dead = die(topics, "again", "ax", "b", "c")
    dry = call(topics, "dlq", "replay", dead, "--where", "hw-disposition = 'exhausted'", "--dry-run")
    assert dry.exit_code == 0
    assert "dry run" in dry.output
    assert values_of(topics, "again") == [b"ax", b"b", b"c"]
    for written in (2, 0):
        done = call(topics, "dlq", "replay", dead, "--where", "hw-disposition = 'exhausted'", "--json")
        assert done.json["written"] == written
    assert values_of(topics, "again") == [b"ax", b"b", b"c", b"b", b"c"]
    row = topics.rows("again", read_committed=True)[-1]
    assert header(row, headers.ATTEMPT) is None
    assert header(row, headers.ORIGIN) == "again/0/2"
    assert header(row, headers.REPLAYED_FROM) == f"{dead}/0/2"
    other = call(topics, "dlq", "replay", dead)
    assert "Another replay of this topic wrote records too" in other.output
    assert "3 written" in other.output


def test_replay_into_another_topic(topics: Topics) -> None:
    dead = die(topics, "elsewhere", "a")
    topics.create("aside", 1)
    assert call(topics, "dlq", "replay", dead, "--to", "aside", "--json").json["written"] == 1
    assert values_of(topics, "aside") == [b"a"]
    topics.delete("elsewhere")
    refused = call(topics, "dlq", "replay", dead)
    assert refused.exit_code == 1
    assert "comes from elsewhere, which does not exist: replay it with --to TOPIC" in refused.errors


def test_a_replay_that_was_overtaken_writes_nothing(topics: Topics) -> None:
    dead = die(topics, "overtaken", "a")
    client = {"bootstrap.servers": topics.address}
    first = Replay(client, dead)
    second = Replay(client, dead)
    try:
        assert second.run(lambda _: None) == 1
        with pytest.raises(Exception, match="another one of this name has taken over"):
            first.run(lambda _: None)
    finally:
        first.close()
        second.close()
    assert values_of(topics, "overtaken") == [b"a", b"a"]


def test_drop(topics: Topics) -> None:
    dead = die(topics, "dropped", "a", "b")
    assert call(topics, "dlq", "drop", dead).exit_code == 2
    assert call(topics, "dlq", "drop", dead, "--before-offset", "1").exit_code == 2
    assert call(topics, "dlq", "drop", "dropped", "--all").exit_code == 2
    assert "give --yes" in call(topics, "dlq", "drop", dead, "--all").errors
    assert "dry run" in call(topics, "dlq", "drop", dead, "--all", "--dry-run").output
    assert call(topics, "dlq", "drop", dead, "--partition", "7", "--all").exit_code == 2
    assert call(topics, "dlq", "drop", dead, "--partition", "0", "--before-offset", "99").exit_code == 2
    # The last of these is −1 ms, which brokers take for the end of the log.
    for before in ("2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z"):
        assert call(topics, "dlq", "drop", dead, "--before", before, "--yes", "--json").json["dropped"] == 0
    one = call(topics, "dlq", "drop", dead, "--partition", "0", "--before-offset", "1", "--yes", "--json")
    assert one.json == {"topic": dead, "found": 1, "dropped": 1}
    assert [each["value"] for each in call(topics, "dlq", "show", dead, "--json").json_lines] == ["b"]
    assert "1 dropped" in call(topics, "dlq", "drop", dead, "--all", "--yes").output
    assert call(topics, "dlq", "list", "--json").exit_code == 0


@pytest.mark.slow
def test_what_waits_and_the_way_of_a_record(topics: Topics) -> None:
    topics.create("way", 1)

    def handle(record: Delivery) -> None:
        if record.attempt == 0:
            raise Retry("the database is away", after="300ms")
        raise ConnectionError("still away")

    produce(topics, "way", "a")
    with consuming(topics, "way", handle, backoff="300ms", name="way") as consumer:
        wait_until(lambda: consumer.counts["dead"] == 1, "the dead letter")
    send(topics, delay("way", b"later", b"a", after="1h"))
    waiting = {each["topic"]: each for each in call(topics, "delay", "list", "--json").json}
    assert waiting["hw.delay.1h"]["records"] == 1
    assert waiting["hw.delay.1h"]["next_due_ms"] > now_ms() + 3_000_000
    assert "way.way-group.retry.300ms" in call(topics, "retry", "list").output
    delayed = call(topics, "delay", "list").output
    assert re.match(r"\d+ records? waits? in \d+ topics?; the next one is due in .*\.\n", delayed)
    assert call(topics, "dlq", "replay", "dlq.way.way-group").exit_code == 0
    steps = call(topics, "trace", "way/0/0", "--json").json
    assert [step["topic"] for step in steps] == [
        *("way", "way.way-group.retry.300ms", "way.way-group.retry", "dlq.way.way-group", "way")
    ]
    assert [step["what"].split(" ")[0] for step in steps] == ["produced", "waits,", "delivered", "dead", "replayed"]
    again = call(topics, "trace", f"dlq.way.way-group/0/{steps[3]['offset']}", "--json").json
    assert [step["topic"] for step in again] == [step["topic"] for step in steps]


def test_wrong_use(topics: Topics) -> None:
    for arguments, problem in (
        (("trace", "orders"), "write it as TOPIC/PARTITION/OFFSET"),
        (("trace", "nothing/0/0"), "there is no topic nothing"),
        (("dlq", "show", "nothing"), "there is no topic nothing"),
        (("dlq", "show", "nothing", "--where", "a ="), "it ends too early"),
        (("delay", "run", "--levels", "5x"), "'5x' is not a delay"),
        (("delay", "run", "--levels", "5s"), "the least level is 5s: it must be 1s or less"),
    ):
        found = call(topics, *arguments)
        assert found.exit_code == 2, arguments
        assert problem in found.errors
        assert found.errors.count("\n") == 1


@pytest.mark.slow
def test_the_mover_as_a_process(topics: Topics, tmp_path: Path) -> None:
    topics.create("moved", 1)
    command = [sys.executable, "-m", "highwater", "broker", "delay", "run", "--name", "p", "-b", topics.address]
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        send(topics, delay("moved", b"1", b"k", after="200ms"))
        wait_until(lambda: len(topics.rows("moved", read_committed=True)) == 1, "the record")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "ready: moving what is due" in output
        assert "1 moved, 0 of these undeliverable." in output
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "errors").read_text() == ""

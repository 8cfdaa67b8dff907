"""`highwater broker groups` against a running broker, with groups made by the console consumer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from highwater.admin.groups import PartitionLag, total_lag
from highwater.admin.offset_reset import Target, parse_duration_ms, parse_target, parse_time_ms
from highwater.admin.terminal import UsageError
from tests.admin.calling import COMMAND, Result, call
from tests.broker.running import RunningBroker


def groups(broker: RunningBroker, *arguments: str) -> Result:
    return call("groups", "-b", broker.address, *arguments)


def make_topic(broker: RunningBroker, topic: str, *counts: int) -> None:
    """A topic with so many records in each partition."""
    call("topics", "-b", broker.address, "--create", "--topic", topic, "--partitions", str(len(counts)))
    for index, count in enumerate(counts):
        lines = "".join(f"{number}\n" for number in range(count))
        partition = ("--partition", str(index))
        assert call("produce", "-b", broker.address, "--topic", topic, *partition, stdin=lines).exit_code == 0


def make_group(broker: RunningBroker, group: str, topic: str, count: int) -> None:
    """A group that has read so many records of a topic and left."""
    consumed = call(
        "consume", "-b", broker.address, "--topic", topic, "--group", group, "--from-beginning",
        "--max-messages", str(count),
    )  # fmt: skip
    assert (consumed.exit_code, len(consumed.output.splitlines())) == (0, count), consumed


def committed(broker: RunningBroker, group: str) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    """(committed offset, lag) by partition."""
    (described,) = groups(broker, "--describe", "--group", group, "--json").json
    return {(row["topic"], row["partition"]): (row["committed"], row["lag"]) for row in described["offsets"]}


@contextmanager
def member(broker: RunningBroker, group: str, topic: str, *options: str) -> Iterator[None]:
    """A consumer of the group that has its partitions."""
    command = [*COMMAND, "consume", "-b", broker.address, "--topic", topic, "--group", group, "--from-beginning"]
    command += options
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[3]
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield
        finally:
            process.kill()


@pytest.mark.clients
def test_a_group_from_its_first_commit_to_its_end(broker: RunningBroker) -> None:
    make_topic(broker, "life", 10)
    make_group(broker, "life-group", "life", 4)
    assert "life-group" in groups(broker, "--list").output.splitlines()
    assert {"group": "life-group", "state": "Empty"} in groups(broker, "--list", "--json").json
    assert committed(broker, "life-group") == {("life", 0): (4, 6)}
    shown = groups(broker, "--describe", "--group", "life-group").output
    assert "State: Empty  Members: 0  Lag: 6" in shown
    assert groups(broker, "--delete", "--group", "life-group") == Result(0, "Deleted group life-group.\n", "")
    assert "life-group" not in groups(broker, "--list").output.splitlines()


@pytest.mark.clients
def test_offsets_are_reset(broker: RunningBroker) -> None:
    make_topic(broker, "reset", 20, 8)
    scope = ("--reset-offsets", "--group", "reset-group", "--topic", "reset")
    dry = groups(broker, *scope, "--to-offset", "6")
    assert dry.exit_code == 0
    assert "Nothing has changed yet" in dry.output
    assert "reset-group" not in groups(broker, "--list").output
    assert groups(broker, *scope, "--to-offset", "6", "--execute").exit_code == 0
    assert committed(broker, "reset-group") == {("reset", 0): (6, 14), ("reset", 1): (6, 2)}

    shifted = groups(broker, *scope[:-1], "reset:0", "--shift-by", "-2", "--execute", "--json").json
    assert shifted == {
        "executed": True,
        "offsets": [{"group": "reset-group", "topic": "reset", "partition": 0, "committed": 6, "new_offset": 4}],
    }
    too_far = groups(broker, *scope, "--shift-by", "10", "--execute")
    assert too_far.errors == "note: reset-1 has offsets 0 up to 8; 8 is taken for 16\n"
    assert committed(broker, "reset-group") == {("reset", 0): (14, 6), ("reset", 1): (8, 0)}

    everything = (*scope[:-2], "--all-topics", "--execute")
    for goal, expected in (
        (("--to-earliest",), (0, 0)),
        (("--to-current",), (0, 0)),
        (("--to-latest",), (20, 8)),
        # −1 ms, which brokers take for the end of the log.
        (("--to-datetime", "1969-12-31T23:59:59.999"), (0, 0)),
        (("--to-latest",), (20, 8)),
        (("--by-duration", "P99999D"), (0, 0)),
        (("--to-latest",), (20, 8)),
        (("--by-duration", "PT1H"), (0, 0)),
        (("--to-datetime", "2100-01-01T00:00:00.000"), (20, 8)),
    ):
        assert groups(broker, *everything, *goal).exit_code == 0
        assert [offset for offset, _ in committed(broker, "reset-group").values()] == list(expected), goal


@pytest.mark.clients
def test_offsets_are_deleted(broker: RunningBroker) -> None:
    make_topic(broker, "forget", 2, 3)
    make_group(broker, "forgetful", "forget", 5)
    deleted = groups(broker, "--delete-offsets", "--group", "forgetful", "--topic", "forget:1")
    assert deleted == Result(0, "Deleted the offsets of group forgetful in 1 partitions.\n", "")
    assert {key: offset for key, (offset, _) in committed(broker, "forgetful").items() if offset is not None} == {
        ("forget", 0): 2
    }
    with member(broker, "reader", "forget"):
        refused = groups(broker, "--delete-offsets", "--group", "reader", "--topic", "forget")
    assert (refused.exit_code, refused.errors.count("\n")) == (1, 1)
    assert "has members that read forget" in refused.errors
    assert groups(broker, "--delete-offsets", "--group", "forgetful").exit_code == 2


@pytest.mark.clients
@pytest.mark.parametrize(("kind", "assignor"), [("classic", "range"), ("consumer", "uniform")])
def test_a_group_in_use_is_shown_and_left_alone(broker: RunningBroker, kind: str, assignor: str) -> None:
    topic, group = f"used-{kind}", f"group-{kind}"
    make_topic(broker, topic, 3)
    with member(broker, group, topic, "--consumer-property", f"group.protocol={kind}"):
        assert {"group": group, "state": "Stable"} in groups(broker, "--list", "--json").json
        (described,) = groups(broker, "--describe", "--group", group, "--members", "--json").json
        assert (described["kind"], described["state"], described["assignor"]) == (kind, "Stable", assignor)
        (only,) = described["members"]
        assert (only["host"], only["partitions"]) == ("127.0.0.1", [{"topic": topic, "partition": 0}])
        assert only["coming"] == []
        assert f"{topic}-0" in groups(broker, "--describe", "--group", group, "--members").output
        assert "Stable" in groups(broker, "--describe", "--group", group, "--state").output
        assert "rdkafka@127.0.0.1" in groups(broker, "--describe", "--group", group).output
        for arguments, word in (
            (("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest"), "no members"),
            (("--delete", "--group", group), "not empty"),
        ):
            refused = groups(broker, *arguments)
            assert (refused.exit_code, refused.output) == (1, "")
            assert word in refused.errors


@pytest.mark.clients
def test_mistakes_are_one_line_each(broker: RunningBroker) -> None:
    make_topic(broker, "mistaken", 1)
    make_group(broker, "mistaken-group", "mistaken", 1)
    reset = ("--reset-offsets", "--group", "mistaken-group")
    for arguments, exit_code, word in (
        (("--describe", "--group", "mistakn-group"), 1, "did you mean mistaken-group?"),
        (("--delete", "--group", "nobody"), 1, "there is no group nobody"),
        ((*reset, "--topic", "mistakn", "--to-latest"), 1, "did you mean mistaken?"),
        ((*reset, "--topic", "mistaken:1", "--to-latest"), 1, "no partition 1"),
        (("--reset-offsets", "--group", "new", "--topic", "mistaken", "--shift-by", "1"), 1, "committed nothing"),
        (("--reset-offsets", "--group", "new", "--all-topics", "--to-latest"), 1, "group new has committed nothing"),
        ((*reset, "--topic", "mistaken:x", "--to-latest"), 2, "topic:0,1,2"),
        ((*reset, "--topic", "mistaken"), 2, "--to-earliest"),
        ((*reset, "--to-latest"), 2, "--all-topics"),
        ((*reset, "--all-topics", "--to-latest", "--to-earliest"), 2, "cannot go together"),
        ((*reset, "--all-topics", "--to-datetime", "soon"), 2, "soon"),
        ((*reset, "--all-topics", "--by-duration", "P999999999999D"), 2, "no log reaches so far back"),
        ((*reset, "--all-topics", "--to-latest", "--dry-run", "--execute"), 2, "cannot go together"),
        (("--describe",), 2, "--group"),
        (("--list", "--execute"), 2, "--execute"),
        ((), 2, "--list, --describe"),
    ):
        result = groups(broker, *arguments)
        assert (result.exit_code, result.output) == (exit_code, ""), result
        assert result.errors.count("\n") == 1, result.errors
        assert word in result.errors


def test_times_and_durations() -> None:
    assert parse_time_ms("1970-01-01T00:00:01.500") == 1500
    assert parse_time_ms("1970-01-01T02:00:00+02:00") == 0
    assert parse_time_ms("1970-01-02") == 86_400_000
    assert parse_duration_ms("P1DT1H1M1.5S") == ((24 + 1) * 3600 + 61) * 1000 + 500
    for text in ("P", "PT", "1H", "P1Y", "PT1D", ""):
        with pytest.raises(UsageError):
            parse_duration_ms(text)


def test_one_goal_only() -> None:
    none: dict[str, Any] = {"--to-earliest": None, "--to-offset": None}
    assert parse_target(none | {"--to-offset": 0}) == Target("--to-offset", 0)
    assert parse_target(none | {"--to-earliest": True}).goal == "--to-earliest"
    for goals in (none, none | {"--to-offset": 1, "--to-earliest": True}, none | {"--to-offset": -1}):
        with pytest.raises(UsageError):
            parse_target(goals)


@pytest.mark.clients
def test_a_total_lag_says_what_it_leaves_out(broker: RunningBroker) -> None:
    make_topic(broker, "partly", 5, 3, 0)
    make_group(broker, "partly-group", "partly", 8)
    assert "Lag: 0, without 1 partition that has no committed offset\n" in described_text(broker, "partly-group")
    deleted = groups(broker, "--delete-offsets", "--group", "partly-group", "--topic", "partly:1")
    assert deleted.exit_code == 0, deleted.errors
    assert "Lag: 0, without 2 partitions that have no committed offset\n" in described_text(broker, "partly-group")
    (described,) = groups(broker, "--describe", "--group", "partly-group", "--json").json
    assert described["lag"] == {"records": 0, "without_commit": 2, "without_end": 0}
    assert committed(broker, "partly-group") == {
        ("partly", 0): (5, 0),
        ("partly", 1): (None, None),
        ("partly", 2): (None, None),
    }


def described_text(broker: RunningBroker, group: str) -> str:
    return groups(broker, "--describe", "--group", group).output


def test_a_partition_without_a_known_end_is_left_out_of_the_total_too() -> None:
    rows = [
        PartitionLag("t", 0, 5, 9, None),
        PartitionLag("t", 1, 5, None, None),
        PartitionLag("t", 2, None, None, None),
    ]
    lag = total_lag(rows)
    assert lag == (4, 1, 1)
    assert lag.left_out == "1 partition that has no committed offset and 1 partition that has no known end"
    assert total_lag(rows[:1]).left_out == ""


def test_a_name_commands_no_terminal(broker: RunningBroker) -> None:
    """Clients choose the names of groups and members, with every character that there is."""
    hostile = "a\x1b[2J\x9b1A\r\nfake \u202egroup"
    make_topic(broker, "named", 1)
    make_group(broker, hostile, "named", 1)
    shown = r"a\x1b[2J\x9b1A\r\nfake \u202egroup"
    assert shown in groups(broker, "--list").output.split("\n")
    for told in (
        groups(broker, "--list", "--state"),
        groups(broker, "--describe", "--group", hostile),
        groups(broker, "--describe", "--group", hostile, "--state"),
    ):
        assert shown in told.output
        assert not set("\x1b\x9b\r\u202e") & set(told.output)
    as_json = groups(broker, "--list", "--json")
    assert hostile in [each["group"] for each in as_json.json]
    assert not set("\x1b\x9b\r\u202e") & set(as_json.output)
    refused = groups(broker, "--describe", "--group", "none\x1b[2J")
    assert "there is no group none\\x1b[2J" in refused.errors
    assert "\x1b" not in refused.errors

"""What becomes of a record: headers of retries and dead letters, parked records after a restart, the flood brake."""

from __future__ import annotations

import json
import re

import pytest

from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.brake import FloodBrake
from highwater.pipeline.messaging.headers import Disposition
from highwater.pipeline.messaging.levels import ROCKETMQ_LEVELS_MS, GroupTopics
from highwater.pipeline.messaging.policy import Backoff, Failure, Reject, Retry, failure_of
from highwater.pipeline.messaging.record import Outgoing, Record, parse_place
from highwater.pipeline.messaging.retrying import Retrying, Work
from tests.pipeline.messaging.test_levels import in_log

NOW_MS = 1_700_000_000_000
TOPICS = GroupTopics("orders", "billing")
BOOM = Failure("ConnectionError", "the database\nis away")


def record(offset: int = 0, key: bytes | None = b"k", value: bytes | None = b"v", **more: bytes) -> Record:
    named = tuple((name.replace("_", "-"), data) for name, data in more.items())
    return Record("orders", 0, offset, NOW_MS - 1000, key, value, named)


def retrying(*parked: Record, by_key: bool = False) -> Retrying:
    return Retrying(TOPICS, Backoff.parse("10s 1m"), ROCKETMQ_LEVELS_MS, by_key=by_key, partition=0, parked=parked)


def after(failure: Failure, seen: Record) -> Outgoing:
    state = retrying()
    work = state.take(seen, NOW_MS)
    assert isinstance(work, Work)
    (written,) = state.finish(work, failure, NOW_MS)
    return written


def test_a_retry_waits_in_the_topic_of_its_delay() -> None:
    written = after(BOOM, record(7))
    assert (written.topic, written.key, written.value, written.timestamp_ms) == (
        "orders.billing.retry.10s",
        b"k",
        b"v",
        NOW_MS,
    )
    found = dict(written.headers)
    assert found == {
        "hw-origin": b"orders/0/7",
        "traceparent": found["traceparent"],
        "hw-due-ms": b"%d" % (NOW_MS + 10_000),
        "hw-target": b"orders.billing.retry",
        "hw-timestamp-ms": b"%d" % (NOW_MS - 1000),
        "hw-attempt": b"1",
        "hw-error-class": b"ConnectionError",
        "hw-error": b"the database is away",
    }
    assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-01", found["traceparent"] or b"")


def test_a_delay_that_the_handler_asks_for_goes_through_the_levels() -> None:
    written = after(BOOM._replace(after_ms=7 * 60_000 + 1), record(7))
    assert written.topic == "hw.delay.7m"
    assert in_log(written).text(headers.TARGET) == "orders.billing.retry"


def test_a_record_whose_last_attempt_failed_is_dead() -> None:
    written = after(BOOM, record(7, hw_attempt=b"2", hw_due_ms=b"5", traceparent=b"00-mine"))
    assert written.topic == "dlq.orders.billing"
    dead = in_log(written)
    assert dead.text(headers.DISPOSITION) == "exhausted"
    assert dead.text(headers.ATTEMPT) == "3"
    assert dead.text(headers.TRACEPARENT) == "00-mine"
    assert dead.header(headers.DUE_MS) is None
    assert headers.attempt_of(in_log(Outgoing("orders", b"k", b"v", headers.replayed(dead), NOW_MS))) == 0


@pytest.mark.parametrize(
    ("error", "disposition"),
    [
        (Reject("no such customer"), Disposition.REJECTED),
        (json.JSONDecodeError("bad", "", 0), Disposition.POISON),
        (ValueError("other"), None),
        (Retry("later", after="3s"), None),
    ],
)
def test_what_a_handler_raises(error: Exception, disposition: Disposition | None) -> None:
    failure = failure_of(error, (UnicodeError, json.JSONDecodeError))
    assert failure.is_final is disposition
    assert failure.after_ms == (3000 if isinstance(error, Retry) else None)


def test_a_record_with_a_wrong_attempt_is_poison() -> None:
    (written,) = retrying().take(record(hw_attempt=b"many"), NOW_MS)  # type: ignore[misc]
    assert written.topic == "dlq.orders.billing"
    assert in_log(written).text(headers.DISPOSITION) == "poison"


def test_an_error_is_one_line_that_is_not_long() -> None:
    text = headers.error_headers("E", "word \n" * 1000)["hw_error"]
    assert len(text) == 1000
    assert "\n" not in text


@pytest.mark.parametrize("value", [b"v", b"", None])
@pytest.mark.parametrize("key", [b"k", b"", None])
def test_parked_records_are_there_after_a_restart(key: bytes | None, value: bytes | None) -> None:
    state = retrying(by_key=True)
    seen = record(7, key, value, color=b"red")
    work = state.take(seen, NOW_MS)
    assert isinstance(work, Work)
    (parked,) = state.finish(work, BOOM, NOW_MS)
    assert parked.topic == "orders.billing.retry.parked"
    again = retrying(in_log(parked), by_key=True)
    assert again.due(NOW_MS + 9_999) is None
    found = again.due(NOW_MS + 10_000)
    assert found is not None
    assert found.attempt == 1
    assert found.record[:6] == seen[:6]
    assert found.record.text("color") == "red"
    (tombstone,) = again.finish(found, None, NOW_MS + 10_000)
    assert (tombstone.key, tombstone.value) == (parked.key, None)
    assert retrying(in_log(parked), in_log(tombstone), by_key=True).parked_count == 0


def test_other_keys_flow() -> None:
    state = retrying(by_key=True)
    work = state.take(record(0, b"a"), NOW_MS)
    assert isinstance(work, Work)
    state.finish(work, BOOM, NOW_MS)
    assert isinstance(state.take(record(1, b"a"), NOW_MS), list)
    assert isinstance(state.take(record(2, b"b"), NOW_MS), Work)
    assert isinstance(state.take(record(3, None), NOW_MS), Work)
    assert (state.parked_count, state.parked_bytes) == (2, 4)


def test_the_flood_brake() -> None:
    brake = FloodBrake(most_percent=10, least_records=20)
    brake.count(0, 10, 10)
    assert brake.reason(0) is None
    brake.count(1000, 90, 0)
    assert brake.reason(1000) is None
    brake.count(2000, 1, 1)
    assert brake.reason(2000) == "11 of 101 records of the last minute became dead letters"
    assert brake.reason(60_001) is None
    brake.count(60_001, 30, 30)
    assert brake.reason(60_001) is not None
    brake.release()
    assert brake.reason(60_001) is None


def test_places() -> None:
    assert parse_place("a.b/3/17") == ("a.b", 3, 17)
    for text in ("", "a/1", "a/x/1", "/1/2", "a/1/2/3", "a/-1/2"):
        assert parse_place(text) is None

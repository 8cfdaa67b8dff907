"""Sleeps are added up for each kind of thread, call and cause."""

from __future__ import annotations

import pytest

from highwater.tuning.waits.sleeps import Sleep
from highwater.tuning.waits.summary import kind_of, summarize

COMMIT = ("schedule", "wait_transaction_locked", "__x64_sys_pwrite64")
FLUSH = ("schedule", "jbd2_log_wait_commit", "__x64_sys_fdatasync")


def test_clients_come_first_then_the_most_time() -> None:
    rows = summarize(
        [
            Sleep(70, "flush_0", 5.0, FLUSH),
            Sleep(7, "python3", 0.25, COMMIT),
            Sleep(7, "python3", 0.75, COMMIT),
            Sleep(7, "python3", 2.0, FLUSH),
            Sleep(71, "flush_1", 3.0, FLUSH),
        ],
        main_threads=(7,),
        at_least_s=0.1,
    )
    assert [(row.threads, row.answers_clients, row.call, row.cause) for row in rows] == [
        ("main thread", True, "fdatasync", "flush"),
        ("main thread", True, "pwrite64", "journal_commit"),
        ("flush", False, "fdatasync", "flush"),
    ]
    assert [(row.count, row.total_s, row.longest_s) for row in rows] == [(1, 2.0, 2.0), (2, 1.0, 0.75), (2, 8.0, 5.0)]
    assert rows[1].function == "wait_transaction_locked"
    assert rows[1].knobs == ("mount.lazytime", "mount.commit", "filesystem.type")


def test_shorter_waits_are_left_out() -> None:
    sleeps = [Sleep(7, "a", 0.000_999, COMMIT), Sleep(7, "a", 0.001, COMMIT)]
    assert [row.count for row in summarize(sleeps, (7,), 0.001)] == [1]
    assert summarize(sleeps[:1], (7,), 0.001) == ()


@pytest.mark.parametrize("name", ["data-pl..ler-0", "data-plane-kafk", "kafka-request-h", "kafka-network-t"])
def test_threads_of_apache_kafka_that_answer_clients(name: str) -> None:
    assert summarize([Sleep(9, name, 1.0, COMMIT)], (7,), 0.001)[0].answers_clients


@pytest.mark.parametrize(
    ("name", "kind"), [("flush_12", "flush"), ("data-pl..ler-0", "data-pl..ler"), ("42", "42"), ("kafka-log-clean", "")]
)
def test_a_number_at_the_end_makes_no_other_kind(name: str, kind: str) -> None:
    assert kind_of(name) == (kind or name)

"""Open transactions: which hang, since when, whom they hold up, and the command that ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.rows import FindingKind, Level, TransactionFigures, TransactionVerdict
from highwater.monitor.model import OpenTransaction, Snapshot
from tests.monitor.clusters import (
    TICK_MS,
    UNIX_START_MS,
    group,
    member,
    open_transaction,
    partition,
    snapshot,
    topic,
)

MINUTE_MS = 60_000
KEY = ("orders", 0)
READER = member("reader", KEY)
KNOWN = open_transaction(
    known=True, name="billing-7", state="Ongoing", timeout_ms=10 * MINUTE_MS, started_ms=UNIX_START_MS
)


def tick(number: int, *transactions: OpenTransaction, commit: int = 500) -> Snapshot:
    at_ms = number * TICK_MS
    partitions = [partition("orders", each, end=1_000 + number, stable=500, at_ms=at_ms) for each in range(2)]
    return snapshot(
        number=number,
        topics=[topic("orders", *partitions)],
        groups=[group("billing", {KEY: commit}, READER, at_ms=at_ms)],
        transactions=transactions,
    )


def after(minutes: int, *transactions: OpenTransaction, commit: int = 500) -> Figures:
    return derive([tick(0, commit=commit), tick(4 * minutes, *transactions, commit=commit)])


def only(figures: Figures) -> TransactionFigures:
    (row,) = figures.transactions
    return row


@pytest.mark.parametrize(
    ("transaction", "minutes", "verdict"),
    [
        # Nobody knows it: it hangs when it is older than transaction.max.timeout.ms, as `find-hanging` counts.
        (open_transaction(), 15, TransactionVerdict.OPEN),
        (open_transaction(), 16, TransactionVerdict.HANGING),
        (open_transaction(written_ms=UNIX_START_MS - 20 * MINUTE_MS), 1, TransactionVerdict.HANGING),
        # Records may have any timestamp: what the monitor saw counts too.
        (open_transaction(written_ms=UNIX_START_MS + 10**12), 16, TransactionVerdict.HANGING),
        (open_transaction(written_ms=-1), 1, TransactionVerdict.OPEN),
        (open_transaction(written_ms=-(2**62)), 16, TransactionVerdict.HANGING),
        # Its coordinator ends it at its own time-out, and has five minutes for it.
        (KNOWN, 9, TransactionVerdict.OPEN),
        (KNOWN, 15, TransactionVerdict.OPEN),
        (KNOWN, 16, TransactionVerdict.LATE),
        (replace(KNOWN, state="PrepareCommit"), 16, TransactionVerdict.LATE),
        # Not all coordinators answered.
        (open_transaction(known=None), 20, TransactionVerdict.OPEN),
        (open_transaction(known=None), 21, TransactionVerdict.UNKNOWN),
    ],
)
def test_a_transaction_is_judged_by_its_age_and_by_what_coordinators_know(
    transaction: OpenTransaction, minutes: int, verdict: TransactionVerdict
) -> None:
    figures = after(minutes, transaction)
    assert only(figures).verdict is verdict
    is_bad = verdict in (TransactionVerdict.HANGING, TransactionVerdict.LATE)
    # Whatever is said of it, nothing may stand still for longer than twenty minutes.
    hangs = is_bad or minutes >= 20
    found = [each for each in figures.findings if each.kind is FindingKind.HANGING_TRANSACTION]
    assert bool([each for each in found if each.subject]) == is_bad
    assert (figures.partitions["orders"][0].hanging_ms is not None) == hangs


def test_a_hanging_transaction_is_told_with_all_that_is_needed_to_end_it() -> None:
    figures = after(16, open_transaction(start=512, written_ms=UNIX_START_MS + 1000))
    row = only(figures)
    assert (row.producer_id, row.producer_epoch, row.age_ms) == (4711, 3, 16 * MINUTE_MS)
    assert (row.groups, row.held_up_offsets) == (("billing",), 552)
    command = (
        "kafka-transactions.sh --bootstrap-server broker-0:9092 abort --topic orders --partition 0 --start-offset 512"
    )
    assert row.command == command
    assert row.sentence == (
        "A transaction is open in orders-0: since 2026-09-21 14:13:20 UTC, by producer 4711, epoch 3, and no "
        "coordinator knows it there, so that nothing will end it. Group billing stands there, and cannot read past it."
    )
    (finding,) = [each for each in figures.findings if each.kind is FindingKind.HANGING_TRANSACTION]
    assert (finding.level, finding.subject) == (Level.WARN, "transaction of producer 4711, epoch 3")
    assert finding.sentence == f"{row.sentence} This ends it in orders-0: {command}"
    assert "A hanging transaction holds it up" in figures.groups["billing"].sentence


def test_no_command_is_given_for_one_that_its_coordinator_knows() -> None:
    row = only(after(16, replace(KNOWN, state="PrepareCommit")))
    assert row.command == ""
    assert "its coordinator, broker 2, should have ended it after 10 min; there it is PrepareCommit" in row.sentence
    row = only(after(5, KNOWN))
    assert "ends it at 2026-09-21 14:23:20 UTC at the latest" in row.sentence
    assert row.verdict.level is Level.OK


def test_a_transaction_of_many_partitions_is_one_finding() -> None:
    figures = after(
        16, open_transaction(), open_transaction(number=1), open_transaction(number=1, start=600, producer=9)
    )
    found = [each for each in figures.findings if each.kind is FindingKind.HANGING_TRANSACTION]
    assert [each.subject for each in found] == [
        "transaction of producer 4711, epoch 3",
        "transaction of producer 9, epoch 3",
    ]
    assert "It is open in 1 more partition. This ends it in orders-0: " in found[0].sentence
    assert figures.totals.health.hanging_transactions == 2


def test_one_that_has_ended_meanwhile_is_left_out() -> None:
    """Transactions are asked for in few ticks: the last stable offset of this one is beyond the transaction."""
    assert after(16, open_transaction(start=499)).transactions == ()
    assert after(16, open_transaction(topic="gone")).transactions == ()
    assert after(16, open_transaction(number=7)).transactions == ()


def test_a_group_that_stands_elsewhere_is_not_held_up() -> None:
    assert only(after(16, open_transaction(), commit=499)).groups == ()


def test_names_of_anybodys_choice_stay_what_they_are_in_the_command() -> None:
    made = snapshot(
        at_ms=16 * MINUTE_MS,
        topics=[topic("a b;rm", partition("a b;rm", end=9, stable=1))],
        transactions=[open_transaction("a b;rm", start=1)],
    )
    assert "--topic 'a b;rm' " in only(derive([made])).command

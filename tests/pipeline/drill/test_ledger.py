"""What is lost, what is there twice, what nobody produced, and batches that were seen in part."""

from __future__ import annotations

from highwater.pipeline.drill.ledger import Account, Ledger, Row, partial_batches, sizes_of_batches


def test_a_ledger_that_balances() -> None:
    account = Ledger({"1-0", "1-1"}).account([Row("1-1"), Row("1-0")])
    assert account == Account((), (), ())
    assert account.balances


def test_each_fault_is_named() -> None:
    account = Ledger({"1-0", "1-1", "1-2"}).account([Row("1-0"), Row("1-2", "a"), Row("1-2", "b"), Row("9-9")])
    assert account == Account(lost=("1-1",), twice=("1-2",), unknown=("9-9",))
    assert not account.balances


def test_nothing_was_produced() -> None:
    assert Ledger().account([]).balances


def test_a_batch_is_partial_if_more_of_it_comes_later() -> None:
    view = sizes_of_batches([Row("1", "q/0"), Row("2", "q/0"), Row("3", "q/1"), Row("3", "q/1"), Row("9")])
    assert view == {"q/0": 2, "q/1": 1}
    final = sizes_of_batches([Row("1", "q/0"), Row("2", "q/0"), Row("3", "q/1"), Row("4", "q/1"), Row("5", "q/2")])
    assert partial_batches(view, final) == ("q/1",)
    assert partial_batches(final, final) == ()
    assert partial_batches({}, final) == ()

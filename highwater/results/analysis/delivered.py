"""What became of the records of a run, as one statement over all finished trials. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from highwater.common.units import count_text, plural
from highwater.results.analysis.statement import Statement, StatementState
from highwater.results.models import Delivery, TrialPlan, TrialSummary
from highwater.results.reader import RunResult

NO_LOSS: Final = "No loss was seen"
"""Also where every record was read back: a check sees what was acknowledged, and no more."""

# Checks of the verdict that found a broken promise -> of which records, and what happened to some of them.
_BROKEN: Final[Mapping[str, tuple[str, Callable[[Delivery], int], str]]] = {
    "delivery.lost": ("acknowledged", lambda delivery: delivery.acked, "lost"),
    "loss.unacknowledged": ("sent", lambda delivery: delivery.sent, "lost, which acks 0 allows"),
    "drain.unread": ("acknowledged", lambda delivery: delivery.acked, "not read in time, though the log holds them"),
    "delivery.failed": ("sent", lambda delivery: delivery.sent, "given up by the client"),
    "delivery.corrupt": ("received", lambda delivery: delivery.received + delivery.corrupt, "changed on the way"),
    "delivery.duplicated": ("received", lambda delivery: delivery.received, "received before"),
    "delivery.reordered": ("received", lambda delivery: delivery.received, "out of order"),
    "delivery.skipped": ("acknowledged", lambda delivery: delivery.acked, "given to no member of the group"),
    "delivery.aborted_received": ("received", lambda delivery: delivery.received, "of aborted transactions"),
}
_LOG_DISAGREES: Final = "delivery.in_log"
_NATIVE: Final = ("rdkafka_performance", "wire_load")


def delivery_of(result: RunResult, labels: Mapping[str, str], cells: Collection[str] | None = None) -> Statement:
    """The statement of a run, or of some of its cells. labels: of cells, to name those with a loss."""
    trials = [trial.summary for trial in result.trials if cells is None or trial.summary.cell in cells]
    plans = [plan for plan in result.manifest.trials if cells is None or plan.cell in cells]
    planned = sum(plan.status != "skipped" for plan in plans)
    return _with_replaced(delivery_statement(trials, planned, labels), plans)


def _with_replaced(delivery: Statement, plans: Iterable[TrialPlan]) -> Statement:
    """The statement, with faults of the system in trials that were measured again: a retry takes none back."""
    texts = [
        f"Before trial {plan.trial_id} was measured again: {'; '.join(before.reasons)}."
        for plan in plans
        for before in plan.replaced
        if before.system_at_fault
    ]
    if not texts:
        return delivery
    short = delivery.short if delivery.state == "bad" else "The system failed in a trial that was measured again"
    return replace(delivery, text=" ".join([delivery.text, *texts]), state="bad", short=short)


def delivery_statement(trials: Sequence[TrialSummary], planned: int, labels: Mapping[str, str]) -> Statement:
    """The statement.

    trials: all finished ones, twins included. planned: how many should have finished. labels: of cells.
    """
    if not trials:
        return Statement("No trial finished, so nothing is known about lost records.", "delivery", "open")
    if broken := list(_broken(trials, labels)):
        return Statement(f"{'; '.join(broken)}.", "delivery", "bad", broken[0])
    checked = [trial for trial in trials if _is_checked(trial)]
    twins = " (A/A twins included)" if any(trial.role == "a_a" for trial in trials) else ""
    among = "" if len(checked) == planned else f", in {len(checked)} of {plural(planned, 'trial')}{twins}"
    if checked:
        unknown = len(trials) - len(checked)
        unchecked = f"; {plural(unknown, 'trial')} did not check delivery" if unknown else ""
        state: StatementState = "plain" if among else "good"
        return Statement(f"{_no_loss(checked)}{among}{unchecked}.", "delivery", state, NO_LOSS)
    short, _, _ = _unchecked(trials).partition(": ")
    return Statement(_unchecked(trials), "delivery", "plain", short)


def broken_in(trials: Iterable[TrialSummary]) -> str:
    """What happened to records of these trials against the promise: `3 lost`; empty if nothing did."""
    counts: dict[str, int] = {}
    for reason in (reason for trial in trials for reason in trial.verdict.reasons):
        if reason.check in _BROKEN:
            counts[reason.check] = counts.get(reason.check, 0) + int(reason.value)
    return ", ".join(f"{count_text(count)} {_BROKEN[check][2].partition(',')[0]}" for check, count in counts.items())


def _broken(trials: Sequence[TrialSummary], labels: Mapping[str, str]) -> Iterable[str]:
    """What the verdicts found, with the cells that it happened in unless there is only one."""
    for check, (of, total, what) in _BROKEN.items():
        counts: dict[str, int] = {}
        for trial in trials:
            for reason in trial.verdict.reasons:
                if reason.check == check:
                    counts[trial.cell] = counts.get(trial.cell, 0) + int(reason.value)
        if counts:
            count = sum(counts.values())
            were = "were" if count > 1 else "was"
            whole = count_text(_total(trials, total))
            yield f"{count_text(count)} of {whole} {of} records {were} {what}{_where(counts, labels)}"
    # A log that holds another number of records than it should is named only where no count says what happened.
    for trial in trials:
        checks = [reason.check for reason in trial.verdict.reasons]
        if _LOG_DISAGREES in checks and not _BROKEN.keys() & set(checks):
            yield (
                f"the log of trial {trial.trial_id} holds {count_text(trial.delivery.in_log)} records"
                + _where({trial.cell: 1}, labels)
                + f", and {count_text(trial.delivery.acked)} were acknowledged"
            )


def _where(cells: Iterable[str], labels: Mapping[str, str]) -> str:
    return f" (in {', '.join(f'“{labels[cell]}”' for cell in cells)})" if len(labels) > 1 else ""


def _no_loss(trials: Sequence[TrialSummary]) -> str:
    aborted = _total(trials, lambda delivery: delivery.aborted)
    expected = _total(trials, lambda delivery: delivery.acked - delivery.aborted)
    duplicated = _total(trials, lambda delivery: delivery.duplicated)
    reordered = _total(trials, lambda delivery: delivery.reordered)
    all_of = f"{count_text(expected)} of {count_text(expected)} records"
    allowed = []
    if duplicated:
        allowed.append(f"{plural(duplicated, 'duplicate')}, which at-least-once delivery allows")
    if reordered:
        allowed.append(f"{count_text(reordered)} out of order, which the workload allows")
    if aborted:
        allowed.append(f"{count_text(aborted)} of aborted transactions left out")
    # Not every trial has a promise of order, but what was checked was counted.
    order = "" if reordered else ", in order" if not duplicated else " in order"
    once = "" if duplicated else " once"
    return f"{NO_LOSS}: {all_of} arrived{once}{order}{_listed(allowed)}"


def _listed(texts: Sequence[str]) -> str:
    return f" ({'; '.join(texts)})" if texts else ""


def _unchecked(trials: Sequence[TrialSummary]) -> str:
    acked, in_log = (_total(trials, read) for read in (lambda d: d.acked, lambda d: d.in_log))
    if any(trial.delivery.received for trial in trials) and not _native(trials):
        return f"Not known whether records were lost: delivery was not checked ({count_text(acked)} acknowledged)."
    check = "native clients count records, and check none" if _native(trials) else "no consumer read them back"
    if in_log >= acked:
        return f"The log holds all {count_text(acked)} acknowledged records; {check}."
    return f"The log holds {count_text(in_log)} of {count_text(acked)} acknowledged records; {check}."


def _native(trials: Sequence[TrialSummary]) -> bool:
    return all(trial.driver in _NATIVE for trial in trials)


def _is_checked(trial: TrialSummary) -> bool:
    """Older results do not say; they were checked whenever something was received."""
    delivery = trial.delivery
    return bool(delivery.received) if delivery.checked is None else delivery.checked


def _total(trials: Iterable[TrialSummary], read: Callable[[Delivery], int]) -> int:
    return sum(read(trial.delivery) for trial in trials)

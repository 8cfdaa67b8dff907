"""Why trials are not valid: like causes of several trials as one, in words and units. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from highwater.common.units import percent_text, plural, ratio_text, significant
from highwater.results.metrics import value_text
from highwater.results.models import Reason, Verdict

_TIMES: Final = "times"
# Beside a limit that is nearly reached, three digits are too few.
_DIGITS: Final = 4


class _Check(NamedTuple):
    """What a check found. `unit`: of value and limit, as in results.metrics, or `times`; empty for a count, a word."""

    words: str
    unit: str = ""


_CHECKS: Final = {
    "load.achieved_ratio": _Check("less than {limit} of the offered load was acknowledged", "ratio"),
    "generator.send_delay_p99_ns": _Check("records left late: p99 above {limit}", "ns"),
    "generator.cpu_ratio_max": _Check("busiest load task above {limit} of a core", "ratio"),
    "generator.oversubscribed": _Check("more load tasks than cores"),
    "generator.ceiling_ratio": _Check("load above {limit} of what the producers reach alone", "ratio"),
    "generator.consumer_ceiling_ratio": _Check("load above {limit} of what the consumers reach alone", "ratio"),
    "host.cpu_ratio": _Check("host CPU above {limit}", "ratio"),
    "host.steal_ratio": _Check("CPU time given to other guests above {limit}", "ratio"),
    "host.profile": _Check("host profile did not hold"),
    "steady.drift_ratio": _Check("median latency drifted by more than {limit}", _TIMES),
    "steady.not_attained": _Check("never steady during the warm-up", "s"),
    "canary.taken": _Check("the host was not checked before the block"),
    "canary.cpu": _Check("processor slower than in other blocks, by more than {limit}", _TIMES),
    "canary.memory": _Check("memory slower than in other blocks, by more than {limit}", _TIMES),
    "canary.disk": _Check("disk slower than in other blocks, by more than {limit}", _TIMES),
    "canary.loopback": _Check("loopback slower than in other blocks, by more than {limit}", _TIMES),
    "delivery.lost": _Check("acknowledged records lost", "records"),
    "delivery.failed": _Check("records given up by the client", "records"),
    "delivery.corrupt": _Check("records changed on the way", "records"),
    "delivery.duplicated": _Check("records received twice", "records"),
    "delivery.reordered": _Check("records out of order", "records"),
    "delivery.aborted_received": _Check("records of aborted transactions received", "records"),
    "delivery.skipped": _Check("records given to no member of the group", "records"),
    "delivery.in_log": _Check("the log holds another number of records", "records"),
    "loss.unacknowledged": _Check("records lost without a promise (acks 0)", "records"),
    "drain.unread": _Check("acknowledged records not read in time", "records"),
    "trials.at_once": _Check("a trial beside it failed"),
}
_CANARY: Final = "canary."
_SLOWER_HOST: Final = _Check("host slower than in other blocks, by more than {limit}", _TIMES)


@dataclass(frozen=True, slots=True)
class Cause:
    """One check that did not hold, in one or more trials."""

    check: str
    reasons: Sequence[Reason]

    @property
    def words(self) -> str:
        """`host CPU above 95 %`."""
        limits = dict.fromkeys(limit_text(reason) for reason in self.reasons)
        return _check(self.check).words.format(limit=" or ".join(limits))

    @property
    def text(self) -> str:
        """`8 trials: host CPU above 95 %; median 97 %`."""
        values = [reason.value for reason in self.reasons if not isinstance(reason.value, str)]
        text = f"{plural(len(self.reasons), 'trial')}: {self.words}"
        if not values or not _check(self.check).unit:
            return text
        return f"{text}; {'median ' if len(values) > 1 else ''}{figure_text(self.check, median(values))}"


def causes(verdicts: Iterable[Verdict]) -> list[Cause]:
    """The checks that did not hold, the most frequent first."""
    found: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for reason in verdict.reasons:
            found.setdefault(reason.check, []).append(reason)
    return [Cause(check, reasons) for check, reasons in sorted(found.items(), key=lambda item: -len(item[1]))]


def value_of_reason_text(reason: Reason) -> str:
    return reason.value if isinstance(reason.value, str) else figure_text(reason.check, reason.value)


def limit_text(reason: Reason) -> str:
    return reason.limit if isinstance(reason.limit, str) else figure_text(reason.check, reason.limit)


def figure_text(check: str, value: float) -> str:
    """A value or a limit of a check in its unit."""
    unit = _check(check).unit
    if unit == _TIMES:
        return ratio_text(value)
    if unit == "ratio":
        return percent_text(value, _DIGITS)
    return value_text(value, unit) if unit else significant(value, _DIGITS)


def _check(name: str) -> _Check:
    if name in _CHECKS:
        return _CHECKS[name]
    # A check of an older version has no words of its own.
    return _SLOWER_HOST if name.startswith(_CANARY) else _Check(f"{name} beyond {{limit}}")

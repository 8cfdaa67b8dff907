"""A first answer to a question, before anything is measured: what rules and a reference host say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.units import plural, significant, size_text
from highwater.studies.advise.space import Setting, amount_of, spell
from highwater.studies.capacity.ceilings import Measured
from highwater.studies.capacity.costs import SIZES, traffic
from highwater.studies.capacity.draws import costs_of
from highwater.tuning.check import KnobReport

_HOST: Final = "host.settings."
_BATCH: Final = "producers.client.batch.size"
# Batches count for these aims, as a broker spends CPU time on each one.
_AIMS_OF_BATCHES: Final = ("system.cpu_s_per_gib", "produce.achieved_per_s")
_BYTES_PER_S: Final = 10e6
_GIB: Final = 1 << 30
_MOST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    setting: str
    value: str
    """The value to begin with; empty if only a measurement decides."""
    why: str
    source: str


def first_answers(
    settings: Sequence[Setting], aims: Sequence[str], host: Sequence[KnobReport], reference: Measured | None
) -> list[FirstAnswer]:
    """One for each setting. host: the tuner's rules for this host. reference: None if no host is near enough."""
    rules = {report.id: report for report in host if report.recommended is not None}
    return [_answer(setting, aims, rules, reference) for setting in settings]


def _answer(
    setting: Setting, aims: Sequence[str], rules: dict[str, KnobReport], reference: Measured | None
) -> FirstAnswer:
    rule = rules.get(setting.key.removeprefix(_HOST)) if setting.key.startswith(_HOST) else None
    if rule is not None:
        return FirstAnswer(setting.key, rule.recommended_text, rule.reason, _source(rule))
    if setting.key == _BATCH and set(aims) <= set(_AIMS_OF_BATCHES) and reference is not None:
        sizes = [amount_of(value) for value in setting.values]
        known = [size for size in sizes if size is not None]
        # Beyond the sizes that were measured nothing is said.
        if len(known) == len(sizes) and min(known) < SIZES[-1] and max(known) > SIZES[0]:
            return _largest_batch(setting, known, reference)
    return FirstAnswer(setting.key, "", f"no rule says what is best for {', '.join(aims)}", "")


def _largest_batch(setting: Setting, sizes: Sequence[float], reference: Measured) -> FirstAnswer:
    small, large = (min(max(size, SIZES[0]), SIZES[-1]) for size in (min(sizes), max(sizes)))
    costs = costs_of(reference)
    each = [costs.cpu_cores(traffic(size, _BYTES_PER_S, 0, 0)) / _BYTES_PER_S * _GIB for size in (small, large)]
    why = (
        f"a GiB cost a broker {significant(each[0])} s of CPU time in batches of {size_text(small)}, and "
        f"{significant(each[1])} s in batches of {size_text(large)}"
        f"{'; larger ones were not measured' if max(sizes) > SIZES[-1] else ''}"
    )
    assert reference.reference is not None
    source = f"reference host {', '.join(reference.runs)}, measured {reference.reference.origin.measured_on}"
    return FirstAnswer(setting.key, spell(setting.values[sizes.index(max(sizes))]), why, source)


def lines_of(
    name: str, answers: Sequence[FirstAnswer], host: Sequence[KnobReport], command: str, takes: str
) -> Iterator[str]:
    """The answer as text. command: measures the question; takes: how long, in words."""
    known = sum(bool(each.value) for each in answers)
    yield (
        f"{name}: not measured here. Rules answer {known} of {plural(len(answers), 'setting')}; a measurement of "
        f"{takes} answers all"
    )
    yield f"next: {command}"
    for each in answers:
        value = f"{each.value}: {each.why} ({each.source})" if each.value else f"not known: {each.why}"
        yield f"  {each.setting}: {value}"
    differing = differing_of(host)
    if differing:
        yield f"this host: {plural(len(differing), 'setting')} not as the tuner's rules say; see highwater tune check"
        for report in differing[:_MOST_SHOWN]:
            yield (
                f"  {report.id}: {report.current_text} is set, {report.recommended_text} recommended: {report.reason} "
                f"({_source(report)})"
            )


def differing_of(host: Sequence[KnobReport]) -> list[KnobReport]:
    """What the tuner would change on this host by itself."""
    return [each for each in host if each.state == "differs" and not (each.obstacle or each.only_if_named)]


def _source(report: KnobReport) -> str:
    return report.sources[0].url if report.sources else "the tuner's catalogue"

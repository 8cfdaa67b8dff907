"""A plan in words: the first screen, then why, what would change it, what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from highwater.common.units import (
    change_text,
    count_text,
    percent_text,
    plural,
    significant,
    size_text,
    wait_text,
)
from highwater.results.analysis.evidence import Evidence, EvidenceRow, Limit
from highwater.studies.capacity.ceilings import Origin
from highwater.studies.capacity.demand import Demand
from highwater.studies.capacity.disks import Array
from highwater.studies.capacity.measured import WORKLOAD
from highwater.studies.capacity.narrowing import Narrowing
from highwater.studies.capacity.plan import AIMED_ERROR_RATIO, ENOUGH_TRIALS, REFUSED_ERROR_RATIO, DiskChoice, Plan
from highwater.studies.capacity.stored import LOAD_FILE
from highwater.studies.capacity.unknown import Unknown

# Those that are used most; the table has them all.
_MOST_ROWS: Final = 5
_DECIMAL = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def headline(plan: Plan) -> str:
    """The plan in a sentence of at most three figures, and in words what keeps it from being sure."""
    asked = plan.asked_brokers
    if asked is None or asked < plan.least_brokers:
        text = answer(plan, is_short=True)
    else:
        brokers, one = plural(asked, "broker"), asked == 1
        if plan.fits:
            text = f"{brokers} {'carries' if one else 'carry'} {_span(plan)}"
        else:
            sure = plan.brokers_low == plan.brokers_high
            needed = f"needs {'' if sure else 'about '}{brokers_text(plan.brokers)}"
            which = needed if plan.brokers else "fits no number of brokers"
            text = f"{brokers} {'does' if one else 'do'} not carry this load, which {which}"
        text += f"; {_binding(plan, is_short=True)}"
    doubts = [
        *(["measured on a reference host, not yours"] if plan.origin is not None else []),
        *(["in doubt: the load goes beyond what was measured"] if beyond_measured(plan) else []),
    ]
    return "; ".join([text, *doubts])


def evidence(plan: Plan) -> Evidence | None:
    """What the busiest broker needs of each resource, as a share of what a plan may use of it."""
    if plan.state is None:
        return None
    shown = plan.state.by_use[:_MOST_ROWS]
    rows = []
    for demand in shown:
        usable = amount_text(demand.ceiling * demand.limit_ratio, demand.unit)
        # What never ends has no place on an axis.
        percent = 100 * demand.use_ratio if math.isfinite(demand.use_ratio) else None
        rows.append(
            EvidenceRow(
                demand.resource,
                [],
                percent,
                None if percent is None else (0.0, percent),
                "never" if percent is None else percent_text(demand.use_ratio),
                f"{amount_text(demand.amount, demand.unit)} of {usable}",
                "bad" if demand.use_ratio > 1 else "plain",
            )
        )
    return Evidence(
        f"The busiest of {plural(plan.state_brokers, 'broker')}: what it needs of what a plan may use",
        "%",
        rows,
        [Limit("all that a plan may use", 100.0)],
        len(plan.state.demands) - len(shown),
        centre_words="need of the busiest broker",
        span_words="",
    )


def next_step(plan: Plan, load_file: str = LOAD_FILE) -> str:
    """Which measurement makes the answer surer; empty if nothing is open."""
    if plan.narrowing is not None:
        return next_text(plan, plan.narrowing, load_file)
    return next((each.find_out for each in beyond_measured(plan)), "")


def beyond_measured(plan: Plan) -> list[Unknown]:
    return [each for each in plan.unknown if each.is_beyond_measured]


def answer(plan: Plan, *, is_short: bool = False) -> str:
    """The plan in one sentence."""
    if plan.asked_brokers is not None:
        return _reverse_answer(plan)
    if plan.brokers is None:
        worst = plan.state.by_use[0] if plan.state else None
        why = f": {_of(worst)} does not become less with more brokers" if worst else ""
        return f"no number of brokers carries this load{why}"
    return f"{plural(plan.brokers, 'broker')}{_brokers_interval(plan)}; {_binding(plan, is_short=is_short)}"


def lines(plan: Plan) -> Iterator[str]:
    """What stands below the first screen."""
    if (whole := answer(plan)) not in headline(plan):
        yield whole
    if plan.origin is not None:
        yield reference_text(plan, plan.origin)
    if plan.other_memory:
        yield f"ceilings of a host with other memory: {plan.other_memory}. The rest is as on the measured host"
    yield how_sure(plan)
    if growth := growth_text(plan):
        yield growth
    yield measured_on(plan)
    yield from _state(plan)
    yield from _topics(plan)
    yield from _disks(plan.disks)
    yield ""
    yield from table(
        ("if it were otherwise", "brokers"),
        [(each.change, brokers_text(each.brokers)) for each in plan.sensitivities],
    )
    yield from _predictions(plan)
    yield ""
    yield "not known, and what finds it out:"
    for each in plan.unknown:
        yield f"- {each.what}"
        yield f"    {each.find_out}"


def reference_text(plan: Plan, origin: Origin) -> str:
    """Which host the figures are of, and in what the planned hosts differ from it."""
    told = ", ".join(f"{each.fact} ({each.planned} instead of {each.reference})" for each in origin.differences)
    host = f"{plan.host.cpu_model} × {plan.host.cpu_count}, measured {origin.measured_on}"
    return (
        f"from a reference host, not yours: {host}; {f'yours differs in {told}; ' if told else ''}your disk is unknown"
    )


def next_text(plan: Plan, found: Narrowing, load_file: str = LOAD_FILE) -> str:
    """The measurement that would narrow the answer most, how long it takes, and what would remain."""
    remains = f"the answer would then be about {span_text(plan, found.low, found.high)}"
    if found.part == "load":
        return (
            f"Take the rates that a monitor has seen (two weeks); {remains}: "
            "highwater monitor load-file observed.yaml -b BROKER:PORT --days 14"
        )
    what = "what a disk of yours does" if found.part == "disk" else "what work costs your host"
    if plan.origin is not None:
        return f"Measure {what} (3 minutes, on a quiet host); {remains}: highwater plan {load_file} --measure 3min"
    return (
        f"Measure {what} (half an hour); {remains}: "
        f"highwater bench run {WORKLOAD} --launcher process --storage data=DIRECTORY --out results/ceilings"
    )


def how_sure(plan: Plan) -> str:
    """The range of the answer, and how far its costs were from what they had not seen."""
    span = _span(plan)
    if plan.origin is not None:
        return f"how sure: 95 of 100 plans say {span}; {_stretched(plan.origin)}{_left_out(plan.origin)}"
    sure = f"how sure: 95 of 100 plans, drawn from the trials and from the range of the load, say {span}"
    if plan.few_trials:
        sure += (
            f"; a cell has fewer than {ENOUGH_TRIALS} trials, so that they take costs up to "
            f"{percent_text(REFUSED_ERROR_RATIO)} higher or lower"
        )
    if not plan.predictions:
        return f"{sure}; how far the costs are from cells that they were not fitted to is not known"
    aim = f" (the aim is {percent_text(AIMED_ERROR_RATIO)})" if misses_aim(plan) else ""
    worst = max(abs(each.error_ratio) for each in plan.predictions)
    missed = f"costs missed cells that they were not fitted to by up to {percent_text(worst)}{aim}"
    return f"{sure}; {missed}, which the range includes"


def misses_aim(plan: Plan) -> bool:
    return any(abs(each.error_ratio) > AIMED_ERROR_RATIO for each in plan.predictions)


def _stretched(origin: Origin) -> str:
    """Why the interval of a plan from a reference host is wide."""
    is_like = not {"processor", "processors"} & {each.fact for each in origin.differences}
    return (
        f"they take each cost up to {significant(origin.cost_factor)} times as high or as low, as "
        f"{'a like host' if is_like else 'another processor'} was measured, and the speed of a disk up to "
        f"{significant(origin.disk_factor)} times, as yours is not known"
    )


def _left_out(origin: Origin) -> str:
    """What hosts say of each other, when there are enough of them."""
    if not origin.left_out:
        return ""
    worst = max(origin.left_out, key=lambda each: each.ratio)
    return (
        f"; each of {len(origin.left_out)} reference hosts was predicted from the nearest other, and costs were up to "
        f"{significant(worst.ratio, 2)} times off ({worst.host} from {worst.predicted_from}, {worst.worst_cell})"
    )


def _span(plan: Plan) -> str:
    if plan.asked_brokers is not None:
        return span_text(plan, plan.factor_low, plan.factor_high)
    return span_text(plan, plan.brokers_low, plan.brokers_high)


def span_text(plan: Plan, low: float | None, high: float | None) -> str:
    """An interval of what the plan answers: times the load for brokers that were asked about, else brokers."""
    if plan.asked_brokers is not None and low is not None and high is not None:
        return f"{significant(low, 2)} to {significant(high, 2)} times this load"
    if low is None:
        return "that no number is enough"
    if high is None:
        return f"{low:.0f} brokers or more"
    if low == high:
        return plural(round(low), "broker")
    return f"{low:.0f} to {plural(round(high), 'broker')}"


def measured_on(plan: Plan) -> str:
    host = plan.host
    when = "" if plan.origin is None else f"; {plan.origin.conditions}"
    return (
        f"measured on {plan.system}, {host.cpu_model} × {host.cpu_count}, {size_text(host.memory_bytes)}, Linux "
        f"{host.kernel}{', ' + host.runs_in if host.runs_in else ''}; {plural(plan.trials_used, 'trial')} of "
        f"{', '.join(plan.runs)}{when}"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns, the first to the left and the others to the right; no line ends in spaces."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        first, *others = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *others)).rstrip()


def _reverse_answer(plan: Plan) -> str:
    assert plan.asked_brokers is not None
    asked, one = plural(plan.asked_brokers, "broker"), plan.asked_brokers == 1
    if plan.asked_brokers < plan.least_brokers:
        return (
            f"{asked} {'is' if one else 'are'} too few: copies, in-sync replicas, racks and brokers that may be down "
            f"need {plan.least_brokers}"
        )
    span = ""
    if plan.factor_low is not None and plan.factor_high is not None:
        span = f" ({significant(plan.factor_low, 2)} to {significant(plan.factor_high, 2)})"
    factor = f"{significant(plan.factor or 0.0, 2)} times this load{span}"
    if plan.fits:
        return f"{asked} {'carries' if one else 'carry'} {factor}; {_binding(plan)}"
    needed = (
        f"needs {brokers_text(plan.brokers)}{_brokers_interval(plan)}" if plan.brokers else "fits no number of brokers"
    )
    return f"{asked} {'does' if one else 'do'} not carry this load, which {needed}, but {factor}; {_binding(plan)}"


def _brokers_interval(plan: Plan) -> str:
    if plan.brokers_low is None or plan.brokers_low == plan.brokers_high:
        return ""
    if plan.brokers_high is None:
        return f" ({plan.brokers_low} or more)"
    return f" ({plan.brokers_low} to {plan.brokers_high})"


def brokers_text(count: int | None) -> str:
    return "no number" if count is None else count_text(count)


def _binding(plan: Plan, *, is_short: bool = False) -> str:
    """What limits the cluster, and what would be next."""
    if plan.state is None:
        return "no broker would be up"
    first, second = plan.state.by_use[:2]
    used = "" if is_short or plan.origin is not None else f" ({percent_text(first.use_ratio)} of what a plan may use)"
    if plan.brokers is not None and plan.asked_brokers is None and plan.brokers == plan.least_brokers:
        most = f"{_of(first)} is used most{used}{'' if is_short else f', then {_of(second)}'}"
        return f"fewer cannot hold the copies while brokers are down; {most}"
    return f"limited by {_of(first)}{used}{'' if is_short else f', then by {_of(second)}'}"


def _of(demand: Demand | None) -> str:
    return "" if demand is None else f"the {demand.resource}" if demand.resource != "CPU" else "CPU"


def amount_text(value: float, unit: str) -> str:
    if math.isinf(value):
        return "never"
    match unit:
        case "bytes":
            return size_text(value)
        case "bytes/s":
            return rate_text(value)
        case "/s":
            return f"{count_text(round(value))}/s"
        case "s":
            return wait_text(value)
    return f"{significant(value)} {unit}"


def rate_text(bytes_per_s: float) -> str:
    for name, size in reversed(_DECIMAL.items()):
        if bytes_per_s >= size:
            return f"{significant(bytes_per_s / size)} {name}/s"
    return f"{significant(bytes_per_s)} B/s"


def _state(plan: Plan) -> Iterator[str]:
    state = plan.state
    if state is None:
        return
    yield ""
    yield from table(
        (f"worst of {plan.state_brokers}", "needs", "ceiling", "may use", "used of that", "ceiling from"),
        [
            (
                demand.resource,
                amount_text(demand.amount, demand.unit),
                amount_text(demand.ceiling, demand.unit),
                percent_text(demand.limit_ratio),
                percent_text(demand.use_ratio),
                "measured" if demand.measured else "load file",
            )
            for demand in state.by_use
        ],
    )
    late = f"; groups of {', '.join(state.late_topics)} read from the disk" if state.late_topics else ""
    yield f"the page cache holds the last {wait_text(state.cached_s)} of writes{late}"
    yield (
        f"{count_text(state.partition_replicas)} partition replicas, {count_text(state.open_files)} open files beside "
        f"connections; a broker that lost its disks has them back after {amount_text(state.recovery_s, 's')} "
        "at best: as fast as network and disks allow"
    )


def _topics(plan: Plan) -> Iterator[str]:
    if plan.brokers is None and plan.asked_brokers is None:
        return
    yield ""
    yield from table(
        ("topic", "partitions", "replication.factor", "min.insync.replicas"),
        [
            (topic.name, count_text(topic.partitions), str(topic.replication), str(topic.min_insync_replicas))
            for topic in plan.topics
        ],
    )
    yield from (f"{topic.name}: {note}" for topic in plan.topics for note in topic.notes)


def _disks(choices: Sequence[DiskChoice]) -> Iterator[str]:
    if not choices:
        return
    yield ""
    yield from table(
        ("disks of a broker", "usable", "write", "read", "copies", "lost disk", "brokers", ""),
        [
            (
                f"{choice.array.layout} of {choice.target} ({choice.medium}{', emulated' if choice.emulation else ''})",
                size_text(choice.array.usable_bytes),
                rate_text(choice.write_bytes_per_s),
                rate_text(choice.array.read_bytes_per_s),
                significant(choice.copies),
                lost_disk_text(choice.array, choice.lost_disk_s),
                brokers_text(choice.brokers),
                "chosen" if choice.chosen else "",
            )
            for choice in choices
        ],
    )


def lost_disk_text(array: Array, lost_disk_s: float) -> str:
    if not array.lost_share:
        return "no replica missing"
    return f"{array.lost_disk_loses} missing {amount_text(lost_disk_s, 's')}"


def growth_text(plan: Plan) -> str:
    """Empty if the load does not grow."""
    growth = plan.growth
    if growth is None:
        return ""
    then = f"the load in {plural(growth.months, 'month')} needs {brokers_text(growth.brokers_then)}"
    if not plan.fits:
        return f"with {percent_text(growth.per_month_ratio)} more each month, {then}"
    when = "not in ten years"
    if growth.reached is not None:
        when = f"in {growth.reached} ({growth.earliest} to {growth.latest or 'not in ten years'})"
    brokers = (
        f"{plural(plan.state_brokers, 'broker')} {'reaches its' if plan.state_brokers == 1 else 'reach their'} limit"
    )
    return f"with {percent_text(growth.per_month_ratio)} more each month, {brokers} {when}; {then}"


def _predictions(plan: Plan) -> Iterator[str]:
    if not plan.predictions:
        return
    yield ""
    yield from table(
        ("cell that costs were not fitted to", "predicted", "measured", "error"),
        [
            (
                f"{each.cell}, left out in turn" if each.in_turn else each.cell,
                f"{significant(each.predicted_cores)} cores",
                f"{significant(each.measured_cores)} cores",
                change_text(1 + each.error_ratio),
            )
            for each in plan.predictions
        ],
    )

"""What settings may cost of acknowledged records, so that no durability is traded unasked. Pure.

There are two losses. `kill`: a broker's process dies, and the page cache of its host lives on. `power_loss`: a
host loses what it had not flushed. A question says of each what it demands:

    as_in_use   no setting may be weaker than the one in use (the default)
    kept        no acknowledged record may be lost, whatever is in use now
    may_lose    the loss is accepted, and settings may trade it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from highwater.bench.workload.model import Workload
from highwater.bench.workload.values import NO_PROFILE, Scalar
from highwater.studies.advise.space import amount_of, spell
from highwater.tuning.catalogue import find_knob

Loss = Literal["kill", "power_loss"]
Demand = Literal["as_in_use", "kept", "may_lose"]

LOSSES: Final[tuple[Loss, ...]] = ("kill", "power_loss")
_NEVER: Final = float("inf")
_ACKS: Final = {"all": 0.0, "-1": 0.0, "1": 1.0, "0": 2.0}
_HOST: Final = "host.settings."
# How much unwritten data host profiles leave in memory. `durable` bounds it tightly, `notes` keeps more than the kernel
# does by default; the others do as `recommended`, which keeps less than the kernel.
_PROFILES: Final = {"durable": 0, NO_PROFILE: 2, "notes": 3, "as-the-notes-say": 3}
_OTHER_PROFILES: Final = 1


@dataclass(frozen=True, slots=True)
class _Guard:
    """A property whose values differ in what they may lose.

    weakness: higher is weaker. cost: what a weak value costs.
    """

    names: tuple[str, ...]
    loss: Loss
    weakness: Callable[[str], float]
    default: str
    cost: str

    def weakness_of(self, value: Scalar | None) -> float:
        return self.weakness(self.default if value is None else spell(value))


def _interval(text: str) -> float:
    """How weak a flush interval is: longer is weaker, and one that is not set is for ever."""
    amount = amount_of(text)
    return _NEVER if amount is None else amount


_GUARDS: Final = (
    _Guard(
        ("acks", "request.required.acks"),
        "kill",
        lambda text: _ACKS.get(text, 2.0),
        "all",
        "records that only the leader has, or nobody, are lost with it",
    ),
    _Guard(
        ("min.insync.replicas",),
        "kill",
        lambda text: -(amount_of(text) or 0.0),
        "1",
        "records may be acknowledged with fewer copies",
    ),
    _Guard(
        ("unclean.leader.election.enable",),
        "kill",
        lambda text: float(text == "true"),
        "false",
        "a replica that lacks acknowledged records may become the leader",
    ),
    _Guard(
        ("flush.messages", "log.flush.interval.messages"),
        "power_loss",
        _interval,
        "",
        "more acknowledged records wait for their flush",
    ),
    _Guard(
        ("flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        "power_loss",
        _interval,
        "",
        "acknowledged records wait longer for their flush",
    ),
    _Guard(
        tuple(f"vm.dirty_{name}" for name in ("bytes", "ratio", "background_bytes", "background_ratio")),
        "power_loss",
        _interval,
        "",
        "more unwritten data is in memory",
    ),
    _Guard(
        ("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs"),
        "power_loss",
        _interval,
        "",
        "data stays unwritten in memory for longer",
    ),
)


@dataclass(frozen=True, slots=True)
class Trade:
    """Values of one setting that are weaker than the one in use."""

    key: str
    values: tuple[Scalar | None, ...]
    loss: Loss
    cost: str


def trades_of(key: str, values: tuple[Scalar | None, ...], in_use: Scalar | None) -> Trade | None:
    """Which values of a setting weaken durability, against the value in use (None: the system's default)."""
    name = key.split(".", 2)[2] if key.count(".") > 1 else key
    if key == "host.profile":
        lax = tuple(value for value in values if _of_profile(value) > _of_profile(in_use))
        cost = "more unwritten data stays in memory, or for longer"
        return Trade(key, lax, "power_loss", cost) if lax else None
    if key.startswith(_HOST) and find_knob(name).only_if_named.startswith("durability"):
        others = tuple(value for value in values if spell(value) != spell(in_use))
        return Trade(key, others, "power_loss", find_knob(name).only_if_named.partition(": ")[2]) if others else None
    guard = next((guard for guard in _GUARDS if name in guard.names), None)
    if guard is None:
        return None
    # What a host has now is not in the question: without `in_use`, each value may be weaker than that.
    known = not key.startswith(_HOST) or in_use is not None
    present = guard.weakness_of(in_use) if known else -_NEVER
    weaker = tuple(value for value in values if guard.weakness_of(value) > present)
    return Trade(key, weaker, guard.loss, guard.cost) if weaker else None


def _of_profile(value: Scalar | None) -> int:
    return _PROFILES.get(NO_PROFILE if value is None else spell(value), _OTHER_PROFILES)


def lacking(workload: Workload, demands: Mapping[Loss, Demand]) -> Iterator[tuple[Loss, str]]:
    """What a workload lacks of the losses that are demanded to be `kept`; each with the setting that is needed."""
    if demands["kill"] == "kept":
        yield from (("kill", needed) for needed in _lacking_at_a_kill(workload))
    if demands["power_loss"] == "kept":
        yield from (("power_loss", needed) for needed in _lacking_at_a_power_loss(workload))


def _lacking_at_a_kill(workload: Workload) -> Iterator[str]:
    copies = workload.topics.replication
    acks = _property(workload.producers.client, "acks", "request.required.acks") or "all"
    if _ACKS.get(acks, 2.0) > (0 if copies > 1 else 1):
        yield f"acks={'all' if copies > 1 else '1 or all'}"
    if copies > 1:
        synced = _of_topics(workload, "min.insync.replicas", "min.insync.replicas") or "1"
        if (amount_of(synced) or 1) < 2:
            yield "min.insync.replicas of 2 or more"
    if _of_topics(workload, "unclean.leader.election.enable", "unclean.leader.election.enable") == "true":
        yield "unclean.leader.election.enable=false"


def _lacking_at_a_power_loss(workload: Workload) -> Iterator[str]:
    acks = _property(workload.producers.client, "acks", "request.required.acks") or "all"
    if _ACKS.get(acks, 2.0) > 1:
        yield "acks=1 or all"
    if _of_topics(workload, "flush.messages", "log.flush.interval.messages") != "1":
        yield "flush.messages=1 (or log.flush.interval.messages=1 of the broker)"


def _of_topics(workload: Workload, topic_name: str, broker_name: str) -> str | None:
    """The value in force for the workload's topics."""
    config: Mapping[str, Scalar] = getattr(workload.system, "config", {})
    return _property(workload.topics.config, topic_name) or _property(config, broker_name)


def _property(properties: Mapping[str, Scalar], *names: str) -> str | None:
    return next((spell(properties[name]) for name in names if name in properties), None)

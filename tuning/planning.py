"""The plan: what has to change for knobs to be as recommended now, and to stay so over a reboot. It writes nothing.

A value that is good already stays, on the running system and in our files alike, so that the plan after an apply is
empty. What is good at boot without us gets no line of ours, which would pin today's default and lower tomorrow's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .facts import Facts
    from .model import Knob
    from .steps import Plan
    from .workload import Workload


@dataclass(frozen=True)
class PlanOptions:
    """How far a plan goes.

    named: ids of the knobs that somebody asked for by name. A named knob that this host does not let us set is an
    error; one that only `all` or a profile chose is left out with a warning. Trades of durability are made by name only.
    keep: also over a reboot; without it the running system alone is changed, as a benchmark does for a while.
    login_domains: users, @groups or * of limits.conf(5) for the knobs of logins.
    keep_swap: leave swap on, and keep the workload's units out of it instead (MemorySwapMax=0).
    originals: texts from before our first change, by path, as `engine.originals` tells them: what is good only
    because of us needs its line.
    """

    named: frozenset[str] = frozenset()
    keep: bool = True
    login_domains: tuple[str, ...] = ()
    keep_swap: bool = False
    originals: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))


def make_plan(facts: Facts, workload: Workload, knobs: Sequence[Knob], options: PlanOptions | None = None) -> Plan:
    """Evaluate `knobs` and plan the steps, in the order in which they have to be made. Writes nothing.

    A profile's own values come as knobs with another formula. Service units are those of the workload.
    Raises TuningError that names every named knob which this host does not let us set, a bad unit or login domain, and
    a file limit above fs.nr_open.
    """
    raise NotImplementedError

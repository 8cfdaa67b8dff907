"""What every part of a broker needs: its id, its configuration, time and timers."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.turns import Turns


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Runtime:
    broker_id: int
    config: BrokerConfig
    clock: Clock
    scheduler: Scheduler
    turns: Turns
    """The turns of work whose length grows with a request."""

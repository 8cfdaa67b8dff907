"""What a person does next about one thing, in words for the first screen of its page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.monitor.figures.rows import BrokerFigures, GroupFigures, LagVerdict, TopicFigures
from highwater.monitor.model import Broker

_OF_GROUPS: Final[Mapping[LagVerdict, str]] = {
    LagVerdict.WARN: "Make its consumers faster or add some, up to one for each partition, because lag rises.",
    LagVerdict.LOSS: "Keep records longer (retention) or read faster, because what was deleted cannot be read again.",
    LagVerdict.REWIND: "Find out who set its offsets back; if that was wanted, wait until it has caught up.",
    LagVerdict.STALL: "Read the logs of its members, because they are there and read nothing.",
    LagVerdict.STOP: "Start its consumers, because nobody reads; if it is not used any more, delete it.",
}


def of_group(row: GroupFigures) -> str:
    return _OF_GROUPS.get(row.verdict, "")


def of_topic(row: TopicFigures) -> str:
    health = row.health
    if health.offline:
        return "Start a broker that holds its offline partitions (“Where they are”), because nobody can use them."
    if health.under_min_isr:
        return "Bring its replicas back in sync, because producers with acks=all are refused until then."
    if health.under_replicated:
        return "Look at the brokers whose replicas are out of sync (“Where they are”)."
    if health.hanging_transactions:
        return "End the hanging transaction with the command of “Open transactions”, because readers wait for it."
    return "Elect the preferred leaders (below), which evens out the load." if health.not_preferred else ""


def of_broker(broker: Broker, row: BrokerFigures) -> str:
    if not row.is_alive:
        return "Start it again. If it will not come back, move its replicas to others: “Plan to empty it”, below."
    if broker.error:
        return "Look at its log and at its host, because it is in the cluster and does not answer."
    if row.offline_directories:
        return f"Repair the disk of {', '.join(row.offline_directories)}, and start the broker again."
    if row.preferred_leaders > row.leaders:
        return "Elect the preferred leaders (below), because others lead what it should lead."
    return ""

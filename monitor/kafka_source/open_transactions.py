"""Asks for the transactions of the few partitions whose last stable offset stands still for long."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.client.request import Request
from highwater.kafka.requests.metadata import ClusterRow
from highwater.monitor.kafka_source.parts import Part, PartLife, SourceTick, refusal
from highwater.monitor.kafka_source.transactions import (
    PROBE,
    CoordinatorTransactions,
    Producers,
    describe_producers,
    describe_transactions,
    is_whole,
    list_transactions,
    may_see_all,
    open_transactions,
    unknown_to,
)
from highwater.monitor.model import NO_LEADER, OpenTransaction

Answer = TypeVar("Answer")
_TRANSACTION_STATE: Final = "__transaction_state"
_PART: Final = Part.TRANSACTIONS


@dataclass(slots=True)
class _Coordinators:
    answers: list[CoordinatorTransactions]
    is_complete: bool


class OpenTransactions:
    """The open transactions of one cluster: at most four requests to a broker, none if no partition stands still."""

    def __init__(self) -> None:
        self.found: tuple[OpenTransaction, ...] = ()
        self.asked: frozenset[TopicPartition] = frozenset()
        """Partitions of the newest round."""

    async def ask(
        self, tick: SourceTick, cluster: ClusterRow, alive: Collection[int], partitions: Collection[TopicPartition]
    ) -> None:
        self.asked = frozenset(partitions)
        leaders = _leaders(cluster)
        wanted = {key: leaders[key] for key in partitions if leaders.get(key) in alive}
        producers = await self._ask_producers(tick, wanted)
        ids = {each.producer_id for found in producers.values() for each in found.open}
        made: tuple[OpenTransaction, ...] = ()
        if ids:
            coordinators = await self._ask_coordinators(tick, cluster, alive, ids)
            unknown = unknown_to(producers, coordinators.answers) if coordinators.is_complete else set()
            still = await self._ask_producers(tick, {key: wanted[key] for key in unknown})
            made = open_transactions(producers, coordinators.answers, still, is_complete=coordinators.is_complete)
        # Of a leader that did not answer this time, the answer before is the newest.
        kept = [each for each in self.found if each.key in self.asked and each.key not in producers]
        self.found = tuple(sorted([*made, *kept], key=lambda each: (each.key, each.start_offset)))

    def forget(self, lives: dict[Part, PartLife]) -> None:
        """Forget answers and faults, when there is nothing to ask for any more."""
        self.found, self.asked = (), frozenset()
        lives.pop(_PART, None)

    async def _ask_producers(
        self, tick: SourceTick, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Producers]:
        by_leader: dict[int, dict[str, list[int]]] = {}
        for (topic, number), leader in sorted(wanted.items()):
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
        answers = await _asked(tick, {leader: describe_producers(topics) for leader, topics in by_leader.items()})
        found: dict[TopicPartition, Producers] = {}
        for answer in answers.values():
            for key, producers in answer.items():
                if producers.error_code:
                    tick.fail(_PART, f"{partition_name(*key)}: {_refusal(producers)}")
                else:
                    found[key] = producers
        return found

    async def _ask_coordinators(
        self, tick: SourceTick, cluster: ClusterRow, alive: Collection[int], producer_ids: Collection[int]
    ) -> _Coordinators:
        listed = await self._list(tick, alive, producer_ids)
        state = [row for topic in cluster.topics if topic.name == _TRANSACTION_STATE for row in topic.partitions]
        if any(row.leader == NO_LEADER for row in state):
            reason = f"some transactions have no coordinator: partitions of {_TRANSACTION_STATE} have no leader"
            tick.fail(_PART, reason)
        if not listed:
            return _Coordinators([], is_complete=False)
        # One of them is asked whether the monitor's user may see all.
        probed = min(listed)
        names = {node: [*ids.values(), *([PROBE] if node == probed else [])] for node, ids in listed.items()}
        described = await _asked(tick, {node: describe_transactions(each) for node, each in names.items() if each})
        answers = [CoordinatorTransactions(node, ids, described.get(node, {})) for node, ids in listed.items()]
        sees_all = may_see_all(described.get(probed, {}))
        if probed in described and not sees_all:
            reason = "coordinators may hide transactions: give the monitor's user Describe on all transactional ids"
            tick.fail(_PART, reason)
        is_complete = (
            sees_all
            and set(listed) == set(alive)
            and all(row.leader in listed for row in state)
            and all(is_whole(each) for each in answers)
        )
        return _Coordinators(answers, is_complete)

    async def _list(
        self, tick: SourceTick, alive: Collection[int], producer_ids: Collection[int]
    ) -> dict[int, Mapping[int, str]]:
        """Transactional ids by coordinator and producer id; without the coordinators that do not say."""
        request = list_transactions(producer_ids)
        found: dict[int, Mapping[int, str]] = {}
        for node, answer in sorted((await _asked(tick, dict.fromkeys(sorted(alive), request))).items()):
            if answer.error_code:
                tick.fail(_PART, f"broker {node} does not list its transactions: {refusal(answer.error_code)}")
            else:
                found[node] = answer.transactional_ids
        return found


async def _asked(tick: SourceTick, requests: Mapping[int, Request[Answer]]) -> dict[int, Answer]:
    """The answers by node id, without the brokers that did not answer."""
    found: dict[int, Answer] = {}

    async def ask(node_id: int) -> None:
        answer = await tick.ask(_PART, node_id, requests[node_id])
        if answer is not None:
            found[node_id] = answer

    await asyncio.gather(*(ask(node_id) for node_id in requests))
    return found


def _leaders(cluster: ClusterRow) -> dict[TopicPartition, int]:
    return {(topic.name, row.partition): row.leader for topic in cluster.topics for row in topic.partitions}


def _refusal(producers: Producers) -> str:
    if producers.error_code == ErrorCode.topic_authorization_failed.value:
        return "its producers are not visible; give the monitor's user Read on topics"
    return refusal(producers.error_code, producers.message)

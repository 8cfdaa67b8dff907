"""The collector of a cluster: few requests in each tick, however many topics and groups there are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeVar

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.client import Client
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.failures import text_of
from highwater.kafka.client.settings import Address, ClientSettings
from highwater.kafka.requests.list_offsets import EARLIEST, LATEST, ListedOffsets, all_at, list_offsets
from highwater.kafka.requests.list_partition_reassignments import list_partition_reassignments
from highwater.kafka.requests.metadata import BrokerRow, ClusterRow, metadata
from highwater.kafka.requests.offset_fetch import offset_fetch
from highwater.monitor.kafka_source import assembling
from highwater.monitor.kafka_source.assembling import CoordinatorAnswer, LeaderOffsets, Replicas
from highwater.monitor.kafka_source.client_metrics import ClientMetricsReader
from highwater.monitor.kafka_source.configs import BROKER, TOPIC, Resource, describe_configs
from highwater.monitor.kafka_source.controller import Quorum, describe_quorum
from highwater.monitor.kafka_source.groups import (
    CLASSIC,
    CONSUMER,
    consumer_group_describe,
    describe_groups,
    list_groups,
)
from highwater.monitor.kafka_source.log_dirs import LogDirs, describe_log_dirs
from highwater.monitor.kafka_source.open_transactions import OpenTransactions
from highwater.monitor.kafka_source.parts import Part, PartLife, SourceTick, now_ms, refusal
from highwater.monitor.kafka_source.transactions import MOST_PARTITIONS
from highwater.monitor.model import ConfigValue, Group, Snapshot
from highwater.monitor.undecided import UndecidedPartitions

Answer = TypeVar("Answer")

_BROKER_SHARE: Final = 4
"""A broker that does not answer costs this fraction of a tick."""
_SELDOM: Final = 4
"""Ticks between two requests for log directories and moves, and for the metadata of a large cluster."""
_LARGE_TOPICS: Final = 5000
_CONFIGS_MS: Final = 5 * 60 * 1000
STANDING_MS: Final = 60 * 1000
"""A last stable offset that stands still for longer makes the collector ask for the transactions of its partition."""
_MEMBERLESS: Final = ("Empty", "Dead")
_RESOURCES_AT_ONCE: Final = 500
"""A broker works at a request for settings without a break."""
_NOTHING: Final = ClusterRow("", -1, [], [])


class KafkaSource:
    """One cluster. Belongs to one event loop."""

    def __init__(
        self, cluster: str, settings: ClientSettings, tick_s: float = 15.0, standing_ms: int = STANDING_MS
    ) -> None:
        self._cluster = cluster
        self._tick_s = tick_s
        self._timeout_s = tick_s / _BROKER_SHARE
        timeout_s = min(settings.connect_timeout_s, self._timeout_s)
        self._client = Client(replace(settings, connect_timeout_s=timeout_s))
        self._ticks = 0
        self._lives: dict[Part, PartLife] = {}
        self._metadata: ClusterRow | None = None
        self._is_metadata_doubtful = True
        self._other_cluster_id = ""
        self._known: dict[int, BrokerRow] = {}
        self._alive: frozenset[int] = frozenset()
        self._log_dirs: dict[int, LogDirs] = {}
        self._replicas = Replicas({}, {})
        self._configs: dict[Resource, Mapping[str, ConfigValue]] = {}
        self._configs_at_ms: int | None = None
        self._moving: frozenset[TopicPartition] = frozenset()
        self._quorum: Quorum | None = None
        self._failed: frozenset[int] = frozenset()
        self._groups: dict[str, Group] = {}
        self._standing_ms = standing_ms
        self._undecided = UndecidedPartitions()
        self._transactions = OpenTransactions()
        self._client_metrics = ClientMetricsReader()

    async def snapshot(self, number: int) -> Snapshot:
        """Ask the cluster. What it does not say is None, with the reason in the states of the sources."""
        tick = SourceTick(self._client, self._addresses(), self._timeout_s, self._tick_s)
        is_seldom = self._ticks % _SELDOM == 0
        self._ticks += 1
        await self._ask_metadata(tick, is_seldom)
        offsets: dict[int, LeaderOffsets] = {}
        coordinators: dict[int, CoordinatorAnswer] = {}
        if self._metadata is not None:
            alive = sorted(self._alive)
            # Commits before end offsets: the other way round, lag would be negative.
            coordinators = _found(alive, await asyncio.gather(*(self._ask_groups(tick, node) for node in alive)))
            led = {node: led for node, led in assembling.led_partitions(self._metadata).items() if node in self._alive}
            offsets = _found(led, await asyncio.gather(*(self._ask_offsets(tick, node, led[node]) for node in led)))
            await self._ask_the_rest(tick, is_seldom)
        return await asyncio.to_thread(self._assemble, tick, number, offsets, coordinators)

    def forget(self, node_id: int) -> None:
        """Leave a broker that vanished out of the snapshots from now on. No effect on one that is alive."""
        if node_id not in self._alive:
            self._known.pop(node_id, None)
            self._log_dirs.pop(node_id, None)

    async def close(self) -> None:
        await self._client.close()

    def _addresses(self) -> dict[int, tuple[str, int]]:
        return {node_id: (row.host, row.port) for node_id, row in self._known.items() if row.host}

    async def _ask_metadata(self, tick: SourceTick, is_seldom: bool) -> None:
        """Ask one broker that answers: those that are alive first, then the bootstrap servers.

        Each tick asks which cluster answers: another one may have the addresses by now.
        """
        is_large = self._metadata is not None and len(self._metadata.topics) > _LARGE_TOPICS
        with_topics = not is_large or is_seldom or self._is_metadata_doubtful
        found = None
        # One by one: a broker that is away costs one timeout, and the next tick begins with one that answered.
        for node_id in sorted(self._alive, key=lambda node: (node in self._failed, node)):
            found = await tick.ask(Part.METADATA, node_id, metadata(with_topics=with_topics))
            if found is not None and (other := self._refused(tick, found, tick.addresses[node_id])):
                tick.failed[node_id] = other
                found = None
            if found is not None:
                break
        if found is None:
            with_topics = True
            found = await self._ask_bootstrap_servers(tick)
        if found is not None:
            self._other_cluster_id = ""
        if found is not None and with_topics:
            self._take_metadata(found)
            tick.addresses = self._addresses()

    async def _ask_bootstrap_servers(self, tick: SourceTick) -> ClusterRow | None:
        asked = {tick.addresses[node_id] for node_id in tick.failed}
        for address in self._client.settings.bootstrap_servers:
            if address not in asked:
                try:
                    found = await self._client.ask(address, metadata(), self._timeout_s)
                except ClientError as error:
                    tick.fail(Part.METADATA, str(error))
                else:
                    tick.succeed(Part.METADATA)
                    if not self._refused(tick, found, address):
                        return found
        return None

    def _refused(self, tick: SourceTick, found: ClusterRow, address: Address) -> str:
        """Why nothing of this answer is taken, if it is of another cluster; empty if it is of this one."""
        known = "" if self._metadata is None else self._metadata.cluster_id
        if not known or not found.cluster_id or known == found.cluster_id:
            return ""
        self._other_cluster_id = found.cluster_id
        reason = f"{text_of(address)} is of another cluster now, {found.cluster_id}; this one is {known}"
        tick.refuse(Part.METADATA, reason)
        return reason

    def _take_metadata(self, found: ClusterRow) -> None:
        if self._metadata is not None:
            ids = {topic.name: topic.topic_id for topic in found.topics}
            self._forget_topics({each.name for each in self._metadata.topics if ids.get(each.name) != each.topic_id})
        self._metadata = found
        self._is_metadata_doubtful = False
        self._known.update({row.node_id: row for row in found.brokers})
        self._alive = frozenset(row.node_id for row in found.brokers)
        away = {node for topic in found.topics for row in topic.partitions for node in row.offline_replicas}
        for node_id in away - self._known.keys():
            self._known[node_id] = BrokerRow(node_id, "", 0, "")

    def _forget_topics(self, names: AbstractSet[str]) -> None:
        """Topics that are gone or were made again: nothing that was said of them holds for others of their names."""
        for name in names:
            self._configs.pop((TOPIC, name), None)
        if names:
            for answer in self._log_dirs.values():
                for key in [key for key in answer.replicas if key[0] in names]:
                    del answer.replicas[key]
            self._replicas = assembling.replicas_of(self._log_dirs)
            self._moving = frozenset(key for key in self._moving if key[0] not in names)

    async def _ask_groups(self, tick: SourceTick, node_id: int) -> CoordinatorAnswer | None:
        listed = await tick.ask(Part.GROUPS, node_id, list_groups())
        if listed is None:
            return None
        if listed.error_code:
            tick.fail(Part.GROUPS, f"broker {node_id} does not list its groups: {refusal(listed.error_code)}")
            return None
        groups = {group.name: group for group in listed.groups}
        answer = CoordinatorAnswer(groups, {}, {}, now_ms())
        if groups:
            await asyncio.gather(
                self._ask_commits(tick, node_id, answer),
                self._ask_members(tick, node_id, answer, CLASSIC),
                self._ask_members(tick, node_id, answer, CONSUMER),
            )
        return answer

    async def _ask_commits(self, tick: SourceTick, node_id: int, answer: CoordinatorAnswer) -> None:
        names = [group.name for group in answer.listed.values() if group.kind in (CLASSIC, CONSUMER)]
        if not names:
            return
        commits = await tick.ask(Part.GROUPS, node_id, offset_fetch(names))
        if commits is None:
            answer.error = "its commits are not known, as its coordinator did not answer OffsetFetch"
        else:
            answer.commits = commits
            answer.at_ms = now_ms()

    async def _ask_members(self, tick: SourceTick, node_id: int, answer: CoordinatorAnswer, kind: str) -> None:
        names = [each.name for each in answer.listed.values() if each.kind == kind and each.state not in _MEMBERLESS]
        if names:
            request = describe_groups(names) if kind == CLASSIC else consumer_group_describe(names)
            described = await tick.ask(Part.GROUPS, node_id, request)
            answer.described.update(described or {})

    async def _ask_offsets(
        self, tick: SourceTick, node_id: int, partitions: Mapping[str, Collection[int]]
    ) -> LeaderOffsets | None:
        async def asked(timestamp: int, *, read_committed: bool = False) -> tuple[ListedOffsets | None, int]:
            request = list_offsets(all_at(partitions, timestamp), read_committed=read_committed)
            found = await tick.ask(Part.OFFSETS, node_id, request)
            return found, now_ms()

        (ends, at_ms), (starts, _), (stable, _) = await asyncio.gather(
            asked(LATEST), asked(EARLIEST), asked(LATEST, read_committed=True)
        )
        return None if ends is None else LeaderOffsets(at_ms, ends, starts or {}, stable or {})

    async def _ask_the_rest(self, tick: SourceTick, is_seldom: bool) -> None:
        assert self._metadata is not None
        asked: list[Awaitable[None]] = [
            self._ask_transactions(tick, is_seldom),
            self._client_metrics.ask(tick, self._metadata),
        ]
        if is_seldom:
            asked += [self._ask_log_dirs(tick, node_id) for node_id in self._alive]
            asked += [self._ask_moves(tick), self._ask_quorum(tick)]
            asked += [self._ask_configs(tick, *share) for share in self._shares_of_configs(tick)]
        await asyncio.gather(*asked)
        if is_seldom:
            self._replicas = await asyncio.to_thread(assembling.replicas_of, self._log_dirs)

    async def _ask_log_dirs(self, tick: SourceTick, node_id: int) -> None:
        found = await tick.ask(Part.LOG_DIRS, node_id, describe_log_dirs())
        if found is not None and found.error_code:
            tick.fail(Part.LOG_DIRS, f"broker {node_id} does not report its sizes: {refusal(found.error_code)}")
        elif found is not None:
            self._log_dirs[node_id] = found

    async def _ask_moves(self, tick: SourceTick) -> None:
        assert self._metadata is not None
        request = list_partition_reassignments(int(self._timeout_s * 1000))
        found = await tick.ask(Part.MOVES, self._metadata.controller, request)
        if found is not None and (code := found.error_code.value):
            tick.fail(Part.MOVES, f"the controller does not list moves: {refusal(code, found.message)}")
        elif found is not None:
            self._moving = frozenset(found.moves)

    async def _ask_transactions(self, tick: SourceTick, is_seldom: bool) -> None:
        """Use the offsets of the tick before: a partition that stands still for a minute can wait for one more tick."""
        assert self._metadata is not None
        standing = self._undecided.standing_since(tick.at_ms - self._standing_ms, MOST_PARTITIONS)
        if not standing:
            self._transactions.forget(self._lives)
        elif is_seldom or not self._transactions.asked.issuperset(standing):
            await self._transactions.ask(tick, self._metadata, self._alive, standing)

    async def _ask_quorum(self, tick: SourceTick) -> None:
        """Only of clusters without ZooKeeper: Metadata of the others names the controller."""
        for node_id in sorted(self._alive - tick.failed.keys()):
            if not await tick.serves(node_id, describe_quorum()):
                self._quorum = None
                continue
            self._quorum = await tick.ask(Part.CONTROLLER, node_id, describe_quorum())
            if self._quorum is not None and self._quorum.error:
                tick.fail(Part.CONTROLLER, f"broker {node_id} does not describe the quorum: {self._quorum.error}")
            return

    def _shares_of_configs(self, tick: SourceTick) -> list[tuple[int, list[Resource]]]:
        """What to ask each broker for: its own settings, and its share of the topics."""
        assert self._metadata is not None
        is_due = self._configs_at_ms is None or tick.at_ms - self._configs_at_ms >= _CONFIGS_MS
        nodes = sorted(self._alive - tick.failed.keys())
        wanted = [
            resource
            for topic in self._metadata.topics
            for resource in ((TOPIC, topic.name),)
            if is_due or resource not in self._configs
        ]
        shares: list[tuple[int, list[Resource]]] = []
        for index, node_id in enumerate(nodes):
            own = (BROKER, str(node_id))
            share = ([own] if is_due or own not in self._configs else []) + wanted[index :: len(nodes)]
            shares += [
                (node_id, share[at : at + _RESOURCES_AT_ONCE]) for at in range(0, len(share), _RESOURCES_AT_ONCE)
            ]
        if is_due:
            self._configs_at_ms = tick.at_ms
        return shares

    async def _ask_configs(self, tick: SourceTick, node_id: int, resources: list[Resource]) -> None:
        found = await tick.ask(Part.CONFIGS, node_id, describe_configs(resources))
        if found is None:
            self._configs_at_ms = None  # to be asked again in the next tick of this kind
            return
        for resource, described in found.items():
            if described.error_code:
                tick.fail(Part.CONFIGS, f"{resource[1]}: {refusal(described.error_code, described.message)}")
            else:
                self._configs[resource] = described.config

    def _assemble(
        self,
        tick: SourceTick,
        number: int,
        offsets: Mapping[int, LeaderOffsets],
        coordinators: Mapping[int, CoordinatorAnswer],
    ) -> Snapshot:
        cluster = self._metadata or _NOTHING
        refusals = assembling.refusals_of(offsets)
        for reason in refusals:
            tick.fail(Part.OFFSETS, f"leaders do not return the offsets of some partitions: {reason}")
        self._is_metadata_doubtful |= bool(refusals) or bool(tick.failed)
        self._failed = frozenset(tick.failed)
        self._groups = assembling.groups_of(coordinators, self._groups)
        configs: dict[int, dict[str, Mapping[str, ConfigValue]]] = {TOPIC: {}, BROKER: {}}
        for (kind, name), config in self._configs.items():
            configs[kind][name] = config
        controller = cluster.controller if self._quorum is None else self._quorum.leader
        topics = assembling.topics_of(cluster, offsets, self._replicas, configs[TOPIC])
        self._undecided.add(topics, tick.at_ms)
        return Snapshot(
            cluster=self._cluster,
            number=number,
            at_ms=tick.at_ms,
            taken_at_ms=tick.taken_at_ms,
            cluster_id=cluster.cluster_id,
            other_cluster_id=self._other_cluster_id,
            controller=controller if controller is not None and controller >= 0 else None,
            controller_epoch=None if self._quorum is None else self._quorum.epoch,
            brokers=assembling.brokers_of(self._known, self._alive, tick.failed, self._log_dirs, configs[BROKER]),
            topics=topics,
            groups=self._groups,
            reassigning=self._moving,
            transactions=self._transactions.found,
            client_metrics=self._client_metrics.state(tick.taken_at_ms),
            sources=tick.states(self._lives),
        )


def _found(nodes: Iterable[int], answers: Iterable[Answer | None]) -> dict[int, Answer]:
    return {node_id: answer for node_id, answer in zip(nodes, answers, strict=True) if answer is not None}

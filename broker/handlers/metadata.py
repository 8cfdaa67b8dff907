"""Metadata: v0-v13 (key 3)

Behaviour:
* Null topics (v0: none) request all topics; an empty list requests the brokers only.
* An unknown topic is created when auto.create.topics.enable and the request allow it. A broker that runs alone returns
  it ready for use; in a cluster it returns LEADER_NOT_AVAILABLE, as Kafka does, and the client must retry. Otherwise
  UNKNOWN_TOPIC_OR_PARTITION, or the error of the creation. A name that no topic can have: INVALID_TOPIC_EXCEPTION.
* The brokers' addresses are those of the client's listener. A partition whose leader has no such listener is returned
  without a leader: LISTENER_NOT_FOUND (below v6 LEADER_NOT_AVAILABLE).
* A partition without a live leader: LEADER_NOT_AVAILABLE.
* v0 leaves out replicas that the client cannot reach: REPLICA_NOT_AVAILABLE, unless the leader is away too.
* A stopped broker stays in the answer for zookeeper.session.timeout.ms, like a killed broker of Kafka. Otherwise
  transactional producers of librdkafka from 2.10 on wait for a coordinator that they have dropped (its issue 5511):
  they notice by a failed connection that the broker is gone.
* A topic whose leader has just closed its connection to this broker: the answer waits until the controller reports an
  election, the leader answers again, or 500 ms have passed (broker/cluster/closed_leaders.py). Kafka 3.9 does not wait.
* Who asks on a connection that is older than a second may ask because of a death that this broker has not noticed yet,
  as the kernel closes connections of a process that ends one by one. An answer that names other leaders waits 20 ms.
* With an authorizer: DESCRIBE on each topic. Of all topics those that the client may not describe are left out; by name
  TOPIC_AUTHORIZATION_FAILED, by id without the name. CREATE on the topic or the cluster for one that is created.
* Authorised operations, when requested: what the client may do, which is everything without an authorizer.

Versions: v4 brings allow_auto_topic_creation; v10 topic ids, v12 asking by them (UNKNOWN_TOPIC_ID; never created). v13
brings an error of the whole answer (KIP-1102), which brokers never set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import NO_LEADER, BrokerInfo, TopicView
from highwater.broker.handlers.authorization.access import TOPIC_DENIED, Access, access_of, origin_of
from highwater.broker.handlers.authorization.administration import cluster_operations
from highwater.broker.handlers.authorization.changes import tell_change
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS
from highwater.kafka.acl import Operation, ResourceType, all_operations
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.apis import METADATA
from highwater.kafka.protocol.frame import Parts
from highwater.kafka.protocol.metadata import (
    OPERATIONS_NOT_ASKED,
    BrokerMetadata,
    ClusterMetadata,
    MetadataRequest,
    PartitionMetadata,
    RequestedTopic,
    TopicMetadata,
    decode_request,
    encode_response,
)
from highwater.kafka.protocol.primitives import ZERO_UUID
from highwater.kafka.topic_names import topic_name_problem

if TYPE_CHECKING:
    from highwater.broker.member.parts import ClusterParts  # a broker that runs alone needs none of what it imports

decode = decode_request


_MISSING: Final = ErrorCode.unknown_topic_or_partition


CLUSTER_OPERATIONS: Final = all_operations(ResourceType.CLUSTER)
TOPIC_OPERATIONS: Final = all_operations(ResourceType.TOPIC)
FRESH_NS: Final = 1_000_000_000
"""How long a connection is new."""
NOTICED_WITHIN_MS: Final = 20
"""How long after its client this broker may notice a death. Other answers on the connection wait as long."""


def handle(node: Node, context: RequestContext, request: MetadataRequest) -> Reply:
    if node.member is None:
        return _answer(node, context, request)
    is_early = _may_ask_for_a_death(node, context) and any(
        0 <= leader != node.broker_id for leader in _leaders(node.member, request)
    )
    if is_early or _waits_for_leaders(node.member, request):
        return _answer_when_settled(node, node.member, context, request, NOTICED_WITHIN_MS if is_early else 0)
    return _answer(node, context, request)


def _may_ask_for_a_death(node: Node, context: RequestContext) -> bool:
    """Not a client that has just come, which asks who leads what it is going to use."""
    connected_ns = context.client.connected_ns
    return connected_ns is not None and node.clock.monotonic_ns() - connected_ns > FRESH_NS


def _leaders(member: ClusterParts, request: MetadataRequest) -> Iterator[int]:
    """The leader of each partition that is asked for."""
    if request.topics is None:
        views: Iterable[TopicView | None] = member.metadata.topics()
    else:
        views = (member.metadata.topic(wanted.name or wanted.topic_id) for wanted in request.topics)
    return (partition.leader for view in views if view for partition in view.partitions.values())


def _waits_for_leaders(member: ClusterParts, request: MetadataRequest) -> bool:
    closed = member.closed_leaders
    return bool(closed) and any(leader in closed for leader in _leaders(member, request))


def _answer_when_settled(
    node: Node, member: ClusterParts, context: RequestContext, request: MetadataRequest, not_before_ms: int
) -> Deferred:
    deferred = Deferred()
    is_early = not_before_ms > 0

    def look() -> None:
        if not is_early and not _waits_for_leaders(member, request):
            end()
            node.turns.run(answer, answer)

    def answer() -> None:
        deferred.complete(_answer(node, context, request))

    def not_early() -> None:
        nonlocal is_early
        is_early = False
        look()

    def end() -> None:
        for stop in ends:
            stop()

    ends = [member.metadata.when_changed(look), member.closed_leaders.when_settled(look)]
    if is_early:
        ends.append(node.scheduler.call_later(not_before_ms, not_early).cancel)
    deferred.on_cancel = end
    return deferred


def _answer(node: Node, context: RequestContext, request: MetadataRequest) -> Parts:
    cluster = node.cluster
    brokers = live_brokers(node, context)
    access = access_of(node, context, "Metadata")
    describe = Description(
        node,
        context.version,
        {broker.node_id for broker in brokers},
        access,
        tells_operations=request.include_topic_authorized_operations,
    )
    if request.topics is None:
        topics = [describe.topic(view) for view in cluster.topics() if may_see(access, view.name)]
    else:
        # A topic that is named twice is described once.
        found = [_find(node, wanted, describe, access) for wanted in paced(dict.fromkeys(paced(request.topics)))]
        may_create = request.allow_auto_topic_creation and node.config.boolean("auto.create.topics.enable")
        if may_create and access is not None:
            found = [_refused_creation(topic, access) for topic in paced(found)]
        missing = (
            [topic.name for topic in paced(found) if topic.error_code is _MISSING and topic.name] if may_create else []
        )
        creation = node.auto_creation
        begun = [name for name in paced(missing) if not creation.is_under_way(name)]
        problems = creation.create(missing) if missing else {}
        if node.audit is not None:
            for name in begun:
                problem = problems.get(name)
                if problem is not None and creation.is_under_way(name):
                    problem = ErrorCode.leader_not_available  # and not the refusal of the time before
                change = {"topic": name, "action": "create on first use"}
                tell_change(node.audit, origin_of(context, "Metadata"), change, problem)
        topics = [
            _created(node, topic, problems, describe) if topic.error_code is _MISSING and missing else topic
            for topic in paced(found)
        ]
    for topic in paced(topics):
        if topic.error_code:
            node.counters.failed(METADATA, topic.error_code)
    return encode_response(
        ClusterMetadata(
            brokers + _reachable(node, context, cluster.brokers_gone_lately()),
            cluster.cluster_id,
            cluster.controller_id,
            topics,
            _operations_on_cluster(access) if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED,
        ),
        context.version,
        context.throttle_ms,
    )


def _operations_on_cluster(access: Access | None) -> int:
    return CLUSTER_OPERATIONS if access is None else cluster_operations(access)


def may_describe(access: Access | None, topic: str) -> bool:
    return access is None or access.to_topic(Operation.DESCRIBE, topic)


def may_see(access: Access | None, topic: str) -> bool:
    """Return what `may_describe` does; a topic that nobody named is left out, and that is no denial."""
    return access is None or access.to_topic(Operation.DESCRIBE, topic, is_told=False)


def _refused_creation(topic: TopicMetadata, access: Access) -> TopicMetadata:
    """A missing topic that would be created, if the client may create it."""
    if topic.error_code is not _MISSING or topic.name is None:
        return topic
    if access.to_cluster(Operation.CREATE, is_told=False) or access.to_topic(Operation.CREATE, topic.name):
        return topic
    return topic._replace(error_code=TOPIC_DENIED)


def live_brokers(node: Node, context: RequestContext) -> list[BrokerMetadata]:
    """Return the live brokers that have a listener with the name of the client's listener."""
    return _reachable(node, context, node.cluster.brokers())


def _reachable(node: Node, context: RequestContext, known: Iterable[BrokerInfo]) -> list[BrokerMetadata]:
    listener = context.client.listener
    brokers = []
    for broker in known:
        if broker.broker_id == node.broker_id:
            brokers.append(BrokerMetadata(broker.broker_id, listener.host, listener.port, broker.rack))
        elif (endpoint := broker.endpoint(listener.name)) is not None:
            brokers.append(BrokerMetadata(broker.broker_id, endpoint.host, endpoint.port, broker.rack))
    return brokers


def _find(node: Node, wanted: RequestedTopic, describe: Description, access: Access | None) -> TopicMetadata:
    if wanted.name is None or wanted.topic_id != ZERO_UUID:
        view = node.cluster.topic(wanted.topic_id)
        if view is None:
            return TopicMetadata(ErrorCode.unknown_topic_id, None, wanted.topic_id)
        if not may_describe(access, view.name):
            return TopicMetadata(TOPIC_DENIED, None, wanted.topic_id)
        return describe.topic(view)
    name = wanted.name
    if not may_describe(access, name):
        return TopicMetadata(TOPIC_DENIED, name, is_internal=name in INTERNAL_TOPICS)
    view = node.cluster.topic(name)
    if view is not None:
        return describe.topic(view)
    if topic_name_problem(name) is not None:
        return TopicMetadata(ErrorCode.invalid_topic_exception, name)
    return TopicMetadata(_MISSING, name)


def _created(
    node: Node, missing: TopicMetadata, problems: Mapping[str, ErrorCode], describe: Description
) -> TopicMetadata:
    """Return the answer for a topic after the attempt to create it."""
    name = missing.name or ""
    if name in problems:
        return missing._replace(error_code=problems[name])
    view = node.cluster.topic(name)
    return missing if view is None else describe.topic(view)


class Description:
    """Describes topics for one client (ZkMetadataCache.getPartitionMetadata)."""

    def __init__(
        self, node: Node, version: int, reachable: set[int], access: Access | None, *, tells_operations: bool
    ) -> None:
        self._cluster = node.cluster
        self._reachable = reachable
        self._access = access
        self._tells_operations = tells_operations
        self._hides_unreachable = version == 0
        self._unreachable = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available

    def topic(self, view: TopicView) -> TopicMetadata:
        reachable = self._reachable
        partitions = []
        for index, (leader, leader_epoch, replicas, in_sync_replicas, offline_replicas) in view.partitions.items():
            error_code = ErrorCode.none
            if leader not in reachable:
                is_away = self._cluster.broker(leader) is None
                error_code = ErrorCode.leader_not_available if is_away else self._unreachable
                leader = NO_LEADER
            if self._hides_unreachable and not reachable.issuperset(replicas):
                replicas = [replica for replica in replicas if replica in reachable]
                in_sync_replicas = [replica for replica in in_sync_replicas if replica in reachable]
                error_code = error_code or ErrorCode.replica_not_available
            partitions.append(
                PartitionMetadata(error_code, index, leader, leader_epoch, replicas, in_sync_replicas, offline_replicas)
            )
        return TopicMetadata(
            ErrorCode.none,
            view.name,
            view.topic_id,
            is_internal=view.name in INTERNAL_TOPICS,
            partitions=partitions,
            authorized_operations=self._operations(view.name),
        )

    def _operations(self, topic: str) -> int:
        if not self._tells_operations:
            return OPERATIONS_NOT_ASKED
        access = self._access
        return TOPIC_OPERATIONS if access is None else access.client.operations(ResourceType.TOPIC, topic)

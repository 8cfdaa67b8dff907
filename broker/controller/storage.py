"""What the controller reads and writes in ZooKeeper, in rounds (`Steps`).

Every write of a controller is in a transaction with a check that /controller_epoch has the version of its election, so
a controller that was superseded while it slept changes nothing (KafkaZkClient.wrapRequestWithControllerEpochCheck).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.cluster.zookeeper import (
    Check,
    Create,
    Delete,
    Get,
    Multi,
    NodeData,
    Request,
    Set,
    Stat,
    ZooKeeperError,
)
from highwater.broker.controller.context import ControllerContext
from highwater.broker.settings import metadata_tree
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

T = TypeVar("T")
Rounds = Generator[Sequence[Request], list[Any], T]
"""Steps that find a T."""
Submit = Callable[[Rounds[Any]], None]
"""Takes an event of the controller that is to come."""

_MOST_IN_A_TRANSACTION: Final = 100
_MOST_BYTES_IN_A_TRANSACTION: Final = 256 * 1024
"""A quarter of what ZooKeeper takes (its jute.maxbuffer)."""
_ASK_AGAIN: Final = object()


class ControllerMoved(Exception):  # noqa: N818 - it names what happened
    """Another broker is the controller by now: nothing more is done or written."""


class SessionOver(ControllerMoved):
    """The session with ZooKeeper has ended, and with it the term of its controller."""


def ask(requests: Sequence[Request]) -> Rounds[list[Any]]:
    """One round. Raises SessionOver."""
    if not requests:
        return []
    results = yield requests
    if ZooKeeperError.SESSION_EXPIRED in results:
        raise SessionOver("the session is over")
    return results


def write(context: ControllerContext, requests: Sequence[Create | Set | Delete]) -> Rounds[list[Any]]:
    """Writes in order, each for itself; a result for each. Raises ControllerMoved.

    Many go in one transaction, which costs ZooKeeper little more than one of them. Where one fails, those that went
    with it are asked again one by one.
    """
    check = Check(metadata_tree.CONTROLLER_EPOCH, context.epoch_version)
    chunks = list(_chunks(requests))
    answers = yield from ask([Multi((check, *chunk)) for chunk in chunks])
    left: list[Create | Set | Delete] = []
    results: list[Any] = []
    for chunk, answer in zip(chunks, answers, strict=True):
        outcomes = _unfenced(answer, len(chunk))
        if len(chunk) > 1 and any(isinstance(outcome, ZooKeeperError) for outcome in outcomes):
            left += chunk
            results += [_ASK_AGAIN] * len(chunk)
        else:
            results += outcomes
    if left:
        alone = iter((yield from ask([Multi((check, request)) for request in left])))
        results = [_unfenced(next(alone), 1)[0] if result is _ASK_AGAIN else result for result in results]
    return results


def _chunks(requests: Sequence[Create | Set | Delete]) -> Iterator[list[Create | Set | Delete]]:
    chunk: list[Create | Set | Delete] = []
    size_bytes = 0
    for request in requests:
        own_bytes = len(request.path) + (0 if isinstance(request, Delete) else len(request.data))
        if chunk and (len(chunk) == _MOST_IN_A_TRANSACTION or size_bytes + own_bytes > _MOST_BYTES_IN_A_TRANSACTION):
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(request)
        size_bytes += own_bytes
    if chunk:
        yield chunk


def _unfenced(answer: Any, count: int) -> list[Any]:
    if isinstance(answer, ZooKeeperError):
        return [answer] * count
    outcomes: list[Any]
    check, *outcomes = answer
    if check is not None and check is not ZooKeeperError.ROLLED_BACK:
        raise ControllerMoved("another controller was elected")
    return outcomes


def children(path: str, found: Any) -> list[str]:
    """The names that Children gave; none where the node is not there."""
    if found is ZooKeeperError.NO_NODE:
        return []
    if isinstance(found, ZooKeeperError):
        raise RuntimeError(f"ZooKeeper does not list {path}: {found.value}")
    return list(found)


class Written(NamedTuple):
    """What became of partition states that were to be written."""

    done: dict[TopicPartition, LeaderAndIsr]
    """The states as they are now; the context knows them."""
    changed: list[TopicPartition]
    """Somebody else wrote in between: the context knows what, and the caller decides anew."""
    failed: dict[TopicPartition, str]


def read_states(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Rounds[None]:
    """Have the context know the partitions' states as they are in ZooKeeper. Raises ControllerMoved."""
    found = yield from ask([Get(znodes.partition_state_path(*partition)) for partition in partitions])
    for partition, node in zip(partitions, found, strict=True):
        known = context.get(partition)
        if known is not None:
            known.leadership = _parse_state(context, partition, node) if isinstance(node, NodeData) else None
            leader = context.brokers.get(known.leadership.leader) if known.leadership is not None else None
            known.leader_registered_since = leader is not None and 0 < node.stat.mzxid < leader.epoch


def _parse_state(context: ControllerContext, partition: TopicPartition, node: NodeData) -> LeaderAndIsr | None:
    """The state; None, with a line in the log, if it cannot be understood: such a partition gets no leader."""
    try:
        state = znodes.read(node.data, partial(znodes.parse_partition_state, partition_epoch=node.stat.version))
    except ValueError as error:
        _logger.error("cannot use the state of partition %s-%d: %s", *partition, error)
        return None
    if state.controller_epoch > context.epoch:
        raise ControllerMoved(f"a controller of epoch {state.controller_epoch} wrote")
    return state


def write_states(context: ControllerContext, states: Mapping[TopicPartition, LeaderAndIsr]) -> Rounds[Written]:
    """Replace partition states, each only if it is still at the partition epoch that the new one names."""
    stamped = {key: state._replace(controller_epoch=context.epoch) for key, state in states.items()}
    results = yield from write(
        context,
        [
            Set(
                znodes.partition_state_path(*partition),
                znodes.encode(znodes.partition_state_value(state)),
                state.partition_epoch,
            )
            for partition, state in stamped.items()
        ],
    )
    written = Written({}, [], {})
    for (partition, state), result in zip(stamped.items(), results, strict=True):
        if isinstance(result, Stat):
            _stands(context, partition, state._replace(partition_epoch=result.version), written)
        elif result is ZooKeeperError.BAD_VERSION:
            written.changed.append(partition)
        else:
            written.failed[partition] = f"its state cannot be written: {result.value}"
    if written.changed:
        # Also our own write whose answer was lost: then it stands already.
        yield from read_states(context, written.changed)
        for partition in list(written.changed):
            now = context.leadership(partition)
            if now is not None and now._replace(partition_epoch=0) == stamped[partition]._replace(partition_epoch=0):
                written.changed.remove(partition)
                written.done[partition] = now
    return written


def create_states(context: ControllerContext, states: Mapping[TopicPartition, LeaderAndIsr]) -> Rounds[Written]:
    """Write the first state of partitions, with the nodes above it."""
    stamped = {key: state._replace(controller_epoch=context.epoch) for key, state in states.items()}
    new_topics = [
        topic
        for topic in dict.fromkeys(topic for topic, _ in states)
        if all(partition.leadership is None for partition in context.topics[topic].partitions.values())
    ]
    above = [Create(znodes.partitions_path(topic)) for topic in new_topics]
    above += [Create(znodes.partition_path(*partition)) for partition in states]
    results = yield from write(
        context,
        [
            *above,
            *(
                Create(znodes.partition_state_path(*partition), znodes.encode(znodes.partition_state_value(state)))
                for partition, state in stamped.items()
            ),
        ],
    )
    written = Written({}, [], {})
    for (partition, state), result in zip(stamped.items(), results[len(above) :], strict=True):
        if not isinstance(result, ZooKeeperError):
            _stands(context, partition, state._replace(partition_epoch=result.stat.version), written)
        elif result is ZooKeeperError.NODE_EXISTS:
            written.changed.append(partition)
        else:
            written.failed[partition] = f"its state cannot be written: {result.value}"
    if written.changed:
        yield from read_states(context, written.changed)
    return written


def _stands(context: ControllerContext, partition: TopicPartition, state: LeaderAndIsr, written: Written) -> None:
    context[partition].leadership = state
    written.done[partition] = state


def delete_all(context: ControllerContext, parent: str, names: Iterable[str]) -> Rounds[None]:
    """Delete children; those that are gone already are as good."""
    yield from write(context, [Delete(f"{parent}/{name}") for name in names])

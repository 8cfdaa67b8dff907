"""What the controller reads and writes in ZooKeeper, in rounds (`Steps`).

Each write of a controller is a transaction with a check that /controller_epoch has the version of its election, so a
controller that was superseded while it slept changes nothing (KafkaZkClient.wrapRequestWithControllerEpochCheck).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from broker.cluster import znodes
from broker.cluster.controller.context import ControllerContext
from broker.cluster.state import LeaderAndIsr
from broker.cluster.zookeeper import (
    Check,
    Create,
    Delete,
    Get,
    Node,
    Request,
    Set,
    Stat,
    Transaction,
    ZooKeeperError,
)
from broker.log.checkpoint import TopicPartition

_logger = logging.getLogger(__name__)

T = TypeVar("T")
Rounds = Generator[Sequence[Request], list[Any], T]
"""Steps that find a T."""


class ControllerMoved(Exception):  # noqa: N818 - it names what happened
    """Another broker is the controller by now: nothing more is done or written."""


class SessionOver(ControllerMoved):
    """So whoever was the controller in it is none any more."""


def ask(requests: Sequence[Request]) -> Rounds[list[Any]]:
    """One round. Raises SessionOver."""
    if not requests:
        return []
    results = yield requests
    if ZooKeeperError.SESSION_EXPIRED in results:
        raise SessionOver("the session is over")
    return results


def write(context: ControllerContext, requests: Sequence[Create | Set | Delete]) -> Rounds[list[Any]]:
    """One round of writes, each for itself; a result for each. Raises ControllerMoved."""
    check = Check(znodes.CONTROLLER_EPOCH, context.epoch_version)
    results = yield from ask([Transaction((check, request)) for request in requests])
    return [_unfenced(result) for result in results]


def _unfenced(result: Any) -> Any:
    if isinstance(result, ZooKeeperError):
        return result
    check, outcome = result
    if check is not None and check is not ZooKeeperError.ROLLED_BACK:
        raise ControllerMoved("another controller was elected")
    return outcome


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
    """As they stand now; the context knows them."""
    changed: list[TopicPartition]
    """Somebody else wrote in between: the context knows what, and the caller decides anew."""
    failed: dict[TopicPartition, str]


def read_states(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Rounds[None]:
    """Have the context know the partitions' states as they are in ZooKeeper. Raises ControllerMoved."""
    found = yield from ask([Get(znodes.partition_state_path(*partition)) for partition in partitions])
    for partition, node in zip(partitions, found, strict=True):
        known = context.get(partition)
        if known is not None:
            known.leadership = _parse_state(context, partition, node) if isinstance(node, Node) else None


def _parse_state(context: ControllerContext, partition: TopicPartition, node: Node) -> LeaderAndIsr | None:
    """None, and told, when it cannot be understood: such a partition gets no leader."""
    try:
        state = znodes.read(node.data, partial(znodes.parse_partition_state, partition_epoch=node.stat.version))
    except ValueError as error:
        _logger.error("the state of partition %s-%d cannot be used: %s", *partition, error)
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
    above = [Create(znodes.partitions_path(topic)) for topic in dict.fromkeys(topic for topic, _ in states)]
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

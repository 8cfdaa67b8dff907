"""Which brokers are on a host, and what the host's agent says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from highwater.common.host_answer import HostAnswer
from highwater.monitor.model import Broker, Host, Snapshot


def with_hosts(snapshot: Snapshot, hosts: Sequence[Host], new: frozenset[str]) -> Snapshot:
    """The snapshot with its hosts, and with the metrics of brokers that agents pass on.

    new: the hosts that answered since the snapshot before. A counter has the time at which it was read, which is not
    that of the tick: a host may answer late.
    """
    joined = {}
    for host in hosts:
        answer = None if host.answer is None else of_cluster(host.answer, snapshot.cluster_id)
        joined[host.name] = replace(host, brokers=brokers_of(host, snapshot), answer=answer)
    brokers = dict(snapshot.brokers)
    for name in new:
        host = joined[name]
        if host.answer is None:
            continue
        for process in host.answer.brokers:
            known = None if process.broker_id is None else brokers.get(process.broker_id)
            if known is not None and process.metrics is not None and process.broker_id in host.brokers:
                brokers[known.node_id] = replace(known, metrics=process.metrics, metrics_at_ms=host.answered_at_ms)
    return replace(snapshot, hosts=joined, brokers=brokers)


def of_cluster(answer: HostAnswer, cluster_id: str) -> HostAnswer:
    """Without the brokers of other clusters and their directories: they may have the same ids."""

    def is_ours(other: str) -> bool:
        return not cluster_id or not other or other == cluster_id

    if all(is_ours(each.cluster_id) for each in answer.brokers):
        return answer
    return replace(
        answer,
        brokers=tuple(each for each in answer.brokers if is_ours(each.cluster_id)),
        directories=tuple(each for each in answer.directories if is_ours(each.cluster_id)),
    )


def brokers_of(host: Host, snapshot: Snapshot) -> tuple[int, ...]:
    """Return the host's brokers by the configuration; else by the agent's answer; else by the host's name."""
    if host.wanted_brokers:
        return host.wanted_brokers
    answer = host.answer
    named = () if answer is None else _named(answer, snapshot.cluster_id)
    found = named if answer is not None and answer.brokers else _of_name(host, snapshot.brokers)
    return tuple(sorted(set(found)))


def _named(answer: HostAnswer, cluster_id: str) -> list[int]:
    """Without those of another cluster, which may have the same ids."""
    return [
        each.broker_id
        for each in answer.brokers
        if each.broker_id is not None and (not cluster_id or not each.cluster_id or each.cluster_id == cluster_id)
    ]


def _of_name(host: Host, brokers: Mapping[int, Broker]) -> list[int]:
    names = {host.address.lower()}
    if host.answer is not None:
        names.add(host.answer.host.lower())
    return [broker.node_id for broker in brokers.values() if broker.host.lower() in names]

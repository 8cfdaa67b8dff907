"""The storage of a cluster on other hosts, as the workload file describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from highwater.bench.workload.clusters import Cluster, ClusterStorage
from highwater.results.storage import StorageTarget

EXTERNAL_STORAGE: Final = StorageTarget(
    name="external",
    path="",
    device=None,
    medium="unknown",
    emulated=False,
    model=None,
    scheduler=None,
    filesystem=None,
    mount_options=[],
)


def target_of(name: str, described: ClusterStorage) -> StorageTarget:
    """One host's storage as a storage target."""
    return StorageTarget.model_validate({"name": name, **described.model_dump()})


def cluster_target(name: str | None, cluster: Cluster) -> StorageTarget:
    """The storage of all hosts as one target, named after the cluster.

    It has no device, because this host cannot read the devices of other hosts.
    """
    described = [host.storage for host in cluster.hosts.values() if host.storage is not None]
    if name is None or not described:
        return EXTERNAL_STORAGE if name is None else EXTERNAL_STORAGE.model_copy(update={"name": name})
    target = together([target_of(name, storage) for storage in described])
    return target.model_copy(update={"device": None, "backing_device": None})


def together(targets: Sequence[StorageTarget]) -> StorageTarget:
    """Several targets as one. Different values are listed; different media become "unknown"."""
    first = targets[0]

    def texts(read: Callable[[StorageTarget], str | None], joint: str = ", ") -> str | None:
        return joint.join(dict.fromkeys(text for target in targets if (text := read(target)))) or None

    media = {target.medium for target in targets}
    options = {tuple(target.mount_options) for target in targets}
    return StorageTarget(
        name=first.name,
        path=texts(lambda target: target.path) or "",
        device=texts(lambda target: target.device, "+"),
        medium=first.medium if len(media) == 1 else "unknown",
        emulated=any(target.emulated for target in targets),
        model=texts(lambda target: target.model),
        scheduler=texts(lambda target: target.scheduler),
        filesystem=texts(lambda target: target.filesystem),
        # Only options that all targets have.
        mount_options=[option for option in first.mount_options if all(option in other for other in options)],
        backing_device=texts(lambda target: target.backing_device, "+"),
        emulation=texts(lambda target: target.emulation),
    )

"""The storage of a cluster on other hosts, put together from what is said of each."""

from __future__ import annotations

from typing import Any

from highwater.bench.storage.cluster_storage import cluster_target
from highwater.bench.workload.clusters import Cluster


def cluster(*storages: dict[str, Any] | None) -> Cluster:
    hosts = {f"node{number}": {"storage": storage} for number, storage in enumerate(storages, start=1)}
    return Cluster.model_validate({"bootstrap_servers": "node1:9092", "hosts": hosts})


def test_what_all_hosts_have_is_what_the_cluster_has() -> None:
    storage = {"path": "/data/1", "medium": "hdd", "device": "sda", "filesystem": "ext4", "mount_options": ["rw"]}
    target = cluster_target("slow", cluster(storage, storage))
    assert (target.name, target.path, target.medium, target.filesystem) == ("slow", "/data/1", "hdd", "ext4")
    assert target.mount_options == ["rw"]
    assert not target.emulated
    # A disk of that name here is another one.
    assert target.device is None


def test_what_differs_is_listed_and_media_that_differ_are_none() -> None:
    one = {"medium": "hdd", "emulated": True, "scheduler": "mq-deadline", "mount_options": ["rw", "noatime"]}
    other = {"medium": "ssd", "scheduler": "none", "mount_options": ["rw"]}
    target = cluster_target("mixed", cluster(one, other))
    assert (target.medium, target.emulated, target.scheduler) == ("unknown", True, "mq-deadline, none")
    assert target.mount_options == ["rw"]


def test_a_cluster_that_nobody_described_is_unknown_and_keeps_its_name() -> None:
    assert cluster_target("far", cluster(None)).name == "far"
    assert cluster_target("far", cluster(None)).medium == "unknown"
    assert cluster_target(None, cluster(None)).name == "external"

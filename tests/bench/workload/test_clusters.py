"""Clusters on other hosts in a workload file: what is said of them, what is measured, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.workload.specification import Specification, specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import UsageError
from tests.bench.fakes import MINIMAL

TWO = """\
system:
  kind: external
  cluster: fast
  clusters:
    fast: {bootstrap_servers: "node1:9092,node2:9092", product: highwater 0.1.0}
    slow:
      bootstrap_servers: node1:9093
      hosts:
        node1:
          cpus: 4
          memory: 16GiB
          storage: {medium: hdd, emulated: true, path: /data/hdd1}
          sampler: {address: "node1:9180", brokers: [highwater-broker@hdd.service]}
"""


def specification(text: str) -> Specification:
    return specify(parse_document(MINIMAL + text, "w.yaml"), Path("w.yaml"))


def test_clusters_are_an_axis() -> None:
    found = specification(TWO + "matrix: {system.cluster: [fast, slow]}\n")
    assert [cell.name for cell in found.cells] == ["system.cluster=fast", "system.cluster=slow"]
    clusters = [cell.workload.system.external for cell in found.cells]
    assert [cluster and cluster.bootstrap_servers for cluster in clusters] == ["node1:9092,node2:9092", "node1:9093"]
    host = found.cells[1].workload.system.clusters["slow"].hosts["node1"]
    assert (host.cpus, host.memory_bytes) == (4, 16 << 30)


def test_a_workload_with_clusters_is_a_workload_again() -> None:
    found = specification(TWO)
    document = found.workload.as_document()
    assert document["system"]["clusters"]["slow"]["hosts"]["node1"]["memory"] == "16GiB"
    assert type(found.workload).model_validate(document) == found.workload


def test_a_system_of_our_own_and_one_by_its_address_have_no_description() -> None:
    assert specification("").workload.system.external is None
    by_address = specification("system: {kind: external, bootstrap_servers: 'h:1'}\n").workload.system.external
    assert by_address is not None
    assert (by_address.bootstrap_servers, by_address.hosts, by_address.product) == ("h:1", {}, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TWO.replace("cluster: fast", "cluster: fats"), "'fats' is not one of the clusters (fast, slow)"),
        (TWO.replace("kind: external", "kind: highwater"), "cluster: is for kind: external"),
        (
            TWO.replace("  cluster: fast", "  cluster: fast\n  bootstrap_servers: h:1"),
            "system.cluster: has bootstrap_servers of its own; give one of the two",
        ),
        (TWO.replace("  cluster: fast\n", ""), "external needs bootstrap_servers"),
        (TWO.replace('"node1:9180"', "node1"), "clusters.slow.hosts.node1.sampler.address: 'node1' is not HOST:PORT"),
        (TWO.replace("memory: 16GiB", "memory: 16"), "system.clusters.slow.hosts.node1.memory: 16"),
        (TWO.replace("medium: hdd", "medium: tape"), "system.clusters.slow.hosts.node1.storage.medium: 'tape' is not"),
        (TWO.replace("cpus: 4", "cpu: 4"), 'system.clusters.slow.hosts.node1.cpu: unknown key; did you mean "cpus"?'),
        (TWO.replace("        node1:\n", "        ../node1:\n"), "system.clusters.slow.hosts"),
        (TWO + "storage: {cache_limit: 8MiB}\n", "storage.cache_limit: cannot be set for an external system"),
        (TWO + "host: {profile: recommended}\n", "host.profile: would tune this host"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        specification(text)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)

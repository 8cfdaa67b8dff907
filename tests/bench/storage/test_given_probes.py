"""Probes that were taken on other hosts, and the ceiling of a cluster that they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.bench.storage.given_probes import load_probes
from highwater.common.errors import UsageError
from highwater.results.storage import StorageProbes


def probe(bytes_per_s: float) -> dict[str, Any]:
    target = {
        "name": "/data/1",
        "path": "/data/1",
        "device": "sda",
        "medium": "hdd",
        "emulated": False,
        "model": None,
        "scheduler": None,
        "filesystem": "ext4",
        "mount_options": [],
    }
    job = {
        "name": "sequential_append",
        "block_bytes": 1 << 20,
        "direct": True,
        "moved_bytes": 1,
        "runtime_ns": 1,
        "bytes_per_s": bytes_per_s,
        "operations_per_s": 1.0,
        "latency_p50_ns": None,
        "latency_p99_ns": None,
        "latency_p999_ns": None,
        "latency_max_ns": None,
    }
    return {"target": target, "moment": "alone", "taken_utc": "now", "fio_version": "3.33", "jobs": [job]}


def test_a_cluster_can_append_what_its_hosts_can_together(tmp_path: Path) -> None:
    file = tmp_path / "probes.json"
    file.write_text(json.dumps({"slow": {"node1": probe(100.0), "node2": probe(50.0)}}))
    probes = load_probes(file, ["slow", "fast"])
    assert [(item.target.name, item.host, item.moment) for item in probes] == [
        ("slow", "node1", "before"),
        ("slow", "node2", "before"),
    ]
    found = StorageProbes(probes=probes)
    assert found.append_ceiling_bytes_per_s("slow") == 150.0
    assert found.append_ceiling_bytes_per_s("fast") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "cannot read"),
        ("hello", "Invalid JSON"),
        ('{"slow": {"node1": {}}}', r"slow\.node1\.target: Field required; it holds"),
        ("{}", ""),
        (json.dumps({"fats": {"node1": probe(1.0)}}), r"'fats' is not one of the workload's clusters \(slow\)"),
    ],
)
def test_what_is_no_file_of_probes_is_refused_in_one_line(tmp_path: Path, text: str | None, complaint: str) -> None:
    file = tmp_path / "probes.json"
    if text is not None:
        file.write_text(text)
    if not complaint:
        assert load_probes(file, ["slow"]) == []
        return
    with pytest.raises(UsageError, match=f"--probes: .*{complaint}") as refused:
        load_probes(file, ["slow"])
    assert "\n" not in str(refused.value)

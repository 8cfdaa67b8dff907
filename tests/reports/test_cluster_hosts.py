"""What a report tells of the hosts that carry a cluster elsewhere: what each is, and what it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.reports.page import render, run_document
from highwater.results.cluster import ClusterHostUse
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from tests.reports.parsing import Document, parse
from tests.reports.sample_run import Sample, write_sample


def document_of(directory: Path, hosts: int, problem: str | None = None) -> Document:
    names = [f"node{number}" for number in range(1, hosts + 1)]

    def on_a_cluster(summary: TrialSummary) -> TrialSummary:
        described = [
            ClusterHostUse(
                name=name,
                cpu_count=8,
                cpu_model="A CPU",
                memory_bytes=32 << 30,
                kernel="6.1.0",
                runs_in="systemd-nspawn",
                tuning_fingerprint=None,
                storage=summary.storage.model_copy(update={"path": f"/data/{name}", "device": "sdb"}),
                problem=problem,
            )
            for name in names
        ]
        return summary.model_copy(update={"cluster_hosts": described})

    write_sample(directory, Sample(axes={}, trials=1, change=on_a_cluster))
    for trial in (directory / "trials").iterdir():
        (trial / "hosts").mkdir()
        for name in names:
            (trial / "hosts" / f"{name}.jsonl").write_text((trial / "host.jsonl").read_text())
    return parse(render(run_document(RunResult(directory))))


def test_each_host_is_told_with_its_storage_and_drawn(tmp_path: Path) -> None:
    document = document_of(tmp_path / "run", 2)
    text = document.text
    assert "node2, 8 CPUs, 32 GiB memory, systemd-nspawn" in text
    assert "/data/node2" in text
    figure = document.with_id("cluster-cpu")
    assert "node1" in figure.text
    assert "node2" in figure.text


@pytest.mark.parametrize(("hosts", "drawn"), [(4, "node4"), (5, "all hosts")])
def test_more_hosts_than_colours_are_drawn_as_their_sum(tmp_path: Path, hosts: int, drawn: str) -> None:
    text = document_of(tmp_path / "run", hosts).with_id("cluster-disk").text
    assert (drawn in text) or hosts == 5
    assert ("node1" in text) == (hosts == 4)


def test_a_host_that_did_not_tell_all_is_named(tmp_path: Path) -> None:
    text = document_of(tmp_path / "run", 1, "its sampler broke off: timed out").text
    assert "node1, 8 CPUs, 32 GiB memory, systemd-nspawn, not sampled throughout: its sampler broke off" in text

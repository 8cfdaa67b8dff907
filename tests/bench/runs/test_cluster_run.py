"""A run against a cluster on other hosts that are described: what comes of it in the result directory."""

from __future__ import annotations

from pathlib import Path

from highwater.results.environment_key import key_of
from tests.bench.fakes import MINIMAL
from tests.bench.host.samplers import listening, tell_of_this_process
from tests.bench.runs.test_runner import Bench

TWO_HOSTS = """\
system:
  kind: external
  cluster: slow
  clusters:
    slow:
      bootstrap_servers: 127.0.0.1:1
      product: highwater 0.1.0
      hosts:
        node1:
          cpus: 4
          memory: 16GiB
          durability_trades: [nobarrier]
          storage: {medium: hdd, emulated: true, emulation: a file, path: /data/1, device: no-such-disk}
          sampler: {address: "ADDRESS", brokers: [broker.service]}
        node2:
          storage: {medium: hdd, path: /data/1}
          sampler: {address: "ADDRESS", brokers: [broker.service]}
"""


def test_hosts_are_told_with_what_they_did(tmp_path: Path) -> None:
    with listening(tell_of_this_process) as address:
        bench = Bench(tmp_path, MINIMAL + TWO_HOSTS.replace("ADDRESS", address))
        manifest = bench.run()
    assert [trial.error for trial in manifest.trials] == [None, None]
    result = bench.result()
    trial = result.trials[0]
    summary = trial.summary
    assert (summary.storage.name, summary.storage.medium, summary.storage.emulated) == ("slow", "hdd", True)
    assert summary.storage.device is None
    assert [(host.name, host.cpu_count, host.problem) for host in summary.cluster_hosts] == [
        ("node1", 4, None),
        ("node2", None, None),
    ]
    assert set(trial.cluster_samples()) == {"node1", "node2"}
    assert summary.host.system_cpu_s_per_gib is not None
    assert summary.durability_trades == ["nobarrier (node1)"]
    assert result.emulation_notes() == ["emulated disk: slow: a file"]
    facts = key_of(result).facts
    assert (facts["host.node1.cpu.count"], facts["storage.medium"]) == (4, "hdd")
    checksums = (bench.out / "checksums.sha256").read_text()
    assert "/hosts/node1.jsonl" in checksums


def test_a_sampler_that_is_gone_costs_its_figures_and_no_trial(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL + TWO_HOSTS.replace("ADDRESS", "127.0.0.1:1"))
    manifest = bench.run()
    assert manifest.exit_code == 0
    summary = bench.result().trials[0].summary
    assert summary.host.system_cpu_s_per_gib is None
    assert all("does not answer" in (host.problem or "") for host in summary.cluster_hosts)

"""`highwater tune explain`, `profiles` and `sizing`."""

from __future__ import annotations

import json
from pathlib import Path

from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.profiles import PROFILE_NAMES
from highwater.tuning.proofs import MeasuredEffect, Proof, ProvedSetting, keep_proofs
from tests.tuning.cli.invoking import invoke
from tests.tuning.host_tree import make_host, write


def test_explain_shows_the_numbers_and_the_disagreement(tmp_path: Path) -> None:
    root = str(make_host(tmp_path))
    result = invoke("explain", "vm.dirty_bytes", "--root", root, "--data-dir", "/data", columns=200)
    assert result.exit_code == 0
    assert "8 s × 400 MB/s (assumed for 1 × SSD) = 2.98 GiB" in result.stdout
    assert "Confluent" in result.stdout
    assert "not proved on this host: highwater tune prove vm.dirty_bytes" in result.stdout
    assert "https://docs.kernel.org/admin-guide/sysctl/vm.html" in result.stdout


def test_explain_shows_which_file_wins_at_boot(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    write(root, "/etc/sysctl.d/10-early.conf", "vm.swappiness = 10\n")
    write(root, "/etc/sysctl.d/99-late.conf", "vm.swappiness = 30\n")
    shown = invoke("explain", "vm.swappiness", "--root", str(root), columns=200).stdout
    boot = shown[shown.index("At boot, the last one wins") :]
    assert boot.index("10-early.conf") < boot.index("99-late.conf")


def test_explain_shows_what_was_changed_and_what_was_proved(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    effect = MeasuredEffect("produce.p99", "ms", "lower", True, 4.0, 3.0, 0.75, 0.7, 0.8, 0.05, "better")
    proof = Proof(
        settings=(ProvedSetting("vm.swappiness", "60", "1"),),
        verdict="keep",
        text="Waits are shorter.",
        effects=(effect,),
        workload="prove-memory",
        storage="disk, ext4",
        pairs=10,
        pairs_valid=9,
        a_a_pairs=5,
        environment="abc",
        measured_utc="2026-01-02T03:04:05Z",
        results="/results/one",
        cells=("a", "b"),
    )
    keep_proofs(HostFiles(root), [proof])
    only = ("--root", str(root), "--only", "vm.swappiness")
    assert invoke("apply", "--yes", *only).exit_code == 0
    shown = invoke("explain", "vm.swappiness", "--root", str(root), columns=200).stdout
    assert "vm.swappiness: 60 before, 1 applied" in shown
    assert "Proof: 60 → 1: keep (2026-01-02" in shown
    assert "produce.p99 −25 %" in shown
    document = json.loads(invoke("explain", "vm.swappiness", "--root", str(root), "--json").stdout)
    assert document["proofs"][0]["verdict"] == "keep"
    assert document["here"][0]["state"] == "ok"


def test_profiles_show_what_they_would_set_here(tmp_path: Path) -> None:
    root = ("--root", str(make_host(tmp_path, sysctls={"vm.swappiness": "1"})))
    everything = invoke("profiles", *root, columns=200)
    assert everything.exit_code == 0
    for name in PROFILE_NAMES:
        assert f"{name}: " in everything.stdout
    one = invoke("profiles", "as-the-notes-say", *root, columns=200).stdout
    assert "net.core.rmem_max: 208 KiB → 500 MiB" in one
    assert "vm.swappiness: 1 already" in one
    rows = {row["name"]: row for row in json.loads(invoke("profiles", *root, "--json").stdout)["profiles"]}
    wishes = {wish["knob"]: wish["wanted"] for wish in rows["notes"]["wishes"]}
    assert wishes["net.core.rmem_max"] == "500 MiB"


def test_sizing_sets_two_brokers_side_by_side(tmp_path: Path) -> None:
    root = str(make_host(tmp_path / "host"))
    call = ("sizing", "--root", root, "--data-dir", "/data", "-w", "write_rate=200MB/s", "-w", "heap=8GiB")
    shown = invoke(*call, columns=160).stdout
    assert "Highwater" in shown
    assert "Apache Kafka" in shown
    assert "8 GiB" in shown
    probe = write(tmp_path, "/probe.json", '{"jobs": [{"name": "sequential_append", "bytes_per_s": 123000000}]}')
    measured = invoke(*call, "--probe", str(probe), columns=160)
    assert measured.exit_code == 0, measured.output
    assert "123 MB/s" in measured.stdout
    document = json.loads(invoke(*call, "--json").stdout)["sizing"]
    assert [budget["broker"] for budget in document["budgets"]] == ["highwater", "apache-kafka"]

"""A cluster over its accidents and its life: a reboot, a kill, an upgrade, a broker more and one less, a benchmark."""

from __future__ import annotations

import json
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from highwater.results.reader import RunResult
from tests.lab.broker_story import newer_tree
from tests.lab.record import Node
from tests.lab.story import looking
from tests.lab.story.scene import OURS, Scene
from tests.waiting import wait_until

_WITHIN_S: Final = 120.0
_RELEASE: Final = "basename $(readlink /opt/highwater/broker/current)"
_RUN: Final = "story"
# As short as the instrument takes it: whether it works is asked here, and not how fast a lab is.
_OVERRIDES: Final = {
    "name": "story",
    "topics": {"partitions": 3},
    "load": {"rate": "1k/s"},
    "phases": {"warmup": "2s", "measure": "5s", "drain": "5s"},
    "trials": {"n": 2, "seed": 1},
    "matrix": {"producers.client.acks": ["all"]},
}


def reboot(scene: Scene) -> str:
    """Of one host while the others serve."""
    node = scene.hosts[-1]
    with scene.load():
        scene.operator.reboot(node)
        took_s = scene.wait_until_whole({host.number for host in scene.hosts})
    seen = looking.hosts(scene, [node])
    scene.play("verify.yml")
    return f"{seen}; cluster whole {took_s:.0f} s after the boot, verify.yml content; {scene.account()}"


def kill(scene: Scene) -> str:
    """kill -9 of each broker of a host: systemd starts it again, and nothing that was acknowledged is lost."""
    node = scene.hosts[len(scene.hosts) // 2]
    with scene.load():
        for cluster in OURS:
            unit = f"highwater-broker@{cluster}.service"
            before = _process(scene, node, unit)
            scene.run(node, f"kill -9 {before}")
            is_back = partial(_is_another, scene, node, unit, before)
            wait_until(is_back, f"{node.name}: systemd brings {unit} back", _WITHIN_S)
        took_s = scene.wait_until_whole({host.number for host in scene.hosts})
    return f"{node.name}: brokers back, clusters whole after {took_s:.0f} s; {scene.account()}"


def _is_another(scene: Scene, node: Node, unit: str, before: str) -> bool:
    return _process(scene, node, unit) not in ("0", before)


def _process(scene: Scene, node: Node, unit: str) -> str:
    return scene.run(node, f"systemctl show -p MainPID --value {unit}")


def upgrade(scene: Scene) -> str:
    """To a newer tree and back, under load."""
    first = scene.each(lambda node: scene.run(node, _RELEASE), scene.hosts)
    with tempfile.TemporaryDirectory() as directory, scene.load():
        newer = newer_tree(Path(directory), "newer")
        scene.play("broker.yml", "-e", f"package_source={newer}")
        second = scene.each(lambda node: scene.run(node, _RELEASE), scene.hosts)
        scene.play("broker.yml", "-e", "package_release=previous")
        third = scene.each(lambda node: scene.run(node, _RELEASE), scene.hosts)
    assert len(set(second.values())) == 1, f"releases after the upgrade: {second}"
    assert set(first.values()).isdisjoint(second.values()), f"releases after the upgrade: {second}"
    assert third == first, f"releases after the way back: {third}"
    scene.wait_until_whole({host.number for host in scene.hosts})
    return f"{first[scene.hosts[0].name]} to {second[scene.hosts[0].name]} and back; {scene.account()}"


def one_more(scene: Scene) -> str:
    """A bare host becomes a broker with its share of the partitions, under load."""
    assert scene.spare is not None
    scene.write_inventory([*scene.hosts, scene.spare], [])
    with scene.load():
        scene.play("add_broker.yml", "--limit", scene.spare.name)
        scene.wait_until_whole({host.number for host in [*scene.hosts, scene.spare]})
    held = {cluster: _partitions_on(scene, cluster, scene.spare.number) for cluster in OURS}
    assert all(held.values()), f"copies on {scene.spare.name}: {held}"
    told = ", ".join(f"{count} copies on {cluster}" for cluster, count in held.items())
    return f"{scene.spare.name} has {told}; {scene.account()}"


def one_less(scene: Scene) -> str:
    """And goes again: its copies move first, then its records go, and with them the user that they belonged to."""
    assert scene.spare is not None
    scene.write_inventory([*scene.hosts, scene.spare], [])
    with scene.load():
        given = {"broker_remove_hosts": scene.spare.name, "teardown_remove_data": True}
        scene.play("remove_broker.yml", "-e", json.dumps(given))
        scene.write_inventory(scene.hosts, [scene.spare])
        scene.wait_until_whole({host.number for host in scene.hosts})
    held = {cluster: _partitions_on(scene, cluster, scene.spare.number) for cluster in OURS}
    assert not any(held.values()), f"copies on {scene.spare.name}, which is gone: {held}"
    left = scene.run(scene.spare, "systemctl list-units --all --plain --no-legend 'highwater-broker@*'")
    assert left == "", f"{scene.spare.name} still has {left}"
    return f"{scene.spare.name} has no copies and no broker; {scene.account()}"


def _partitions_on(scene: Scene, cluster: str, broker: int) -> int:
    return sum(broker in partition.replicas for partition in scene.partitions(cluster))


def bench(scene: Scene) -> str:
    """From Spark's executors on the hosts, the cluster on hard disks beside the one on SSDs; the report is fetched."""
    variables = {
        "bench_workload": "smoke",
        "bench_run": _RUN,
        "bench_overrides": _OVERRIDES,
        "bench_systems": [f"highwater-{cluster}" for cluster in OURS],
        "bench_reports_directory": str(scene.evidence),
        # A machine that carries all hosts and the controller gives no sound measurement; that it says so is right.
        "bench_accepted_exit_codes": [0, 4],
    }
    scene.play("bench.yml", "-e", json.dumps(variables))
    fetched = scene.evidence / _RUN
    report = (fetched / "report.html").read_text("utf-8")
    result = RunResult(fetched)
    told = []
    for cluster in OURS:
        trials = [trial.summary for trial in result.trials if f"highwater-{cluster}" in trial.summary.cell]
        assert trials, f"nothing was measured of highwater-{cluster}; cells: {', '.join(result.cells())}"
        assert f"highwater-{cluster}" in report, f"the report does not name highwater-{cluster}"
        for trial in trials:
            assert trial.achieved_per_s > 0, f"{trial.trial_id} got nothing across"
            assert (trial.delivery.lost, trial.delivery.corrupt) == (0, 0), f"{trial.trial_id}: {trial.delivery}"
            assert trial.storage.medium == cluster, f"{trial.trial_id} is said to be on {trial.storage.medium}"
        rate = statistics.median(trial.achieved_per_s for trial in trials)
        told.append(f"{cluster} {rate:.0f} records/s in {len(trials)} trials, {trials[0].delivery.lost} lost")
    return f"{'; '.join(told)}; {fetched / 'report.html'}, {len(report) >> 10} KiB"

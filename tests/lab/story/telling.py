"""Tells the story: steps in order, each with what was seen on one line; the first that fails leaves evidence."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from tests.lab import making
from tests.lab.operating import Operator
from tests.lab.record import Node, Store
from tests.lab.story import becoming, leaving, living, monitoring, processing, securing
from tests.lab.story.scene import Scene

NAME: Final = "story"
_HOSTS: Final = 3

# What a host knows about a failure: a name for the file, and the command whose output it is.
_EVIDENCE: Final = {
    "journal": "journalctl --boot --no-pager | tail -n 4000",
    "units": "systemctl list-units --all --no-pager; systemctl --failed --no-pager; "
    "systemctl status --no-pager --lines=50 'highwater-*' 'reference-kafka@*' zookeeper 'spark-*' || true",
    "state": "findmnt; df; free -m; ss -Htlnp; ps -eo pid,user,rss,etime,args; cat /etc/fstab",
    "configuration": "grep -rs '' /etc/highwater /etc/reference-kafka /etc/sysctl.d || true",
}


@dataclass(frozen=True)
class Step:
    title: str
    take: Callable[[Scene], str]
    quick: bool = True
    """Whether it is told of one host in a hurry, too."""
    plain: bool = True
    """Whether it is told of clusters without TLS."""
    secure: bool = True
    """Whether it is told of clusters with cluster_security: tls."""


STEPS: Final = (
    Step("wrong use is refused in one line, with nothing changed", becoming.wrong_use),
    Step("check mode on bare hosts says what will change, and changes nothing", becoming.check_mode),
    Step("site.yml does what check mode said", becoming.site),
    Step("a second run changes nothing", becoming.second_run),
    Step("everything is as wanted, by independent tools", becoming.looked_at),
    Step("nobody comes in without TLS and a login, or does what is not allowed", securing.closed, plain=False),
    Step("certificates are renewed without a restart of brokers", securing.renewed, plain=False),
    Step("TLS cannot be turned off, nor a cluster lose half of it", securing.kept, plain=False),
    Step("a host is rebooted", living.reboot, quick=False),
    Step("a broker is killed", living.kill),
    Step("an upgrade rolls through, and back", living.upgrade, quick=False),
    Step("a broker host is added", living.one_more, quick=False),
    Step("and removed", living.one_less, quick=False),
    Step("bench.yml measures from Spark's executors, HDD beside SSD", living.bench, quick=False),
    Step("pipeline.yml makes a service that forwards records", processing.pipeline, quick=False, secure=False),
    Step("agent.yml and monitor.yml make services with pages over TLS behind a login", monitoring.monitor),
    Step("the monitor is upgraded, and back", monitoring.upgraded, quick=False),
    Step("rollback.yml puts settings back", leaving.rollback),
    Step("teardown.yml leaves nothing", leaving.teardown),
)


def tell_story(
    evidence: Path, tell: Callable[[str], None], *, quick: bool, keep: bool, go_on: bool, suite: str, secure: bool
) -> bool:
    """Whether all of it went well. keep: leave the lab there afterwards. go_on: from the step at which it ended, on
    the lab that was kept and with the files of evidence. secure: of clusters with cluster_security: tls.

    Raises UsageError.
    """
    steps = [step for step in STEPS if (step.quick or not quick) and (step.secure if secure else step.plain)]
    started_s = time.monotonic()
    scene = _scene(evidence, tell, 1 if quick else _HOSTS + 1, suite, go_on=go_on, secure=secure)
    try:
        told = all(_take(scene, step, f"{scene.told + 1}/{len(steps)}", tell) for step in steps[scene.told :])
    finally:
        if keep:
            tell(f"the lab {NAME} stays; take it away: python -m tests.lab down --name {NAME}")
        else:
            making.down(scene.operator.store)
    tell(f"the story {'was told' if told else 'ended'} after {time.monotonic() - started_s:.0f} s; files: {evidence}")
    return told


def _scene(evidence: Path, tell: Callable[[str], None], hosts: int, suite: str, *, go_on: bool, secure: bool) -> Scene:
    store = Store.of(NAME)
    record = store.read()
    if not go_on:
        making.down(store)
        evidence.mkdir(parents=True, exist_ok=True)
        record = making.up(store, hosts, tell, suite=suite)
    elif record is None or record.hosts != hosts:
        raise UsageError(f"there is no lab {NAME} of {hosts} hosts to go on with; tell the story from its begin")
    nodes = record.nodes
    scene = Scene(
        Operator(store, record, evidence), evidence, nodes[:_HOSTS], nodes[_HOSTS] if nodes[_HOSTS:] else None
    )
    scene.is_secure = secure
    if go_on:
        try:
            scene.recall()
        except FileNotFoundError as error:
            raise UsageError(f"{evidence} is not of a story: it has no {Path(error.filename).name}") from error
    scene.write_inventory(scene.hosts, [])
    return scene


def _take(scene: Scene, step: Step, number: str, tell: Callable[[str], None]) -> bool:
    tell(f"{number} {step.title}")
    started_s = time.monotonic()
    try:
        seen = step.take(scene)
    except Exception as error:
        tell(f"{number} FAILED after {time.monotonic() - started_s:.0f} s: {str(error) or type(error).__name__}")
        _keep_evidence(scene, scene.everybody, traceback.format_exc())
        tell(f"{number} evidence of the hosts: {scene.evidence}")
        return False
    scene.told += 1
    scene.remember()
    tell(f"{number} ok, {time.monotonic() - started_s:.0f} s: {seen}")
    return True


def _keep_evidence(scene: Scene, nodes: Sequence[Node], trace: str) -> None:
    (scene.evidence / "failure.txt").write_text(trace, encoding="utf-8")
    for node in nodes:
        for name, command in _EVIDENCE.items():
            try:
                text = scene.run(node, command)
            except (AssertionError, UsageError) as error:
                text = str(error)
            (scene.evidence / f"{node.name}-{name}.txt").write_text(text, encoding="utf-8")

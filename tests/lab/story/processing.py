"""A pipeline as a service: it moves records from topic to topic, each of them once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

from tests.lab.ledger import Ledger
from tests.lab.story.scene import Scene

_FILE: Final = Path(__file__).parent.parent / "pipelines/forward.yaml"
_WITHIN_S: Final = 300.0
_POLL_S: Final = 0.5
_SENDING_S: Final = 1.0


def pipeline(scene: Scene) -> str:
    """Made on a host without one; a second run changes nothing."""
    node = scene.hosts[0]
    # Another topic each time that the story is gone on with.
    topic = f"pipeline-{len(list(scene.evidence.glob('play-*')))}"
    incoming = Ledger(scene.bootstrap("ssd"), topic)
    outgoing = Ledger(incoming.bootstrap_servers, f"{topic}-forwarded")
    for ledger in (incoming, outgoing):
        ledger.create_topic(len(scene.hosts), scene.copies)
    environment = {"BROKER": incoming.bootstrap_servers, "INCOMING": incoming.topic, "OUTGOING": outgoing.topic}
    instance = {"name": "forward", "file": str(_FILE), "environment": environment}
    variables = json.dumps({"pipeline_instances": [instance]})
    scene.play("pipeline.yml", "-e", variables)
    with incoming.producing():
        time.sleep(_SENDING_S)
    _wait_until_forwarded(incoming, outgoing)
    again = scene.play("pipeline.yml", "-e", variables)
    assert again.changed == 0, f"changed again: {sorted(task for _, task in again.changes)}"
    count = len(incoming.acknowledged)
    return f"{node.name}: {count} records forwarded, each once; the second run changed nothing"


def _wait_until_forwarded(incoming: Ledger, outgoing: Ledger) -> None:
    outgoing.acknowledged = incoming.acknowledged
    deadline_s = time.monotonic() + _WITHIN_S
    while (faults := outgoing.faults()) != []:
        late_or_twice = f"{outgoing.topic}: {'; '.join(faults)}"
        assert time.monotonic() < deadline_s, late_or_twice
        assert not any("twice" in fault for fault in faults), late_or_twice
        time.sleep(_POLL_S)
    assert incoming.refused == [], f"{incoming.topic}: refused: {incoming.refused[:3]}"

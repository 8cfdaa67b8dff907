"""The stories of mixed_answers.py go here as they go with Apache Kafka 4.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.group.mixed_answers import PROPERTIES, tell
from tests.broker.running import running_broker
from tests.broker.storytelling import node_at

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.4-mixed-groups.txt"


@pytest.mark.clients
def test_answers_are_kafkas(tmp_path: Path) -> None:
    properties = [f"{name}={value}" for name, value in PROPERTIES.items()]
    with running_broker(tmp_path / "log", properties=properties) as broker:
        story = tell(node_at(broker.port).ask)
    assert story == GOLDEN.read_text("utf-8")

"""The story of tests/broker/txn/answers.py goes here as it goes with Apache Kafka 3.9, which has no features."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.broker.features import TRANSACTION_VERSION, UpgradeType
from tests.broker.running import running_broker
from tests.broker.storytelling import node_at
from tests.broker.txn.answers import PROPERTIES, tell

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-3.9-transactions.txt"


@pytest.mark.clients
def test_answers_are_kafkas(tmp_path: Path) -> None:
    properties = [f"{name}={value}" for name, value in PROPERTIES.items()]
    with running_broker(tmp_path / "log", properties=properties) as broker:
        node = node_at(broker.port)
        downgrade = {"feature": TRANSACTION_VERSION, "max_version_level": 0, "upgrade_type": UpgradeType.SAFE_DOWNGRADE}
        assert not node.ask("update_features", 1, feature_updates=[downgrade]).error_code
        story = tell(node.ask)
    assert story == GOLDEN.read_text("utf-8")

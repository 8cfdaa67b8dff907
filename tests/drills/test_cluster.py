"""The checker of the cluster's drills sees whatever is wrong; and a short drill. All of them are `make drills`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drills.cluster.drill import Drill
from tests.drills.cluster.load import KINDS, LoadProducer, Outcome, compare_reads, differing_replicas, digests, hold
from tests.drills.cluster.network import Loopback
from tests.drills.cluster.stories import STORIES
from tests.drills.cluster.systems import Cluster
from tests.drills.reading import Found, Seen
from tests.drills.writers import value_of

KIND = {kind.name: kind for kind in KINDS}
TOPIC = "t"


def _held(kind: str, numbers: list[int], acknowledged: dict[int, int], tmp_path: Path) -> Outcome:
    """What the checker says of a partition with these values, and these offsets acknowledged."""
    producer = LoadProducer(KIND[kind], TOPIC, 1, "127.0.0.1:1", 1)
    producer.asked = 10
    producer.answers = {number: (0, offset) for number, offset in acknowledged.items()}
    records = [Found(offset, None, value_of(TOPIC, number), {}) for offset, number in enumerate(numbers)]
    return hold(producer, {(TOPIC, 0): Seen(0, 0, len(records), records)}, tmp_path)


@pytest.mark.parametrize("kind", ["acks-all", "idempotent"])
def test_what_was_acknowledged_must_be_there_and_where_it_was_said(kind: str, tmp_path: Path) -> None:
    assert _held(kind, [0, 1, 2], {0: 0, 1: 1, 2: -1}, tmp_path).violations == []
    assert _held(kind, [0, 1, 2], {0: 0}, tmp_path).violations == [], "what was not acknowledged may be there"
    lost = _held(kind, [0, 2], {0: 0, 1: 1, 2: 1}, tmp_path)
    assert lost.lost == 1
    assert lost.violations == [f"{kind}: 1 acknowledged values are lost"]
    assert _held(kind, [0, 2, 1], {1: 1}, tmp_path).violations[0] == f"{kind}: 1 values are elsewhere than acknowledged"


def test_what_is_not_promised_is_counted_and_no_violation(tmp_path: Path) -> None:
    outcome = _held("acks-1", [0, 0, 3, 2], {0: 0, 1: 1}, tmp_path)
    assert (outcome.lost, outcome.duplicates, outcome.reordered, outcome.violations) == (1, 1, 1, [])


def test_an_idempotent_producer_finds_each_value_once_and_in_order(tmp_path: Path) -> None:
    assert _held("idempotent", [0, 2, 1], {}, tmp_path).violations == ["idempotent: 1 values are out of order"]
    (twice,) = _held("idempotent", [0, 1, 1], {}, tmp_path).violations
    assert "1 values are there twice" in twice


def test_values_of_nobody_and_of_elsewhere_are_seen(tmp_path: Path) -> None:
    producer = LoadProducer(KIND["acks-0"], TOPIC, 2, "127.0.0.1:1", 1)
    producer.asked = 3
    flipped = bytearray(value_of(TOPIC, 0))
    flipped[-1] ^= 1
    values = [bytes(flipped), value_of(TOPIC, 1), value_of(TOPIC, 4), value_of("other", 0), None]
    records = [Found(offset, None, value, {}) for offset, value in enumerate(values)]
    assert len(hold(producer, {(TOPIC, 0): Seen(0, 0, 5, records)}, tmp_path).violations) == 5


def _gap(records: list[Found]) -> None:
    del records[1]


def _changed(records: list[Found]) -> None:
    records[1] = Found(1, None, b"other", {})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(_gap, {"the offsets have gaps", "read different", "gone or changed"}), (_changed, {"read different", "changed"})],
)
def test_readers_must_agree_before_and_after(spoil: Callable[[list[Found]], None], says: set[str]) -> None:
    records = [Found(offset, None, value_of(TOPIC, offset), {}) for offset in range(3)]
    other, live = digests(records), dict(digests(records))
    assert compare_reads((TOPIC, 0), Seen(0, 0, 3, records), other, live) == []
    spoil(records)
    violations = compare_reads((TOPIC, 0), Seen(0, 0, 3, records), other, live)
    assert len(violations) == len(says)
    assert all(any(word in violation for violation in violations) for word in says)


def test_replicas_are_compared_byte_by_byte(tmp_path: Path) -> None:
    log_dirs = {number: tmp_path / str(number) for number in (1, 2)}
    for log_dir in log_dirs.values():
        (log_dir / "t-0").mkdir(parents=True)
        (log_dir / "t-0/00000000000000000000.log").write_bytes(b"same")
    assert differing_replicas(log_dirs, [(TOPIC, 0)]) == []
    (log_dirs[2] / "t-0/00000000000000000000.log").write_bytes(b"other")
    assert differing_replicas(log_dirs, [(TOPIC, 0)]) == ["t-0"]


@pytest.mark.slow
@pytest.mark.clients
def test_killing_a_leader_loses_nothing_that_was_promised(tmp_path: Path) -> None:
    with Cluster(["highwater"] * 3, tmp_path, Loopback()) as cluster:
        drill = Drill("kill-leader", cluster, records_per_s=100, warm_up_s=0.5)
        report = drill.run(STORIES["kill-leader"].tell, list(cluster.brokers))
    assert report.is_kept, [*report.violations, *(v for outcome in report.outcomes for v in outcome.violations)]
    assert report.election_s is not None
    for outcome in report.outcomes:
        assert outcome.acknowledged > 100

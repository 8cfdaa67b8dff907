"""Environment keys: what decides, what does not, and what people read of a difference."""

from __future__ import annotations

import pytest

from highwater.results.environment_key import (
    EnvironmentKey,
    Scalar,
    difference_text,
    environment_key,
    human_name,
    renamed,
    unequal,
)
from highwater.results.gate import EnvironmentDifference
from highwater.results.models import Environment
from highwater.results.storage import StorageTarget
from tests.bench.summaries import summary

DISK = summary(1).storage
SLOW = DISK.model_copy(update={"name": "slow", "medium": "hdd"})


def facts_of(*targets: StorageTarget) -> dict[str, Scalar]:
    return environment_key(Environment(facts={"kernel_release": "6.1"}, tuning=[]), list(targets)).facts


def test_the_name_of_a_storage_target_changes_nothing() -> None:
    renamed_disk = DISK.model_copy(update={"name": "nvme0", "path": "/mnt/other"})
    assert facts_of(DISK) == facts_of(renamed_disk)
    assert facts_of(DISK, SLOW) == facts_of(SLOW.model_copy(update={"name": "a"}), DISK)
    assert facts_of(DISK, renamed_disk) == facts_of(DISK), "two of a kind are one condition"
    assert facts_of(DISK) != facts_of(SLOW)
    assert not any("slow" in fact or "temporary" in fact for fact in facts_of(DISK, SLOW))


@pytest.mark.parametrize("targets", [(DISK,), (DISK, SLOW), ()])
def test_facts_of_an_older_version_get_the_names_of_today(targets: tuple[StorageTarget, ...]) -> None:
    today = facts_of(*targets)
    plain = {fact: value for fact, value in today.items() if not fact.startswith("storage")}
    older = plain | {
        f"storage.{target.name}.{fact.rpartition('.')[2]}": value
        for target in targets
        for fact, value in facts_of(target).items()
        if fact.startswith("storage.")
    }
    assert EnvironmentKey(renamed(older)).name == EnvironmentKey(today).name
    assert renamed(today) == today


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        ("cpu.model", "processor"),
        ("storage.filesystem", "storage: filesystem"),
        ("storage.2.scheduler", "storage 2: I/O scheduler"),
        ("host.node1.example.cpu.count", "host node1.example: number of CPUs"),
        ("connection.security.protocol", "connection of clients: security.protocol"),
        ("librdkafka", "librdkafka"),
    ],
)
def test_facts_have_human_names(fact: str, name: str) -> None:
    assert human_name(fact) == name


def test_a_difference_is_said_by_its_human_name() -> None:
    xfs = DISK.model_copy(update={"filesystem": "xfs"})
    assert [difference_text(found) for found in unequal(facts_of(DISK), facts_of(xfs))] == [
        "storage: filesystem ext4 → xfs"
    ]
    assert difference_text(unequal({"cpu.model": "A"}, {"cpu.model": "B"})[0]) == "processor: A → B"
    (tuned,) = unequal({"tuning": "a" * 64}, {"tuning": None})
    assert difference_text(tuned) == "fingerprint of the kernel's settings: aaaaaaaaaaaa → not known"
    older = EnvironmentDifference(fact="cpu.model", base="A", head="B", decides=True)
    assert difference_text(older) == "cpu.model: A → B"

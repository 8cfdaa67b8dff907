"""The study file: the shipped one, faulty ones that are refused with file and line, and how a part is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.matrix.study import SHIPPED, Study, name_of, read_study
from highwater.bench.prove.loads import LOADS
from highwater.bench.prove.subjects import knob_ids
from highwater.common.errors import UsageError
from highwater.tuning.catalogue import find_knob


def test_the_shipped_study_has_twenty_settings_that_exist() -> None:
    study = read_study(SHIPPED)
    assert len(study.settings) == 20
    for setting in study.settings:
        for knob in knob_ids(setting):
            find_knob(knob)
    assert tuple(study.loads) == LOADS
    assert [(name, volume and volume.limits.operations_per_s) for name, volume in study.disks.items()] == [
        ("host", None),
        ("hdd", 120),
        ("volume", 3000),
    ]
    assert Study.model_validate(study.as_document()) == study


def test_a_part_is_named_with_few_letters_and_keeps_its_order() -> None:
    part = read_study(SHIPPED).narrowed(["noatime", "vm.dirty_bytes", "swappiness"], ["cpu", "prove-writes"], ["hdd"])
    assert list(map(name_of, part.settings)) == [
        "vm.swappiness",
        "vm.dirty_background_bytes+vm.dirty_bytes",
        "mount.noatime",
    ]
    assert list(part.loads) == ["prove-writes", "prove-cpu"]
    assert list(part.disks) == ["hdd"]
    assert read_study(SHIPPED).narrowed([], [], []) == read_study(SHIPPED)


@pytest.mark.parametrize(
    ("settings", "loads", "disks", "message"),
    [
        (["noatim"], [], [], r"^--only: the study has no 'noatim'; did you mean noatime\? \(it has vm\.swappiness, "),
        ([], ["disc"], [], r"^--load: the study has no 'disc' \(it has writes, reads, connections, cpu\)$"),
        ([], [], ["hd"], r"^--disk: the study has no 'hd'.* \(it has host, hdd, volume\)$"),
    ],
)
def test_what_the_study_does_not_have(settings: list[str], loads: list[str], disks: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_study(SHIPPED).narrowed(settings, loads, disks)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  hdd: {bandwidth: 120MiB/s, iops: 120}", "  hdd: null", "every disk but `host` has bandwidth and iops"),
        ("  hdd:", "  hard-disk:", "a disk has a name of up to six of a-z and 0-9"),
        ("120MiB/s", "fast", "bytes per second with their unit"),
        ("[backlog.drain_bytes_per_s, produce.p99]", "[produce.p50]", r"\['produce.p50'\] are no figures of a load"),
        ("  prove-cpu:", "  prove-all:", "are no figures of a load"),
        ("mount.noatime=relatime:noatime", "vm.swappiness=60:5", "vm.swappiness is there twice"),
        ("confirming_pairs: 20", "confirming_pairs: 4", "confirming_pairs"),
        ("confirming_pairs", "confirm_pairs", "confirm_pairs"),
    ],
)
def test_a_faulty_study_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    text = SHIPPED.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=message) as caught:
        read_study(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)

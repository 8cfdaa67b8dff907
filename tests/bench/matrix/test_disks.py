"""The emulated disks of a matrix: made with both file systems, and gone again, also after a failure."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from highwater.bench.matrix import disks
from highwater.bench.storage import emulated_hdd
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect
from tests.bench.matrix.sample import STUDY
from tests.bench.storage.test_emulated_hdd import may_make_disks


def test_both_file_systems_are_there_for_the_time_of_their_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (reason := may_make_disks()) is not None:
        pytest.skip(f"no disk can be emulated here: {reason}")
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("needs mkfs.xfs (apt-get install -y xfsprogs)")
    host_of = partial(emulated_hdd.DiskHost, records=str(tmp_path / "records"))
    monkeypatch.setattr(emulated_hdd, "DiskHost", host_of)
    monkeypatch.setattr(disks, "SIZE_BYTES", 320 << 20)
    data = tmp_path / "data"
    data.mkdir()
    with disks.opened(STUDY, data, "host") as places:
        assert (places.log, places.is_ours, places.other) == (data, False, None)
    with pytest.raises(UsageError, match="no more"):
        _fail_on_a_disk(data)
    assert list(data.iterdir()) == [], "also after a failure"
    with disks.opened(STUDY, data, "hdd") as places:
        assert places.is_ours
        assert places.other is not None
        facts = collect()
        mounts = [facts.mount_of(str(path)) for path in (places.log, places.other)]
        assert [mount and mount.filesystem for mount in mounts] == ["ext4", "xfs"]
        assert "limited to 120 MiB/s and 120 operations/s" in places.text
    assert list(data.iterdir()) == []
    assert not emulated_hdd.disks(host_of(collect()))


def _fail_on_a_disk(data: Path) -> None:
    with disks.opened(STUDY.narrowed(["swappiness"], [], []), data, "hdd") as places:
        assert places.other is None
        raise UsageError("no more")

"""Values of request queues: which layer each belongs to, by medium, and never more than the hardware takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.tuning.catalogue import KNOBS, find_knob
from highwater.tuning.facts.model import BlockDevice, Facts, Mount
from highwater.tuning.formulas import disks
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Formula, NotApplicable, Target
from highwater.tuning.workload import Workload

WORKLOAD = Workload(data_dirs=("/data",))
QUEUE_KNOBS = (disks.disk_scheduler, disks.merging, disks.requests, disks.largest_request, disks.write_cache)


def _disk(name: str, number: str, *, rotational: bool | None = False, **changes: Any) -> BlockDevice:
    fields: dict[str, Any] = {
        "schedulers": ("none", "mq-deadline", "bfq"),
        "queue": {"max_hw_sectors_kb": "32767", "write_cache": "write back", "wbt_lat_usec": "2000"},
    }
    return BlockDevice(name, number, 2**40, rotational, None, "none", **{**fields, **changes})


HDD = _disk("sda", "8:0", rotational=True)
SSD = _disk("sdb", "8:16")
NVME = _disk("nvme0n1", "259:0")
VIRTIO = _disk("vda", "254:0", rotational=True)
MD = _disk("md0", "9:0", members=("sda", "sdc"), rotational=True, schedulers=())
HDD2 = _disk("sdc", "8:32", rotational=True)


def _facts(root: Path, devices: Sequence[BlockDevice], **changes: Any) -> Facts:
    """Hosts with a data directory /data, /data1, … on each of the first devices."""
    mounted = [device for device in devices if not any(device.name in other.members for other in devices)]
    mounts = [
        Mount(f"/data{number or ''}", "ext4", f"/dev/{device.name}", device.device_number, ("rw",))
        for number, device in enumerate(mounted)
    ]
    return Facts(files=HostFiles(root), mounts=tuple(mounts), block_devices=tuple(devices), **changes)


def _value(formula: Formula, facts: Facts, name: str, workload: Workload = WORKLOAD) -> object:
    answer = formula(facts, workload, name)
    return answer.value if isinstance(answer, Target) else None


def _reason(formula: Formula, facts: Facts, name: str, workload: Workload = WORKLOAD) -> str:
    answer = formula(facts, workload, name)
    assert isinstance(answer, NotApplicable)
    return answer.reason


@pytest.mark.parametrize(("disk", "wanted"), [(HDD, "mq-deadline"), (SSD, "none"), (NVME, "none")])
def test_the_scheduler_follows_the_medium(tmp_path: Path, disk: BlockDevice, wanted: str) -> None:
    assert _value(disks.disk_scheduler, _facts(tmp_path, [disk]), disk.name) == wanted


def test_a_virtual_disk_hides_its_medium_and_keeps_what_it_has(tmp_path: Path) -> None:
    assert "hides its medium" in _reason(disks.disk_scheduler, _facts(tmp_path, [VIRTIO]), "vda")
    scsi_of_a_guest = _facts(tmp_path, [HDD], virtual_machine="VMware, Inc. VMware Virtual Platform")
    assert "hides its medium" in _reason(disks.disk_scheduler, scsi_of_a_guest, "sda")
    assert "hides its medium" in _reason(disks.requests, scsi_of_a_guest, "sda")
    assert _value(disks.read_ahead, scsi_of_a_guest, "sda") == 128
    assert "hides its medium" in _reason(disks.completion_affinity, scsi_of_a_guest, "sda")


def test_a_scheduler_that_the_kernel_does_not_offer_is_not_asked_for(tmp_path: Path) -> None:
    only_none = _disk("sda", "8:0", rotational=True, schedulers=("none",))
    facts = _facts(tmp_path, [only_none])
    assert _reason(disks.disk_scheduler, facts, "sda") == "this kernel offers only none"
    assert "the queue of the device itself" in _reason(disks.requests, facts, "sda"), "the kernel would refuse more"


def test_requests_are_merged_whatever_the_medium(tmp_path: Path) -> None:
    for disk in (HDD, SSD, NVME, VIRTIO):
        assert _value(disks.merging, _facts(tmp_path, [disk]), disk.name) == 0


def test_only_spinning_disks_read_far_ahead_and_no_value_is_lowered(tmp_path: Path) -> None:
    for disk, wanted in ((HDD, 4096), (SSD, 128), (NVME, 128), (VIRTIO, 128)):
        assert _value(disks.read_ahead, _facts(tmp_path, [disk]), disk.name) == wanted
    for knob_id in ("disk.read_ahead_kb", "disk.nr_requests", "disk.max_sectors_kb"):
        assert find_knob(knob_id).comparison == "at_least"


def test_a_raid_reads_ahead_and_its_disks_queue(tmp_path: Path) -> None:
    facts = _facts(tmp_path, [MD, HDD, HDD2])
    assert _value(disks.read_ahead, facts, "md0") == 4096
    assert "above it decides" in _reason(disks.read_ahead, facts, "sda")
    assert "above it" in _reason(disks.dirty_share, facts, "sda")
    for formula in QUEUE_KNOBS:
        assert _reason(formula, facts, "md0") == "md0 passes requests on to sda, sdc"
    assert _value(disks.disk_scheduler, facts, "sda") == "mq-deadline"


def test_a_raid_of_several_media_reads_ahead_as_for_flash(tmp_path: Path) -> None:
    mixed = _disk("md0", "9:0", members=("sda", "sdb"))
    answer = disks.read_ahead(_facts(tmp_path, [mixed, HDD, SSD]), WORKLOAD, "md0")
    assert isinstance(answer, Target)
    assert (answer.value, answer.formula) == (128, "128 KiB for a mixture of media")


@pytest.mark.parametrize(("hardware", "wanted"), [("32767", 1024), ("1024", 1024), ("512", 512), ("4", 4)])
def test_a_request_is_never_larger_than_the_hardware_takes(tmp_path: Path, hardware: str, wanted: int) -> None:
    disk = _disk("sda", "8:0", queue={"max_hw_sectors_kb": hardware})
    assert _value(disks.largest_request, _facts(tmp_path, [disk]), "sda") == wanted


def test_without_the_hardwares_limit_nothing_is_asked_for(tmp_path: Path) -> None:
    assert "does not show" in _reason(disks.largest_request, _facts(tmp_path, [_disk("sda", "8:0", queue={})]), "sda")


@pytest.mark.parametrize("present", ["write back", "write through"])
def test_the_write_cache_is_looked_at_and_never_written(tmp_path: Path, present: str) -> None:
    facts = _facts(tmp_path, [_disk("sda", "8:0", queue={"write_cache": present})])
    answer = disks.write_cache(facts, WORKLOAD, "sda")
    assert isinstance(answer, Target)
    assert answer.value == present
    assert bool(answer.note) == (present == "write through")
    knob = find_knob("disk.write_cache")
    assert (knob.mechanism, knob.risk) == ("advice", "critical")


def test_throttling_of_write_back_is_off_only_for_those_who_name_it(tmp_path: Path) -> None:
    assert find_knob("disk.wbt_lat_usec").only_if_named
    assert _value(disks.writeback_throttling, _facts(tmp_path, [SSD]), "sdb") == 0
    without = _facts(tmp_path, [_disk("sda", "8:0", queue={"wbt_lat_usec": ""})])
    assert "no write-back throttling" in _reason(disks.writeback_throttling, without, "sda")


@pytest.mark.parametrize(("cpus", "wanted"), [(8, None), (15, None), (16, 2), (128, 2)])
def test_completion_on_the_asking_cpu_is_for_hosts_with_many(tmp_path: Path, cpus: int, wanted: int | None) -> None:
    facts = _facts(tmp_path, [NVME], cpus_online=tuple(range(cpus)))
    assert _value(disks.completion_affinity, facts, "nvme0n1") == wanted


@pytest.mark.parametrize(("count", "percent"), [(1, None), (2, 75), (4, 37), (12, 12), (15, 10), (200, 10)])
def test_a_disk_among_many_gets_its_share_of_dirty_pages(tmp_path: Path, count: int, percent: int | None) -> None:
    many = [_disk(f"sd{number}", f"8:{number}") for number in range(count)]
    workload = Workload(data_dirs=tuple(f"/data{number or ''}" for number in range(count)))
    assert _value(disks.dirty_share, _facts(tmp_path, many), "sd0", workload) == percent
    assert find_knob("bdi.max_ratio").comparison == "at_most", "a lower share is never raised"


def test_two_directories_on_one_disk_share_it(tmp_path: Path) -> None:
    workload = Workload(data_dirs=("/data/a", "/data/b"))
    assert "only data disk" in _reason(disks.dirty_share, _facts(tmp_path, [SSD]), "sdb", workload)


def test_a_disk_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    for formula in (*QUEUE_KNOBS, disks.read_ahead, disks.dirty_share):
        assert _reason(formula, _facts(tmp_path, [SSD]), "sdz") == "there is no disk sdz"
        assert _reason(formula, Facts(files=HostFiles(tmp_path)), "") == (
            "no local disk found under the data directories"
        )


def test_the_scheduler_is_chosen_before_the_number_of_requests_that_it_resets() -> None:
    order = [knob.id for knob in KNOBS]
    assert order.index("disk.scheduler") < order.index("disk.nr_requests")

"""The files that keep settings over a reboot: the text of each, and what somebody else put into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.boot_files import HEADER, limits_d, swap, sysctl_d, systemd, tmpfiles, udev
from highwater.tuning.errors import TuningError
from highwater.tuning.hostfiles import HostFiles


def test_sysctl_d() -> None:
    text = sysctl_d.with_settings(None, {"vm.swappiness": "1", "vm.dirty_bytes": "64"}, {"vm.swappiness": "Why."})
    assert text == f"{HEADER}\nvm.dirty_bytes = 64\n\n# Why.\nvm.swappiness = 1\n"
    assert sysctl_d.with_settings(text, {"vm.swappiness": "1"}, {"vm.swappiness": "Why."}) == text
    assert sysctl_d.with_settings(None, {}, {}) is None


def test_a_sysctl_of_others_stays_but_not_one_that_would_undo_ours() -> None:
    text = sysctl_d.with_settings(
        "kernel.panic=10\nvm/dirty_ratio = 80\n-net.core.rmem_max=1\n", {"vm.dirty_bytes": "4096"}, {}
    )
    assert text is not None
    assert sysctl_d.parse_settings(text) == {
        "kernel.panic": "10",
        "net.core.rmem_max": "1",
        "vm.dirty_bytes": "4096",
    }


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("vm.swappiness", "vm.swappiness"),
        ("vm/swappiness", "vm.swappiness"),
        ("net.ipv4.conf.eth0/100.rp_filter", "net.ipv4.conf.eth0/100.rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", "net.ipv4.conf.eth0/100.rp_filter"),
    ],
)
def test_keys_are_dotted(written: str, key: str) -> None:
    assert sysctl_d.dotted(written) == key


def test_tmpfiles() -> None:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    text = tmpfiles.with_writes(None, {path: "madvise", "/sys/kernel/mm/ksm/run": "0"})
    assert text == f"{HEADER}\nw /sys/kernel/mm/ksm/run - - - - 0\nw {path} - - - - madvise\n"
    assert tmpfiles.parse_writes(text) == {path: "madvise", "/sys/kernel/mm/ksm/run": "0"}
    assert tmpfiles.with_writes(text, {path: "madvise"}) == text
    assert tmpfiles.with_writes(None, {}) is None
    assert tmpfiles.parse_writes(tmpfiles.with_writes(None, {"/sys/x": "50%"}) or "") == {"/sys/x": "50%"}


def test_limits_d() -> None:
    entry = limits_d.LimitsEntry("*", "nofile")
    text = limits_d.with_limits("# by hand\nroot - core 0\n", {entry: limits_d.Limits("100000", "524288")})
    assert text == (f"{HEADER}root soft core 0\nroot hard core 0\n* soft nofile 100000\n* hard nofile 524288\n")
    assert limits_d.parse_limits(text)[entry] == ("100000", "524288")
    assert limits_d.with_limits(text, {entry: limits_d.Limits("100000", "524288")}) == text


def test_a_drop_in_holds_all_settings_of_its_unit() -> None:
    text = systemd.with_settings(None, "Service", {"LimitNOFILE": "100000:524288"})
    text = systemd.with_settings(text, "Service", {"TasksMax": "8192"})
    assert text == f"{HEADER}[Service]\nLimitNOFILE=100000:524288\nTasksMax=8192\n"
    assert systemd.with_settings(text, "Service", {"TasksMax": "8192"}) == text
    assert systemd.drop_in("a@.service") == "/etc/systemd/system/a@.service.d/90-highwater.conf"


def test_what_is_no_unit_is_refused() -> None:
    for name in ("../../evil.service", "kafka", "a b.service", "x.timer"):
        with pytest.raises(TuningError, match="is not the name of a service unit"):
            systemd.check_unit(name)
    with pytest.raises(TuningError, match="is not a user"):
        limits_d.check_domain("root hard nofile 1\nx")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/dev/sda2", "dev-sda2"),
        ("/dev/disk/by-uuid/1-2", r"dev-disk-by\x2duuid-1\x2d2"),
        ("/", "-"),
        ("/data", "data"),
        ("/.hidden", r"\x2ehidden"),
        ("/mnt/a b/é", r"mnt-a\x20b-\xc3\xa9"),
    ],
)
def test_paths_as_names_of_units(path: str, name: str) -> None:
    assert systemd.escape_path(path) == name


def test_a_disk_is_named_by_what_stays_with_it() -> None:
    match = udev.disk_match("sda", {"ID_PATH": "pci-0000:00:1f.2-ata-1", "ID_SERIAL": "Disk_S3NA0K"})
    text = udev.with_rules(None, [udev.Rule(match, "queue/scheduler", "none")])
    assert text == (
        f'{HEADER}ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", ENV{{ID_SERIAL}}=="Disk_S3NA0K", '
        'ATTR{queue/scheduler}="none"\n'
    )
    assert udev.parse_rules(text) == {(match, "queue/scheduler"): "none"}
    assert 'ENV{ID_PATH}=="pci' in udev.disk_match("sda", {"ID_PATH": "pci-0:1", "ID_SERIAL": "a*b"}), "a pattern"
    assert udev.disk_match("sda", {"ID_SERIAL": 'a"b'}).endswith('KERNEL=="sda"')


def test_a_scheduler_is_chosen_before_the_number_of_requests_that_it_resets() -> None:
    match = udev.disk_match("sda", {})
    rules = [udev.Rule(match, "queue/nr_requests", "256"), udev.Rule(match, "queue/scheduler", "mq-deadline")]
    text = udev.with_rules(None, rules)
    assert text is not None
    assert text.index("queue/scheduler") < text.index("queue/nr_requests")
    assert udev.with_rules(text, rules) == text


def test_rules_of_others_in_our_file_stay() -> None:
    match = udev.interface_match("eth0", {})
    rule = udev.Rule(match, "queues/rx-0/rps_cpus", "f")
    text = udev.with_rules('# a word\nKERNEL=="sdz", MODE="0600"\n', [rule])
    assert text is not None
    assert text.endswith('KERNEL=="sdz", MODE="0600"\n')
    assert udev.with_rules(text, [rule]) == text
    assert udev.with_rules(None, []) is None


def test_zram_is_turned_off_device_by_device() -> None:
    assert swap.zram_devices("[zram1]\nzram-size = ram\n[zram0]\n# [zram7]\n") == ["zram1", "zram0"]
    text = swap.without_zram(None, ["zram1", "zram0"])
    assert text == f"{HEADER}\n[zram0]\nhost-memory-limit = 0\n\n[zram1]\nhost-memory-limit = 0\n"
    assert swap.without_zram(text, ["zram0"]) == text
    assert swap.without_zram(None, []) is None


def test_rules_of_others_are_told_by_their_lines_whatever_bytes_they_hold(tmp_path: Path) -> None:
    (tmp_path / "etc/udev/rules.d").mkdir(parents=True)
    text = b'\n# f\xfcr uns\nKERNEL=="sd?", ATTR{queue/scheduler}="bfq"\n'
    (tmp_path / "etc/udev/rules.d/99-late.rules").write_bytes(text)
    (rule,) = udev.later_rules(HostFiles(tmp_path))
    assert (rule.line, rule.attribute, rule.value) == (3, "queue/scheduler", "bfq")

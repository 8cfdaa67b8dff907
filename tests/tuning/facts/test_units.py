"""Service units by their files, drop-ins and running instances."""

from __future__ import annotations

from pathlib import Path

from highwater.tuning.facts import collect
from tests.tuning.host_tree import make_host, write

_TEMPLATE = "highwater-broker@.service"
_LIMITS = "Limit Soft Hard Units\nMax open files 1024 524288 files\nMax locked memory unlimited unlimited bytes\n"


def test_a_unit_that_is_not_there(tmp_path: Path) -> None:
    unit = collect(make_host(tmp_path)).unit("nothing.service")
    assert unit.path is None
    assert (unit.settings, unit.drop_ins, unit.instances) == ({}, (), ())


def test_drop_ins_are_merged_in_the_order_of_their_names_and_a_later_folder_is_hidden(tmp_path: Path) -> None:
    name = "broker.service"
    main = "[Unit]\nLimitNOFILE=1\n[Service]\nExecStart=/bin/x \\\n  --LimitNOFILE=7\nLimitNOFILE=2\nMemoryHigh=1G\n"
    write(tmp_path, f"/usr/lib/systemd/system/{name}", main)
    write(tmp_path, f"/usr/lib/systemd/system/{name}.d/50-vendor.conf", "[Service]\nLimitNOFILE=3\n")
    write(tmp_path, f"/usr/lib/systemd/system/{name}.d/10-hidden.conf", "[Service]\nTasksMax=5\n")
    write(tmp_path, f"/etc/systemd/system/{name}.d/10-hidden.conf", "[Service]\n# nothing\n")
    write(tmp_path, f"/etc/systemd/system/{name}.d/90-highwater.conf", "[Service]\nLimitNOFILE=4:8\nMemoryHigh=\n")
    unit = collect(make_host(tmp_path)).unit(name)
    assert unit.path == f"/usr/lib/systemd/system/{name}"
    assert [path.rpartition("/")[2] for path in unit.drop_ins] == [
        "10-hidden.conf",
        "50-vendor.conf",
        "90-highwater.conf",
    ]
    assert unit.settings == {"LimitNOFILE": "4:8"}


def test_an_instance_has_its_templates_files_and_those_of_its_prefix(tmp_path: Path) -> None:
    write(tmp_path, f"/etc/systemd/system/{_TEMPLATE}", "[Service]\nIOWeight=100\n")
    write(tmp_path, "/etc/systemd/system/highwater-.service.d/10-all.conf", "[Service]\nCPUWeight=200\n")
    write(tmp_path, "/etc/systemd/system/service.d/20-all.conf", "[Service]\nTasksMax=300\n")
    unit = collect(make_host(tmp_path)).unit("highwater-broker@1.service")
    assert unit.path == f"/etc/systemd/system/{_TEMPLATE}"
    assert unit.settings == {"IOWeight": "100", "CPUWeight": "200", "TasksMax": "300"}


def test_running_instances_of_a_template_with_the_limits_of_their_processes(tmp_path: Path) -> None:
    slice_ = r"/sys/fs/cgroup/system.slice/system-highwater\x2dbroker.slice"
    write(tmp_path, f"{slice_}/highwater-broker@1.service/cgroup.procs", "4711\n4712\n")
    write(tmp_path, f"{slice_}/highwater-broker@2.service/cgroup.procs", "\n")
    write(tmp_path, "/proc/4711/limits", _LIMITS)
    write(tmp_path, "/proc/4711/oom_score_adj", "-900\n")
    (instance,) = collect(make_host(tmp_path)).unit(_TEMPLATE).instances
    assert (instance.name, instance.main_pid) == ("highwater-broker@1.service", 4711)
    assert instance.limits == {"nofile": (1024, 524288), "memlock": (None, None)}
    assert instance.oom_score_adjust == -900


def test_a_running_service_below_version_1_of_control_groups(tmp_path: Path) -> None:
    write(tmp_path, "/sys/fs/cgroup/systemd/system.slice/broker.service/cgroup.procs", "99\n")
    (instance,) = collect(make_host(tmp_path)).unit("broker.service").instances
    assert instance.main_pid == 99
    assert instance.limits == {}


def test_masks(tmp_path: Path) -> None:
    write(tmp_path, "/etc/systemd/system/empty.service", "")
    (tmp_path / "etc/systemd/system/linked.service").symlink_to("/dev/null")
    facts = collect(make_host(tmp_path))
    assert facts.unit("empty.service").masked
    assert facts.unit("linked.service").masked

"""A plan with steps of every kind, and the made host that it is for."""

from __future__ import annotations

from pathlib import Path

from highwater.tuning import engine
from highwater.tuning.journal import APPLIED, Owner
from highwater.tuning.steps import CommandStep, FileStep, RemountStep, SettingStep, Step, SwapOffStep, TuningPlan
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, whole_tree
from tests.tuning.host_tree import make_host, sysctl_path, write

SWAPPINESS = sysctl_path("vm.swappiness")
DIRTY_BYTES, DIRTY_RATIO = sysctl_path("vm.dirty_bytes"), sysctl_path("vm.dirty_ratio")
TCP_RMEM = sysctl_path("net.ipv4.tcp_rmem")
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
SYSCTL_FILE = "/etc/sysctl.d/90-highwater.conf"
DROP_IN = "/etc/systemd/system/highwater-broker@.service.d/90-highwater.conf"
FSTAB = "/etc/fstab"
FSTAB_TEXT = "# the root\nUUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 defaults 0 2\n/dev/sdb1 none swap sw 0 0\n"
OWNER = Owner("highwater tune apply", 999999, "12345")

swappiness = SettingStep("vm.swappiness", "", SWAPPINESS, "60", "1")
dirty = SettingStep("vm.dirty_bytes", "", DIRTY_BYTES, "0", "1000000000", DIRTY_RATIO, "20")
tcp_rmem = SettingStep("net.ipv4.tcp_rmem", "", TCP_RMEM, "4096 131072 6291456", "4096 131072 25000000")
thp = SettingStep("thp.enabled", "", THP, "madvise", "never")
sysctl_file = FileStep(SYSCTL_FILE, None, "vm.swappiness = 1\n")
drop_in = FileStep(DROP_IN, None, "[Service]\nLimitNOFILE=100000\n")
fstab = FileStep(FSTAB, FSTAB_TEXT, FSTAB_TEXT.replace("/data ext4 defaults", "/data ext4 noatime"))
old_file = FileStep("/etc/sysctl.d/10-old.conf", "vm.swappiness = 10\n", None)
remount = RemountStep("/data", ("rw", "relatime"), ("rw", "noatime"), "mount")
swap_off = SwapOffStep("/dev/sdb1", "partition", -2)
reload = CommandStep(("systemctl", "daemon-reload"), ("systemctl", "daemon-reload"), "units have a new drop-in")
EVERYTHING = TuningPlan(
    (dirty, swappiness, tcp_rmem, thp, sysctl_file, drop_in, fstab, old_file, reload, remount, swap_off)
)

SCHEDULER, REQUESTS = "/sys/block/sda/queue/scheduler", "/sys/block/sda/queue/nr_requests"
scheduler = SettingStep("disk.scheduler", "sda", SCHEDULER, "mq-deadline", "none")
requests = SettingStep("disk.nr_requests", "sda", REQUESTS, "300", "64")


def host(root: Path) -> Path:
    make_host(root, swaps="/dev/sdb1 partition 1048576 0 -2\n")
    write(root, FSTAB, FSTAB_TEXT).chmod(0o640)
    write(root, "/etc/sysctl.d/10-old.conf", "vm.swappiness = 10\n")
    write(root, "/dev/sdb1", "")
    (root / "var/lib").mkdir(parents=True)
    return root


def apply(kernel: FakeKernel, *steps: Step, runner: FakeRunner | None = None, journal: str = APPLIED) -> engine.Applied:
    return engine.apply(kernel, runner or FakeRunner(kernel), TuningPlan(steps), OWNER, journal)


def roll_back(kernel: FakeKernel, *, force: bool = False) -> engine.Rollback:
    return engine.rollback(kernel, FakeRunner(kernel), force=force)


def add_disk(root: Path) -> FakeKernel:
    """With a disk whose kernel resets the number of requests when the scheduler is another."""
    write(root, SCHEDULER, "none [mq-deadline]\n")
    write(root, REQUESTS, "300\n")
    return FakeKernel(root)


def without_journal(root: Path) -> dict[str, str]:
    return {path: text for path, text in whole_tree(root).items() if not path.startswith("var/lib/highwater")}

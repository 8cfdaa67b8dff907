"""Our files and our simulated boot, judged by the programs that read them on a real system.

They run in mount and network namespaces of their own, in which the files of a temporary tree stand in for the host's:
nothing outside changes, as /proc/sys is a folder of the tree too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.tuning.boot_files import fstab, limits_d, systemd, tmpfiles, udev
from highwater.tuning.boot_files.precedence import simulate_boot
from highwater.tuning.hostfiles import HostFiles
from tests.tuning.host_tree import write

SYSTEMD_SYSCTL = Path("/usr/lib/systemd/systemd-sysctl")
FSTAB_GENERATOR = Path("/usr/lib/systemd/system-generators/systemd-fstab-generator")
# A pair, of which the kernel keeps the last one that is written, and keys of two other folders.
KEYS = ("vm.dirty_bytes", "vm.dirty_ratio", "net.core.somaxconn", "net.ipv4.tcp_retries2")
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d")
IN_ITS_PLACE = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/sysctl.d
for place in /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d /etc/sysctl.conf; do mount --bind "$TREE$place" $place; done
mount --bind "$TREE/proc/sys" /proc/sys
"""


def needs(*programs: str | Path) -> None:
    """Skips, loudly, where this machine cannot tell: without root, namespaces or the program itself."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for namespaces")
    for program in ("unshare", *programs):
        if shutil.which(str(program)) is None:
            pytest.skip(f"needs {program}")
    if subprocess.run(["unshare", "-mn", "true"], check=False).returncode:
        pytest.skip("needs mount and network namespaces")


def inside(script: str, **environment: object) -> str:
    """What a script writes, in namespaces of its own."""
    done = subprocess.run(
        ["unshare", "-mn", "sh", "-euc", script],
        env={**os.environ, "LC_ALL": "C", **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


_ASSIGNMENT = st.builds(
    lambda key, value, form: form(key, value),
    st.sampled_from(KEYS),
    # Few values, so that lines repeat each other.
    st.integers(1, 3),
    st.sampled_from(
        [
            lambda key, value: f"{key} = {value}",
            lambda key, value: f"{key.replace('.', '/')}={value}",
            lambda key, value: f"/{key.replace('.', '//')}={value}  ",
            lambda key, value: f"-{key}=  {value}",
            lambda key, value: f"# {key} = {value}",
            lambda key, value: f"-{key}",
            lambda key, value: f"{key}",
            lambda key, value: f"{key.rpartition('.')[0]}.*_[bs]* = {value}",
            lambda key, value: f"{key} = {value}\fx",
        ]
    ),
)
_TEXT = st.lists(_ASSIGNMENT, max_size=4).map("\n".join)
_NAME = st.sampled_from(["10-a.conf", "90-highwater.conf", "99-z.conf", "zz.conf", "20-b.txt"])
_FILES = st.dictionaries(st.tuples(st.sampled_from(DIRECTORIES), _NAME), _TEXT, max_size=6)


def _tree(root: Path, files: Mapping[tuple[str, str], str], sysctl_conf: str) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for directory in DIRECTORIES:
        (root / directory[1:]).mkdir(parents=True)
    for (directory, name), text in files.items():
        write(root, f"{directory}/{name}", text)
    write(root, "/etc/sysctl.conf", sysctl_conf)
    for key in (*KEYS, "net.ipv4.conf.lo.rp_filter", "net.ipv4.conf.all.rp_filter"):
        write(root, f"/proc/sys/{key.replace('.', '/')}", "0\n")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=_FILES, sysctl_conf=_TEXT, linked=st.booleans())
def test_a_simulated_boot_is_what_systemd_sysctl_does(
    tmp_path: Path, files: Mapping[tuple[str, str], str], sysctl_conf: str, linked: bool
) -> None:
    """Each write in its order, because the kernel lets the last one of a pair win."""
    needs(SYSTEMD_SYSCTL, "/etc/sysctl.conf" if not Path("/etc/sysctl.conf").exists() else "sh")
    root = tmp_path / "tree"
    _tree(root, files, sysctl_conf)
    write(root, "/usr/lib/systemd/systemd-sysctl", "")
    if linked:
        (root / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    # It ends with status 1 for a line that it ignores.
    script = f"{IN_ITS_PLACE}\nSYSTEMD_LOG_LEVEL=debug {SYSTEMD_SYSCTL} 2>&1 || :"
    found = re.findall(r"Setting '/proc/sys/(.*)' to '(.*)'", inside(script, TREE=root))
    made = [item for item in simulate_boot(HostFiles(root)).assignments if not item.idle]
    last = {item.key: number for number, item in enumerate(made)}
    expected = [(item.key, item.value) for number, item in enumerate(made) if last[item.key] == number]
    assert expected == [(key.replace("/", "."), " ".join(value.split())) for key, value in found]


@pytest.mark.parametrize("named_first", [True, False])
def test_a_pattern_is_taken_as_systemd_sysctl_takes_it(tmp_path: Path, named_first: bool) -> None:
    needs(SYSTEMD_SYSCTL)
    named, pattern = "net.ipv4.conf.lo.rp_filter = 1", "net.ipv4.conf.*.rp_filter = 2"
    texts = (named, pattern) if named_first else (pattern, named)
    files = {("/etc/sysctl.d", f"{number}0-a.conf"): text for number, text in enumerate(texts, start=1)}
    _tree(tmp_path, files, "")
    write(tmp_path, "/usr/lib/systemd/systemd-sysctl", "")
    read = "cd /proc/sys/net/ipv4/conf; cat lo/rp_filter all/rp_filter"
    shown = inside(f"{IN_ITS_PLACE}\n{SYSTEMD_SYSCTL}\n{read}", TREE=tmp_path)
    expected = simulate_boot(HostFiles(tmp_path)).settings()
    assert shown.split() == [expected[f"net.ipv4.conf.{interface}.rp_filter"] for interface in ("lo", "all")]


def _plain_paths(text: str) -> str:
    return re.sub("^/|(?<=/)/", "", text, flags=re.MULTILINE)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=_FILES, sysctl_conf=_TEXT)
def test_a_simulated_boot_without_systemd_is_what_sysctl_does(
    tmp_path: Path, files: Mapping[tuple[str, str], str], sysctl_conf: str
) -> None:
    needs("sysctl", "/etc/sysctl.conf" if not Path("/etc/sysctl.conf").exists() else "sh")
    root = tmp_path / "tree"
    # sysctl does not see that /vm//x, which it writes, is the vm/x that a pattern stands for.
    texts = {place: _plain_paths(text) for place, text in files.items()}
    _tree(root, texts, _plain_paths(sysctl_conf))
    # In this order: procps-ng 4.0.2 writes at --system when it has not met --dry-run before.
    shown = inside(f"{IN_ITS_PLACE}\nsysctl --dry-run --system", TREE=root)
    found = re.findall(r"^(\S+) = (.*)$", shown, re.MULTILINE)
    expected = [(item.key, item.value) for item in simulate_boot(HostFiles(root)).assignments]
    assert expected == [(".".join(filter(None, key.split("."))), " ".join(value.split())) for key, value in found]


def test_systemd_mounts_and_swaps_as_the_edited_fstab_says(tmp_path: Path) -> None:
    if not FSTAB_GENERATOR.exists():
        pytest.skip(f"needs {FSTAB_GENERATOR}")
    text = "# disks\nUUID=1\t/data\\040one ext4 defaults,relatime 0 2\n/dev/vdz9 none swap sw 0 0\n"
    entry = fstab.find_mount(text, "/data one")
    assert entry is not None
    options = fstab.changed_options(entry.options, "noatime", ("relatime",))
    edited = fstab.commented_out(fstab.with_options(text, entry, options), fstab.swap_entries(text))

    def units(name: str, fstab_text: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        table = write(tmp_path, f"/{name}.fstab", fstab_text)
        environment = {**os.environ, "SYSTEMD_FSTAB": str(table), "SYSTEMD_PROC_CMDLINE": ""}
        subprocess.run([FSTAB_GENERATOR, *[folder] * 3], env=environment, check=True, capture_output=True)
        return folder

    after = units("after", edited)
    unit = (after / f"{systemd.escape_path('/data one')}.mount").read_text()
    assert "\nOptions=defaults,noatime\n" in unit
    assert not list(after.rglob("*.swap"))
    assert "vdz9" not in edited.replace(f"{fstab.MARK}/dev/vdz9", "")


def test_findmnt_finds_nothing_wrong_with_the_edited_fstab(tmp_path: Path) -> None:
    text = "tmpfs /tmp tmpfs defaults 0 0\n"
    entry = fstab.find_mount(text, "/tmp")
    assert entry is not None
    edited = fstab.with_options(text, entry, ("defaults", "noatime")) + f"{fstab.MARK}/swapfile none swap sw 0 0\n"
    table = write(tmp_path, "/fstab", edited)
    done = subprocess.run(["findmnt", "--verify", "--tab-file", table], capture_output=True, text=True, check=False)
    assert (done.returncode, "0 parse errors" in done.stdout or "Success" in done.stdout) == (0, True), done.stdout


# Bytes as an administrator's editor may have left them: escapes, quotes, tabs, Latin-1, UTF-8, carriage returns.
_PARTS = (
    *("/", "/data", "//data/", "/a\\040b", "/caf\\351", "/caf\udce9", "/café", "none", "swap", "ext4", "UUID=1f"),
    *('LABEL="x"', "/dev/vdb", "defaults", "bind,ro", "a\vb", "\f", "0", "2", "#", "# remark", "\r"),
)
_PART = st.sampled_from(_PARTS)
_FSTAB_LINE = st.builds(
    lambda start, parts: start + "".join(part + blank for part, blank in parts),
    st.sampled_from(["", " ", "\t", "#"]),
    st.lists(st.tuples(_PART, st.sampled_from([" ", "\t", "  ", ""])), max_size=7),
)
_FSTAB = st.builds(
    lambda lines, end: "\n".join(lines) + end, st.lists(_FSTAB_LINE, max_size=5), st.sampled_from(["", "\n"])
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_FSTAB)
def test_fstab_is_read_as_mount_reads_it(tmp_path: Path, text: str) -> None:
    table = tmp_path / "fstab"
    table.write_bytes(text.encode(errors="surrogateescape"))
    command = ("findmnt", "--fstab", "--tab-file", str(table), "--pairs", "--output", "SOURCE,TARGET,FSTYPE,OPTIONS")
    shown = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False)
    ignored = {int(number) for number in re.findall(r"parse error at line (\d+)", shown.stderr)}
    rows = [tuple(map(_shown, re.findall(r'="([^"]*)"', line))) for line in shown.stdout.splitlines()]
    expected = [(source.replace('"', ""), *others) for source, *others in rows]
    found = [
        (entry.source, entry.mount_point, entry.filesystem, _options_of(entry))
        for entry in fstab.parse(text)
        if entry.line + 1 not in ignored
    ]
    assert found == expected


def _options_of(entry: fstab.FstabEntry) -> str:
    """Options of an entry stay as they are in the file, so that they can be written back."""
    return fstab.unescaped(",".join(entry.options)) if entry.options_span[0] < entry.options_span[1] else ""


def _shown(text: str) -> str:
    """What findmnt wrote with its escapes, as our parser has it."""
    raw = re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode())
    return raw.decode(errors="surrogateescape")


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"LimitNOFILE": "100000:524288", "LimitMEMLOCK": "infinity", "TasksMax": "8192"}, ""),
        ({"OOMScoreAdjust": "-900", "MemorySwapMax": "0", "IOWeight": "500", "CPUAffinity": "0-3,8"}, ""),
        ({"TasksMx": "8192"}, "Unknown key 'TasksMx'"),
    ],
)
def test_systemd_understands_our_drop_ins(tmp_path: Path, properties: dict[str, str], complaint: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = write(tmp_path, "/x.service", "[Service]\nExecStart=/bin/true\n")
    write(tmp_path, "/x.service.d/90-highwater.conf", systemd.with_settings(None, "Service", properties) or "")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = "".join(line for line in done.stderr.splitlines() if str(tmp_path) in line)
    assert (complaint in complaints) if complaint else complaints == ""


def test_systemd_takes_an_empty_unit_for_a_masked_one(tmp_path: Path) -> None:
    if shutil.which("systemctl") is None:
        pytest.skip("needs systemctl")
    write(tmp_path, "/usr/lib/systemd/system/swapfile.swap", "[Swap]\nWhat=/swapfile\n")
    write(tmp_path, systemd.mask("swapfile.swap"), "")
    done = subprocess.run(
        ["systemctl", f"--root={tmp_path}", "is-enabled", "swapfile.swap"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "masked"


@pytest.mark.parametrize("path", ["/dev/disk/by-uuid/1-2", "/data", "/mnt/a b", "/.hidden/é"])
def test_systemd_gives_paths_the_same_names(path: str) -> None:
    if shutil.which("systemd-escape") is None:
        pytest.skip("needs systemd-escape")
    done = subprocess.run(["systemd-escape", "--path", path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == systemd.escape_path(path)


def test_systemd_writes_what_our_tmpfiles_say(tmp_path: Path) -> None:
    if shutil.which("systemd-tmpfiles") is None:
        pytest.skip("needs systemd-tmpfiles")
    path = "/sys/kernel/mm/transparent_hugepage/defrag"
    written = write(tmp_path, path, "always\n")
    configuration = write(tmp_path, tmpfiles.MANAGED_FILE, tmpfiles.with_writes(None, {path: "defer+madvise"}) or "")
    subprocess.run(["systemd-tmpfiles", f"--root={tmp_path}", "--create", configuration], check=True)
    assert written.read_text().strip() == "defer+madvise"


def test_udev_would_write_what_our_rules_say(tmp_path: Path) -> None:
    needs("udevadm")
    disk = next((path for path in sorted(Path("/sys/block").iterdir()) if (path / "queue/nomerges").exists()), None)
    if disk is None:
        pytest.skip("needs a block device")
    rules = [
        udev.Rule(udev.disk_match(disk.name, {}), "queue/nomerges", "2"),
        udev.Rule(udev.disk_match("another", {}), "queue/rq_affinity", "2"),
    ]
    write(tmp_path, "/90-highwater.rules", udev.with_rules(None, rules) or "")
    # udevadm test writes attributes in earnest: /sys is made read-only for it first.
    shown = inside(
        "mount --make-rprivate /; mount -o remount,bind,ro /sys; mount --bind $RULES /etc/udev/rules.d; "
        "udevadm test --action=add $DISK 2>&1 || true",
        RULES=tmp_path,
        DISK=disk,
    )
    assert "90-highwater.rules" in shown
    assert "queue/nomerges' writing '2'" in shown
    assert "rq_affinity" not in shown


def test_a_login_gets_our_limits(tmp_path: Path) -> None:
    needs("su")
    if "pam_limits" not in Path("/etc/pam.d/su").read_text():
        pytest.skip("needs su to go through pam_limits")
    entry, bounds = limits_d.LimitsEntry("*", "nofile"), limits_d.Limits("4321", "5432")
    write(tmp_path, "/90-highwater.conf", limits_d.with_limits(None, {entry: bounds}) or "")
    write(tmp_path, "/95-site.conf", "* soft nofile 4000\n")
    shown = inside(
        "mount --make-rprivate /; mount --bind $LIMITS /etc/security/limits.d; "
        "su -s /bin/sh nobody -c 'ulimit -Sn; ulimit -Hn'",
        LIMITS=tmp_path,
    )
    assert shown.split() == ["4000", "5432"], "the last file by name wins"

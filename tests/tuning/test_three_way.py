"""Values by their meaning, and what would be here had we never come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.tuning.resources import remount_options
from highwater.tuning.steps import Resource
from highwater.tuning.three_way import compare, merge_lines, normalized

SETTING = Resource("setting", ("/proc/sys/vm/swappiness",))
MOUNT = Resource("mount", ("/data",))
FILE = Resource("file", ("/etc/fstab",))


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n", "4096 131072  6291456"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never", "madvise"),
        ("/sys/block/sda/queue/scheduler", "[none] mq-deadline", "none"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,0000000F", "f"),
        ("/proc/irq/24/smp_affinity", "00", "0"),
        ("/proc/irq/24/smp_affinity_list", "0-3,8", "0,1,2-3,8"),
        ("/sys/block/sda/queue/read_ahead_kb", "4098", "4096"),
        ("/sys/module/zswap/parameters/enabled", "N", "0"),
    ],
)
def test_the_same_in_other_words(path: str, one: str, other: str) -> None:
    assert normalized(path, one) == normalized(path, other)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456", "4096 131072 6291457"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "f0", "f"),
        ("/proc/irq/24/smp_affinity_list", "0-3", "0-4"),
        ("/proc/irq/24/smp_affinity_list", "none", ""),
        ("/sys/block/sda/queue/nr_requests", "4098", "4096"),
    ],
)
def test_something_else(path: str, one: str, other: str) -> None:
    assert normalized(path, one) != normalized(path, other)


def setting(text: str) -> dict[str, str]:
    return {SETTING.names[0]: text}


@pytest.mark.parametrize(
    ("now", "standing", "separable"),
    [("60", "back", True), ("1", "in_force", True), ("2", "in_force", True), ("40", "drifted", False)],
)
def test_a_setting_three_ways(now: str, standing: str, separable: bool) -> None:
    found = compare(SETTING, setting("60"), (setting("2"), setting("1")), setting(now))
    assert (found.standing, found.separable) == (standing, separable)
    assert found.restored == setting("60" if separable else now)


def test_a_device_that_is_gone() -> None:
    assert compare(SETTING, setting("60"), (setting("1"),), None).standing == "gone"
    assert compare(MOUNT, {"options": "rw"}, ({"options": "rw,noatime"},), None).standing == "gone"


@pytest.mark.parametrize(
    ("now", "standing", "restored"),
    [
        ("rw,noatime,commit=30", "in_force", "rw,relatime"),
        ("rw,noatime,commit=30,nosuid", "in_force", "rw,nosuid,relatime"),
        ("rw,relatime,nosuid", "back", "rw,relatime,nosuid"),
        ("rw,noatime", "drifted", "rw,noatime"),
    ],
)
def test_a_mount_three_ways(now: str, standing: str, restored: str) -> None:
    original, ours = {"options": "rw,relatime"}, {"options": "rw,noatime,commit=30"}
    found = compare(MOUNT, original, (ours,), {"options": now})
    assert (found.standing, found.restored) == (standing, {"options": restored})


@pytest.mark.parametrize(
    ("present", "wanted", "given"),
    [
        ("rw,nosuid,relatime", "rw,nosuid,noatime", "rw,nosuid,noatime"),
        ("rw,noatime", "rw,relatime", "rw,relatime"),
        ("rw,noatime", "rw", "rw,strictatime"),
        ("rw,relatime,commit=30", "rw,relatime", "rw,relatime,commit=0"),
        ("rw,relatime,commit=30", "rw,relatime,commit=15", "rw,relatime,commit=15"),
        ("rw,relatime,discard,data=ordered", "rw,noatime,data=ordered", "rw,noatime,nodiscard"),
        ("rw,relatime", "rw,relatime,nodelalloc", "rw,relatime,nodelalloc"),
        ("rw,relatime,nodelalloc", "rw,relatime", "rw,relatime,delalloc"),
    ],
)
def test_what_a_remount_is_given(present: str, wanted: str, given: str) -> None:
    assert remount_options(present.split(","), wanted.split(",")) == given.split(",")


@pytest.mark.parametrize(
    ("base", "theirs", "wanted", "merged"),
    [
        ("a\nours\nb\n", "a\nours\nb\nadmin\n", "a\nb\n", "a\nb\nadmin\n"),
        ("a\nours\nb\n", "admin\na\nours\nb\n", "a\nold\nb\n", "admin\na\nold\nb\n"),
        ("ours\n", "ours\nadmin\n", "", "admin\n"),
        ("a\nb\n", "a\nb\n", "a\n", "a\n"),
        ("a\nours\n", "a\nold\n", "a\nold\n", "a\nold\n"),
        ("a\nours\nb\n", "a\ntheirs\nb\n", "a\nold\nb\n", None),
        ("a\nb\n", "a\nadmin\nb\n", "a\nold\nb\n", None),
        ("a\r\nours\r\n", "a\r\nours\r\nadmin\r\n", "a\r\n", "a\r\nadmin\r\n"),
    ],
)
def test_lines_of_two_are_put_together(base: str, theirs: str, wanted: str, merged: str | None) -> None:
    assert merge_lines(base, theirs, wanted) == merged


lines = st.lists(st.sampled_from(("a\n", "b\n", "c\n", "d\n", "e\n")), max_size=8).map("".join)


@given(lines, lines)
def test_with_no_change_of_others_the_wanted_text_comes_back(base: str, wanted: str) -> None:
    assert merge_lines(base, base, wanted) == wanted
    assert merge_lines(base, wanted, base) == wanted
    assert merge_lines(base, wanted, wanted) == wanted


def test_a_file_made_by_us_goes_with_its_last_line_of_ours() -> None:
    ours = {"text": "# ours\nvm.swappiness = 1\n"}
    found = compare(FILE, None, (ours,), {"text": "# ours\nvm.swappiness = 1\n\n"})
    assert (found.standing, found.restored, found.separable) == ("drifted", None, True)
    assert not compare(FILE, None, (ours,), {"text": "# ours\nvm.swappiness = 5\n"}).separable

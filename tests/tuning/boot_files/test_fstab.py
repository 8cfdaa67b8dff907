"""/etc/fstab edited in place: what is meant changes, all else stays byte for byte, and every edit has its way back."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.tuning.boot_files import fstab
from highwater.tuning.errors import TuningError

FSTAB = (
    "# /etc/fstab: static file system information.\n"
    "\n"
    "UUID=1f  /            ext4\terrors=remount-ro 0       1\n"
    "UUID=2f\t/data\\040one  xfs   defaults,nofail\t0 2 # by hand\n"
    "/dev/sdb1 /data2 ext4\n"
    "UUID=3f none swap sw 0 0\n"
    "/swapfile none swap sw,noauto 0 0\n"
    "  /swap2\tswap\tswap\tdefaults 0 0"
)


def _entry(text: str, mount_point: str) -> fstab.FstabEntry:
    entry = fstab.find_mount(text, mount_point)
    assert entry is not None
    return entry


def test_lines_are_read_as_mount_reads_them() -> None:
    entry = _entry(FSTAB, "/data one")
    assert (entry.source, entry.filesystem, entry.options) == ("UUID=2f", "xfs", ("defaults", "nofail"))
    assert _entry(FSTAB, "/data2/").options == ("defaults",)
    assert fstab.find_mount(FSTAB, "/elsewhere") is None
    assert fstab.find_mount(FSTAB, "none") is None


def test_only_the_options_of_one_line_change() -> None:
    text = fstab.with_options(FSTAB, _entry(FSTAB, "/data one"), ("defaults", "nofail", "noatime"))
    assert text == FSTAB.replace("defaults,nofail\t0", "defaults,nofail,noatime\t0")
    without = fstab.with_options(FSTAB, _entry(FSTAB, "/data2"), ("defaults", "noatime"))
    assert without == FSTAB.replace("/data2 ext4\n", "/data2 ext4 defaults,noatime\n")


def test_only_the_source_of_one_line_changes() -> None:
    text = fstab.with_source(FSTAB, _entry(FSTAB, "/data2"), "UUID=4f")
    assert text == FSTAB.replace("/dev/sdb1 ", "UUID=4f ")


@pytest.mark.parametrize(
    ("options", "wanted", "family", "changed"),
    [
        ("defaults", "noatime", ("relatime", "noatime"), "defaults,noatime"),
        ("rw,relatime,discard", "noatime", ("relatime", "noatime"), "rw,noatime,discard"),
        ("noatime,rw", "noatime", ("relatime", "noatime"), "noatime,rw"),
        ("rw,relatime,strictatime", "noatime", ("relatime", "strictatime"), "rw,noatime"),
        ("rw,commit=5,errors=panic", "commit=30", ("commit=",), "rw,commit=30,errors=panic"),
    ],
)
def test_an_option_takes_the_place_of_its_kind(
    options: str, wanted: str, family: tuple[str, ...], changed: str
) -> None:
    assert ",".join(fstab.changed_options(tuple(options.split(",")), wanted, family)) == changed


def test_swap_is_commented_out_and_in_again() -> None:
    entries = fstab.swap_entries(FSTAB)
    assert [entry.source for entry in entries] == ["UUID=3f", "/swap2"], "what is not mounted at boot stays"
    text = fstab.commented_out(FSTAB, entries)
    assert f"\n{fstab.MARK}UUID=3f none swap sw 0 0\n" in text
    assert text.endswith(f"\n{fstab.MARK}  /swap2\tswap\tswap\tdefaults 0 0")
    assert not fstab.swap_entries(text)
    assert text.replace(fstab.MARK, "") == FSTAB


def test_a_directory_mounted_twice_is_not_guessed_about() -> None:
    with pytest.raises(TuningError, match="mounts /data in lines 1 and 2; leave one of them"):
        fstab.find_mount("UUID=1 /data ext4\nUUID=2 /data/ ext4\n", "/data")


_FIELD = st.text(string.ascii_letters + string.digits + "/=-,.\\", min_size=1, max_size=12)
_BLANK = st.text(" \t", min_size=1, max_size=3)
_KIND = st.sampled_from(["swap", "ext4", "xfs"])
_LINE = st.one_of(
    st.text(string.printable.replace("\n", ""), max_size=30).filter(lambda line: not line.startswith(fstab.MARK)),
    st.builds(
        lambda blank, *fields: blank.join(fields),
        _BLANK,
        _FIELD,
        _FIELD,
        _KIND,
        _FIELD,
    ),
)
_TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(_LINE, max_size=8), st.sampled_from(["", "\n"]))


def _commented_in(text: str) -> str:
    return "\n".join(line.removeprefix(fstab.MARK) for line in text.split("\n"))


@given(_TEXT)
def test_every_edit_has_its_way_back(text: str) -> None:
    assert _commented_in(fstab.commented_out(text, fstab.swap_entries(text))) == text
    for entry in fstab.parse(text):
        raw_source = text.split("\n")[entry.line][slice(*entry.source_span)]
        moved = fstab.with_source(text, entry, "UUID=1")
        (there,) = [other for other in fstab.parse(moved) if other.line == entry.line]
        assert there.source == "UUID=1"
        assert fstab.with_source(moved, there, raw_source) == text
        start, end = entry.options_span
        if end > start:
            changed = fstab.with_options(text, entry, (*entry.options, "noatime"))
            (there,) = [other for other in fstab.parse(changed) if other.line == entry.line]
            assert there.options == (*entry.options, "noatime")
            assert fstab.with_options(changed, there, entry.options) == text


@given(_TEXT)
def test_reading_changes_nothing(text: str) -> None:
    entries = list(fstab.parse(text))
    assert fstab.commented_out(text, []) == text
    assert all(entry.line < len(text.split("\n")) for entry in entries)

"""A manifest that was read once is read again when another file has its place."""

from __future__ import annotations

from pathlib import Path

from highwater.studies.lake.manifest import Group, Manifest


def group(month: str) -> Group:
    return Group("environment", month, (), ())


def test_a_line_is_read_where_the_file_has_grown(tmp_path: Path) -> None:
    reader, writer = Manifest(tmp_path), Manifest(tmp_path)
    reader.create()
    for month in ("2026-01", "2026-02"):
        with writer.locked():
            writer.append(group(month))
        assert [each.month for each in reader.groups()][-1] == month
    assert len(reader.groups()) == 2


def test_another_manifest_is_noticed_also_with_the_inode_number_of_the_first_one(tmp_path: Path) -> None:
    reader, writer = Manifest(tmp_path), Manifest(tmp_path)
    reader.create()
    writer.replace([group("2026-01")])
    assert [each.month for each in reader.groups()] == ["2026-01"]
    path = tmp_path / "manifest.jsonl"
    first = path.stat().st_ino
    # A file system gives the number of a file that is gone to one of the next, often to the next but one.
    for number in range(20):
        writer.replace([group(f"2027-{number:02}")])
        if path.stat().st_ino == first:
            break
    assert [each.month for each in reader.groups()] == [f"2027-{number:02}"]

"""The client of the bare loop: what it writes for the loop to read."""

from __future__ import annotations

from pathlib import Path

from highwater.bench.systems.bare_loop import BareLoopClient


def test_the_loop_never_finds_its_number_of_partitions_half_written(tmp_path: Path) -> None:
    """A loop that read an empty file ended, and clients were refused."""
    client = BareLoopClient("127.0.0.1:1", tmp_path)
    client.create_topic("first", 2, {})
    with (tmp_path / "partitions").open(encoding="ascii") as read_meanwhile:
        client.create_topic("second", 3, {})
        assert read_meanwhile.read() == "2\n"
    assert (tmp_path / "partitions").read_text("ascii") == "3\n"

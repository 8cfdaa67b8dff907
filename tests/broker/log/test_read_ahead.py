"""How far is read ahead: little for a single read, more and more for a reader that goes on."""

from __future__ import annotations

from pathlib import Path

from highwater.broker.log.files import FilePiece
from highwater.broker.log.read_ahead import MAX_BYTES, MOST_FILES, ReadAhead

MIB = 1 << 20
FILE = Path("/logs/t-0/00000000000000000000.log")


def mib(position: int, size: int = 1, path: Path = FILE) -> FilePiece:
    return FilePiece(path, position * MIB, size * MIB)


def test_a_first_read_is_followed_by_as_much_again() -> None:
    assert ReadAhead().after(mib(5)) == mib(6)


def test_a_reader_that_goes_on_has_all_before_it_read_once() -> None:
    ahead = ReadAhead()
    read_to = 0
    for position in range(200):
        piece = ahead.after(mib(position))
        if piece is None:
            continue
        assert position == 0 or piece.position == read_to
        assert piece.size <= MAX_BYTES
        read_to = piece.position + piece.size
        assert read_to > (position + 1) * MIB
    assert piece is None or piece.size == MAX_BYTES
    assert read_to >= (200 + MAX_BYTES // 2 // MIB) * MIB


def test_the_reader_may_go_on_at_the_end_of_what_was_read_ahead() -> None:
    ahead = ReadAhead()
    ahead.after(mib(0))
    assert ahead.after(mib(2)) == mib(3, 2)
    assert ahead.after(mib(5)) == mib(6, 4)


def test_a_reader_elsewhere_begins_anew() -> None:
    ahead = ReadAhead()
    ahead.after(mib(0))
    ahead.after(mib(2))
    assert ahead.after(mib(500)) == mib(501)
    assert ahead.after(mib(1)) == mib(2)


def test_files_do_not_touch_each_other_and_are_forgotten() -> None:
    ahead = ReadAhead()
    for number in range(MOST_FILES + 1):
        path = Path(f"/logs/t-{number}/00000000000000000000.log")
        assert ahead.after(mib(0, path=path)) == mib(1, path=path)
    assert ahead.after(mib(2, path=path)) == mib(3, 2, path)
    assert ahead.after(mib(2, path=Path("/logs/t-0/00000000000000000000.log"))) == mib(
        3, path=Path("/logs/t-0/00000000000000000000.log")
    )
    assert len(ahead._claims) == MOST_FILES

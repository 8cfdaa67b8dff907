"""The threads that bring pieces of files into the page cache: who is called back, and what ends them."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from highwater.broker.log.files import FileOperations, FilePiece
from highwater.broker.server.cold_reads import MOST_READS_AHEAD, READ_THREADS, ColdReads
from tests.waiting import until

DEADLINE_S = 30.0


def a_piece(number: int = 0, size: int = 1000) -> FilePiece:
    return FilePiece(Path(f"/logs/t-{number}/00000000000000000000.log"), 0, size)


class Disk:
    """Files of which only reading into the cache is asked."""

    def __init__(self) -> None:
        self.pieces: list[FilePiece] = []
        self.threads: set[int] = set()
        self.failure: OSError | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def bring_into_cache(self, piece: FilePiece) -> None:
        self.threads.add(threading.get_ident())
        self.pieces.append(piece)
        assert self.may_go_on.wait(DEADLINE_S)
        if self.failure is not None:
            raise self.failure


def run(disk: Disk, work: Callable[[ColdReads, list[OSError | None]], Any]) -> list[OSError | None]:
    """What was called back until the reads are closed; `work` may return something to wait for."""
    called: list[OSError | None] = []

    async def main() -> None:
        reads = ColdReads(asyncio.get_running_loop(), cast(FileOperations, disk))
        try:
            await work(reads, called)
        finally:
            disk.may_go_on.set()
            reads.close()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cold-read")]
    return called


def test_pieces_are_read_in_a_thread_and_told_on_the_loop() -> None:
    disk = Disk()

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        def done(failure: OSError | None) -> None:
            assert threading.get_ident() == here
            called.append(failure)

        here = threading.get_ident()
        reads.bring([a_piece(0), a_piece(1)], done)
        assert called == []
        await until(lambda: bool(called))
        assert here not in disk.threads

    assert run(disk, work) == [None]
    assert disk.pieces == [a_piece(0), a_piece(1)]


def test_a_failure_is_told_and_ends_the_work_on_these_pieces() -> None:
    disk = Disk()
    disk.failure = OSError(errno.EIO, "Input/output error")

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        reads.bring([a_piece(0), a_piece(1)], called.append)
        await until(lambda: bool(called))

    assert run(disk, work) == [disk.failure]
    assert disk.pieces == [a_piece(0)]


def test_a_file_that_is_gone_is_no_failure() -> None:
    disk = Disk()
    disk.failure = FileNotFoundError(errno.ENOENT, "No such file or directory")

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        reads.bring([a_piece(0), a_piece(1)], called.append)
        await until(lambda: bool(called))

    assert run(disk, work) == [None]
    assert disk.pieces == [a_piece(0), a_piece(1)]


def test_the_same_pieces_are_read_once_for_all_who_wait() -> None:
    disk = Disk()

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        disk.may_go_on.clear()
        for _ in range(50):
            reads.bring([a_piece(0), a_piece(1)], called.append)
        await until(lambda: bool(disk.pieces))
        disk.may_go_on.set()
        await until(lambda: len(called) == 50)
        reads.bring([a_piece(0), a_piece(1)], called.append)
        await until(lambda: len(called) == 51)

    run(disk, work)
    assert disk.pieces == [a_piece(0), a_piece(1)] * 2


def test_reads_ahead_leave_threads_to_what_fetches_wait_for() -> None:
    disk = Disk()

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        disk.may_go_on.clear()
        for number in range(20):
            reads.bring([a_piece(number)], called.append)
        await until(lambda: len(disk.pieces) == READ_THREADS)
        disk.may_go_on.set()
        await until(lambda: len(called) == 20)

    run(disk, work)
    ahead = [piece for piece in disk.pieces if piece.position > 0]
    assert ahead[0] == FilePiece(a_piece().path, 1000, 1000)
    assert len(ahead) == MOST_READS_AHEAD < READ_THREADS


def test_a_failure_of_a_read_ahead_is_told_to_nobody() -> None:
    disk = Disk()

    class Ahead(Disk):
        def bring_into_cache(self, piece: FilePiece) -> None:
            super().bring_into_cache(piece)
            if piece.position > 0:
                raise OSError(errno.EIO, "Input/output error")

    disk = Ahead()

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        reads.bring([a_piece(0)], called.append)
        await until(lambda: bool(called) and len(disk.pieces) == 2)

    assert run(disk, work) == [None]


def test_the_end_drops_what_waits_and_calls_nobody() -> None:
    disk = Disk()

    async def work(reads: ColdReads, called: list[OSError | None]) -> None:
        disk.may_go_on.clear()
        for number in range(100):
            reads.bring([a_piece(number)], called.append)
        await until(lambda: len(disk.pieces) == READ_THREADS)
        threading.Timer(0.05, disk.may_go_on.set).start()
        reads.close()
        reads.bring([a_piece(0)], called.append)

    assert run(disk, work) == []
    assert len(disk.pieces) == READ_THREADS

"""What a broker, or something before it, may do to records without saying so: one class for each kind."""

from __future__ import annotations

import threading
import time
from typing import Final

from tests.broker.proxy import Lie, Link
from tests.drills.lying_broker.batches import (
    Batch,
    batches,
    flip_last_value,
    forget_producer,
    mend_crc,
    move_offset,
)

PRODUCE: Final = 0
FETCH: Final = 1
END_TXN: Final = 26
STALL_S: Final = 0.4
_HELD_AT_MOST_S: Final = 0.2
_EARLIER: Final = -1_000_000


class EveryFew(Lie):
    """Lies at every n-th request or answer with records, and not at the first ones."""

    every = 20

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0
        self._count = threading.Lock()

    def due(self) -> bool:
        with self._count:
            self._seen += 1
            if self._seen % self.every:
                return False
            self.told += 1
            return True


class Swallowed(EveryFew):
    """Acknowledged, and thrown away."""

    def request(self, link: Link, api: int, frame: bytes) -> None:
        if api == PRODUCE and PRODUCE in link.last_answer and self.due():
            link.answer_instead(frame, link.last_answer[PRODUCE])
        else:
            link.to_broker(frame)


class ChangedWhenStored(EveryFew):
    """A bit of a value is another one in the log, under a checksum that is right."""

    def request(self, link: Link, api: int, frame: bytes) -> None:
        changed = bytearray(frame)
        if api == PRODUCE and (found := list(batches(frame))) and self.due():
            self.change(changed, found[0])
        link.to_broker(bytes(changed))

    def change(self, frame: bytearray, batch: Batch) -> None:
        flip_last_value(frame, batch)
        mend_crc(frame, batch)


class ChangedWhenRead(EveryFew):
    """A bit of a value is another one in what consumers get."""

    every = 5

    def answer(self, link: Link, api: int, frame: bytes) -> None:
        changed = bytearray(frame)
        if api == FETCH and (found := list(batches(frame))) and self.due():
            flip_last_value(changed, found[0])
            mend_crc(changed, found[0])
        link.to_client(bytes(changed))


class HiddenWhenRead(EveryFew):
    """Batches that the log holds and no consumer gets: their offsets are told as long gone by."""

    every = 3

    def answer(self, link: Link, api: int, frame: bytes) -> None:
        changed = bytearray(frame)
        if api == FETCH and len(found := list(batches(frame))) > 1 and self.due():
            move_offset(changed, found[0], _EARLIER)
        link.to_client(bytes(changed))


class StoredTwice(EveryFew):
    """Written once more, as a batch of nobody's, so that no idempotence helps."""

    def request(self, link: Link, api: int, frame: bytes) -> None:
        link.to_broker(frame)
        if api == PRODUCE and (found := list(batches(frame))) and self.due():
            again = bytearray(frame)
            forget_producer(again, found[0])
            link.to_broker_unseen(bytes(again))


class Held(EveryFew):
    """A batch waits until the next one comes, for a moment at most."""

    goes_first = False
    """Whether the batch that waited goes to the broker before the next one, as it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self._held: tuple[Link, bytes] | None = None
        self._order = threading.Lock()

    def request(self, link: Link, api: int, frame: bytes) -> None:
        if api != PRODUCE or not (found := list(batches(frame))):
            link.to_broker(frame)
            return
        with self._order:
            if self._held is None and self.due():
                self._held = (link, self.changed(frame, found[0]))
                threading.Timer(_HELD_AT_MOST_S, self._let_go).start()
                return
        if self.goes_first:
            self._let_go()
        link.to_broker(frame)
        self._let_go()

    def changed(self, frame: bytes, batch: Batch) -> bytes:
        """What goes to the broker in the place of the frame that waited."""
        return frame

    def _let_go(self) -> None:
        with self._order:
            if self._held is not None:
                link, frame = self._held
                self._held = None
                link.to_broker(frame)


class Reordered(Held):
    """A batch lands behind the one that was sent after it."""


class DamagedOnTheWay(Held):
    """A bit is flipped under the client's checksum: an honest broker refuses the batch, when the next is under way."""

    goes_first = True

    def changed(self, frame: bytes, batch: Batch) -> bytes:
        damaged = bytearray(frame)
        flip_last_value(damaged, batch)
        return bytes(damaged)


class Stalled(EveryFew):
    """The truth, late: everything on the producer's connection waits now and then."""

    every = 100

    def request(self, link: Link, api: int, frame: bytes) -> None:
        if api == PRODUCE and self.due():
            time.sleep(STALL_S)
        link.to_broker(frame)


class Transactions(EveryFew):
    """Changes how every few transactions end, or lets them have no end."""

    every = 4
    ends: bool | None = None
    """What is made of a commit (True) or abort that was asked for; None: the request is thrown away."""
    of: bool = True

    def request(self, link: Link, api: int, frame: bytes) -> None:
        if api != END_TXN or END_TXN not in link.last_answer:
            link.to_broker(frame)
            return
        # `committed` is the last field; versions from 3 on have a byte of tags behind it.
        at = len(frame) - (2 if int.from_bytes(frame[2:4], "big") >= 3 else 1)
        if bool(frame[at]) != self.of or not self.due():
            link.to_broker(frame)
        elif self.ends is None:
            link.answer_instead(frame, link.last_answer[END_TXN])
        else:
            link.to_broker(frame[:at] + bytes([self.ends]) + frame[at + 1 :])


class AbortsCommitted(Transactions):
    ends, of, every = True, False, 1


class CommitsAborted(Transactions):
    ends, of = False, True


class CommitsForgotten(Transactions):
    ends, of = None, True

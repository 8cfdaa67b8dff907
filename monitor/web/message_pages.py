"""The message viewer: a form, and the records that were found. They are data of users, so each read is audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from highwater.monitor.actions.offsets import time_ms
from highwater.monitor.actions.plan import ActionError, text_of
from highwater.monitor.messages.reading import (
    BEGINNING,
    MOST_MESSAGES,
    NEWEST,
    NEWEST_SEARCHED,
    OFFSET,
    STARTS,
    TIME,
    MessageReader,
    Page,
    Start,
    WantedRecords,
)
from highwater.monitor.messages.records import Bytes, Message
from highwater.monitor.users import Role, User
from highwater.monitor.web import words
from highwater.monitor.web.byte_texts import FORMS, byte_text
from highwater.monitor.web.pages import render
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import address

PATH: Final = "/messages"
COUNTS: Final = ("10", "50", str(MOST_MESSAGES))
ISOLATIONS: Final = ("committed records", "all records")
_LONGEST_VALUE: Final = 4096
_LONGEST_HEADER: Final = 256
_LONGEST_KEY: Final = 1000


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    note: str = ""
    """What it is if it is no text of bytes, or how much of it is shown."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    partition: int
    offset: int
    time: str
    key: Cell
    value: Cell
    headers: tuple[tuple[str, Cell], ...]
    note: str


def address_of(call: Call, topic: str) -> str:
    """Return the address of the form for a topic; empty for a user who may not read."""
    if call.site.messages is None or call.session is None or call.session.user.role < Role.OPERATOR:
        return ""
    return address(PATH, {"topic": topic})


def form(call: Call) -> Response:
    """Asks nothing of the cluster."""
    return _page(call, call.query)


def read(call: Call) -> Response:
    user, fields = _user(call), dict(call.form)
    try:
        wanted = _wish(fields)
        # Before the first byte is read, so that a read that is interrupted is in the audit too.
        call.site.users.record(user.name, call.address, "read messages", _told(wanted))
        found = _reader(call).read(user, wanted)
    except ActionError as error:
        return _page(call, fields, str(error), status=422)
    return _page(call, fields, pages=found)


def _told(wanted: WantedRecords) -> str:
    """A key is data of users, and stays out of the audit."""
    start, where = wanted.start, "all partitions" if wanted.partition is None else str(wanted.partition)
    begin = start.kind if start.kind in (BEGINNING, NEWEST) else f"{start.kind} {start.number}"
    which = "" if wanted.key is None else " of one key"
    return f"{wanted.topic}-{where} from {begin}, {wanted.most} at most{which}"


def _wish(fields: Mapping[str, str]) -> WantedRecords:
    topic, partition, key = text_of(fields, "topic"), text_of(fields, "partition"), fields.get("key", "")
    if not topic:
        raise ActionError("Name the topic.")
    if len(key) > _LONGEST_KEY:
        raise ActionError(f"A key that is searched has {_LONGEST_KEY} characters at most.")
    if partition and not (partition.isascii() and partition.isdigit() and len(partition) < 10):
        raise ActionError(f"{partition!r} is not a number of a partition.")
    if not (partition or key):
        partition = "0"
    most = fields.get("count", COUNTS[0])
    if most not in COUNTS:
        raise ActionError(f"Say how many records: {', '.join(COUNTS)}.")
    is_committed = fields.get("isolation", ISOLATIONS[0]) == ISOLATIONS[0]
    start = _start(fields, int(most))
    return WantedRecords(
        topic, int(partition) if partition else None, start, int(most), is_committed, key.encode() or None
    )


def _start(fields: Mapping[str, str], most: int) -> Start:
    kind, text = fields.get("start", NEWEST), text_of(fields, "value")
    if kind not in STARTS:
        raise ActionError(f"Say from where: {', '.join(STARTS)}.")
    if kind == TIME:
        return Start(kind, time_ms(text))
    if kind == OFFSET:
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise ActionError(f"{text!r} is not an offset: it is a number from 0 on.")
        return Start(kind, int(text))
    return Start(kind, most)


def _page(
    call: Call, values: Mapping[str, str], problem: str = "", pages: Sequence[Page] = (), status: int = 200
) -> Response:
    form, key = values.get("as", ""), values.get("key", "")
    kept = {name: values[name] for name in ("topic", "key", "count", "isolation", "as") if values.get(name)}
    unfinished = [each for each in pages if not each.is_at_end and each.next_offset > each.first_offset]
    shown: dict[str, Any] = {
        "rows": [_row(page.partition, each, form) for page in pages for each in page.messages],
        "following": [
            {**kept, "partition": str(each.partition), "start": OFFSET, "value": str(each.next_offset)}
            for each in unfinished
        ],
        "searched": sum(each.next_offset - each.first_offset for each in pages) if key else None,
    }
    return render(
        call,
        "messages.html.j2",
        "Messages",
        status,
        section="/topics",
        values=values,
        problem=problem,
        pages=pages,
        starts=STARTS,
        newest_searched=NEWEST_SEARCHED,
        counts=COUNTS,
        isolations=ISOLATIONS,
        forms=("as it fits", *FORMS),
        **shown,
    )


def _row(partition: int, message: Message, form: str) -> MessageRow:
    notes = [f"producer {message.producer_id}"] if message.producer_id is not None else []
    if message.more_headers:
        notes.append(f"{words.count(message.more_headers)} more headers")
    at = words.clock_time(message.timestamp_ms) + (" (appended)" if message.is_append_time else "")
    headers = tuple((name, _header(value)) for name, value in message.headers)
    key, value = _cell(message.key, form), _cell(message.value, form)
    return MessageRow(partition, message.offset, at, key, value, headers, ", ".join(notes))


def _header(value: Bytes | None) -> Cell:
    """On one line: as text, or as the hexadecimal digits of its bytes."""
    if value is None or not value.size:
        return Cell("", "null" if value is None else "empty")
    form, text, cut = byte_text(value.data[:_LONGEST_HEADER], "", _LONGEST_HEADER)
    is_cut = value.size > _LONGEST_HEADER or bool(cut)
    shown = "0x" + value.data[: _LONGEST_HEADER // 2].hex() if form == "hex" else " ".join(text.split())
    return Cell(shown, f"the begin of {words.size(value.size)}" if is_cut else "")


def _cell(value: Bytes | None, form: str) -> Cell:
    if value is None:
        return Cell("", "null")
    if not value.size:
        return Cell("", "empty")
    # A text that was cut is no JSON any more, and may end within a character.
    _, text, cut = byte_text(value.data, form, _LONGEST_VALUE)
    return Cell(text, f"the begin of {words.size(value.size)}" if value.is_cut else cut)


def _reader(call: Call) -> MessageReader:
    # This route exists with the viewer alone.
    assert call.site.messages is not None
    return call.site.messages


def _user(call: Call) -> User:
    assert call.session is not None
    return call.session.user

"""Bytes as text for a page: JSON, text or hex, whichever fits or is wanted, cut with a word. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

from highwater.common.units import count_text

FORMS: Final = ("json", "text", "hex")
_HEX_ROW_BYTES: Final = 16
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that no text has."""
_HEX_CHARACTERS_PER_BYTE: Final = 5


def byte_text(data: bytes, wanted: str, longest: int) -> tuple[str, str, str]:
    """The form, the text, and how much of the data it is if it is not all; of at most about `longest` characters."""
    try:
        decoded = data.decode("utf-8")
    except UnicodeDecodeError:
        decoded = None
    indented = _indented(decoded) if decoded is not None else None
    is_text = decoded is not None and not _CONTROL.search(decoded)
    form = wanted if wanted in FORMS else "json" if indented is not None else "text" if is_text else "hex"
    if form == "hex":
        most = max(_HEX_ROW_BYTES, longest // _HEX_CHARACTERS_PER_BYTE)
        cut = f"The first {count_text(most)} of {count_text(len(data))} bytes." if len(data) > most else ""
        return form, _hex(data[:most]), cut
    text = data.decode("utf-8", "replace") if form == "text" or indented is None else indented
    if len(text) <= longest:
        return form, text, ""
    return form, text[:longest], f"The first {count_text(longest)} of {count_text(len(text))} characters."


def _indented(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else None


def _hex(data: bytes) -> str:
    rows = []
    for begin in range(0, len(data), _HEX_ROW_BYTES):
        row = data[begin : begin + _HEX_ROW_BYTES]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"{begin:08x}  {row.hex(' '):<{3 * _HEX_ROW_BYTES}} {shown}")
    return "\n".join(rows)

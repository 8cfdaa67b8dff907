"""Bytes as JSON, text or hex: whichever fits, or is asked for, cut with a word."""

from __future__ import annotations

from highwater.monitor.web.byte_texts import byte_text


def test_data_are_shown_in_the_form_that_fits() -> None:
    assert byte_text(b'{"a":1}', "", 999)[:2] == ("json", '{\n  "a": 1\n}')
    assert byte_text(b"17", "", 999)[:2] == ("text", "17")
    form, text, _ = byte_text(b"\xff\0<", "", 999)
    assert form == "hex"
    assert text == "00000000  ff 00 3c                                         ..<"
    assert byte_text(bytes(range(60)), "", 999)[0] == "hex"
    assert byte_text(b"a\tb\r\nc", "", 999)[0] == "text"
    assert byte_text(b'{"a":1}', "text", 999)[1] == '{"a":1}'
    assert byte_text(b"[" * 100_000, "json", 10)[1] == "[" * 10


def test_large_ones_are_cut_with_a_word() -> None:
    _, text, cut = byte_text(b"x" * 100_000, "text", 32 * 1024)
    assert len(text) == 32 * 1024
    assert cut == "The first 32,768 of 100,000 characters."
    _, text, cut = byte_text(b"x" * 100_000, "hex", 20_000)
    assert cut == "The first 4,000 of 100,000 bytes."
    assert len(text.splitlines()) == 250

"""Inputs that break decoders, by seed: valid ones with changes, random bytes, structures that exhaust. Pure."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Final

_DEEP: Final = 3_000
_DIGITS: Final = "9" * 5_000
_TEXTS: Final = (
    "",
    "\0",
    "\ud800",
    "\u202e\u2028\x1b[2J",
    "a" * 20_000,
    _DIGITS,
    "-1",
    "-9223372036854775809",
    "18446744073709551616",
    "1e400",
    "nan",
    "Infinity",
    "0x7f",
    "1_000",
    "010",
    "1:30",
    "null",
    "true",
    "~",
    "=1+1",
    "../../etc/passwd",
    "${HOME}",
    "%s%n",
    "٣",
)
_JSON: Final = (
    "[" * 100_000,
    "[" * _DEEP + "]" * _DEEP,
    '{"a":' * _DEEP + "1" + "}" * _DEEP,
    _DIGITS,
    "-" + _DIGITS,
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9223372036854775808",
    "1.5",
    '"\\ud800"',
    '"\\u0000"',
    '{"a":1,"a":2}',
    "[]",
    "{}",
    "null",
    "true",
    '""',
)
_YAML: Final = (
    "[" * _DEEP,
    "{a: " * _DEEP,
    "- " * _DEEP,
    "&a [*a]",
    "&a [" + "x," * 50 + "x]",
    "!!python/object/apply:os.system [id]",
    "!!binary '////'",
    "!!timestamp 9999-99-99",
    "!!float nan",
    ".inf",
    "0o17",
    "<<: *x",
    "? [a]\n: b",
    "|\n  a",
    "'",
    "\t",
    "%YAML 9.9",
    "---\n---",
    _DIGITS,
    "190:20:30",
    "~",
    "''",
)
_EDGES: Final = (0, 1, 127, 128, 255)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """`data` with one to four changes: bits flipped, bytes cut, doubled or added, numbers set to extremes."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not found:
            return bytes(found)
        at = rng.randrange(len(found))
        match rng.randrange(7):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at] = rng.choice(_EDGES)
            case 2:
                del found[at:]
            case 3:
                del found[at : at + rng.randint(1, 16)]
            case 4:
                found[at:at] = found[at : at + rng.randint(1, 64)]
            case 5:
                size = rng.choice((2, 4, 8))
                found[at : at + size] = rng.choice((b"\xff", b"\x7f", b"\x80", b"\0")) * size
            case _:
                found[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(found)


def respelled(rng: random.Random, text: str, values: Sequence[str]) -> str:
    """`text` with a value of it, of JSON or YAML, in place of which one of `values` or of hostile texts stands."""
    colons = [at for at, letter in enumerate(text) if letter == ":"]
    if not colons:
        return text
    at = rng.choice(colons) + 1
    end = at
    while end < len(text) and text[end] not in ",}]\n":
        end += 1
    value = rng.choice(values) if rng.random() < 0.7 else rng.choice(_TEXTS)
    return f"{text[:at]} {value}{text[end:]}"


def hostile_json(rng: random.Random, text: str) -> bytes:
    whole = rng.choice(_JSON) if rng.random() < 0.2 else respelled(rng, text, _JSON)
    return whole.encode("utf-8", "surrogatepass")


def hostile_yaml(rng: random.Random, text: str) -> bytes:
    whole = rng.choice(_YAML) if rng.random() < 0.2 else respelled(rng, text, _YAML)
    return whole.encode("utf-8", "surrogatepass")


def hostile_text(rng: random.Random, text: str) -> bytes:
    """Lines of it in another order, with hostile texts between, or of one word that is repeated."""
    lines = text.splitlines(keepends=True)
    rng.shuffle(lines)
    lines.insert(rng.randint(0, len(lines)), rng.choice(_TEXTS) * rng.choice((1, 1, 1, 50)))
    if rng.random() < 0.2:
        lines = [rng.choice((*string.punctuation, " ", "\t", "ab")) * 20_000]
    return "".join(lines).encode("utf-8", "surrogatepass")


def hostile_bytes(rng: random.Random, data: bytes) -> bytes:
    """Parts of `data` in another order, or the same byte many times."""
    if rng.random() < 0.3 or len(data) < 2:
        return bytes([rng.choice(_EDGES)]) * rng.choice((1, 5, 61, 4_096))
    cut, other = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    return data[other:] + data[cut:other] + data[:cut]

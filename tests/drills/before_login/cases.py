"""The cases of the drill: what one hostile connection sends, by seed and number. Pure."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

Piece = bytes | Callable[[bytes], bytes]
"""Bytes to send; or a function of what the broker has answered last, which gives them."""

SASL, SASL_TLS, TLS = "SASL_PLAINTEXT", "SASL_SSL", "SSL"
LISTENERS: Final = (SASL, SASL_TLS, TLS)
USER: Final = "honest"
_HANDSHAKE, _AUTHENTICATE, _METADATA, _API_VERSIONS = 17, 36, 3, 18
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MOST_TOKEN_BYTES: Final = 524_288
_CLIENT_HELLO: Final = bytes.fromhex(
    "16030100c8010000c40303" + "5a" * 32 + "20" + "a5" * 32 + "0008130213031301c02f"
    "01000073000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d001e001c"
    "040305030603080708080809080a080b080408050806040105010601002b0003020304002d00020101"
    "003300260024001d0020" + "77" * 32
)


class End(Enum):
    CLOSE = auto()
    """The client closes when all is sent, without waiting."""
    RESET = auto()
    """The same with a reset."""
    READ = auto()
    """The client reads until the broker closes, or for a moment."""
    HALF = auto()
    """The client shuts its side for writing, and reads."""
    HOLD = auto()
    """The client leaves the connection open as it is."""


class Case(NamedTuple):
    kind: str
    listener: str
    shakes_hands: bool
    """Whether TLS is set up before the pieces are sent, where the listener has TLS."""
    pieces: list[Piece]
    pause_s: float
    """Between pieces."""
    end: End


def case_of(seed: int, number: int) -> Case:
    chance = random.Random(f"{seed}:{number}")
    kind = chance.choice(tuple(_KINDS))
    listener = chance.choice(LISTENERS if kind in _FOR_EACH else LISTENERS[:2])
    shakes_hands = kind not in ("tls", "plain to tls")
    if not shakes_hands:
        listener = chance.choice(LISTENERS[1:])
    pieces = _KINDS[kind](chance)
    slow = chance.random() < 0.1
    end = chance.choices(tuple(End), (4, 2, 8, 2, 1))[0]
    return Case(kind, listener, shakes_hands, pieces, 0.02 if slow else 0.0, end)


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _request(api_key: int, version: int, body: bytes) -> bytes:
    return _framed(struct.pack(">hhih", api_key, version, 1, -1) + body)


def _handshake(mechanism: str, version: int) -> bytes:
    name = mechanism.encode()
    return _request(_HANDSHAKE, version, struct.pack(">h", len(name)) + name)


def _token(data: bytes, version: int) -> bytes:
    """As the version of the handshake has it: bare, or in SaslAuthenticate."""
    return _framed(data) if version == 0 else _request(_AUTHENTICATE, 0, _framed(data))


def _noise(chance: random.Random, most: int = 3000) -> bytes:
    return chance.randbytes(chance.randrange(1, most))


def _mutated(chance: random.Random, data: bytes) -> bytes:
    """The same with a few bytes changed, cut off, doubled or put in."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0 if at < len(changed):
                changed[at] = chance.randrange(256)
            case 1:
                del changed[at : at + chance.randrange(1, 20)]
            case 2:
                changed[at:at] = chance.randbytes(chance.randrange(1, 20))
            case _:
                changed[at:at] = changed[at : at + chance.randrange(1, 40)]
    return bytes(changed)


def _in_pieces(chance: random.Random, data: bytes) -> list[Piece]:
    if chance.random() < 0.5:
        return [data]
    size = max(1, len(data) // chance.randrange(1, 12))
    return [data[at : at + size] for at in range(0, len(data), size)]


def _random_bytes(chance: random.Random) -> list[Piece]:
    return _in_pieces(chance, _noise(chance))


def _random_frames(chance: random.Random) -> list[Piece]:
    return [_framed(_noise(chance, 300)) for _ in range(chance.randrange(1, 6))]


def _impossible_length(chance: random.Random) -> list[Piece]:
    length = chance.choice([-1, -(2**31), 2**31 - 1, _MOST_TOKEN_BYTES + 1, 104_857_600, chance.randrange(2**31)])
    return [struct.pack(">i", length) + _noise(chance, 200)]


def _unfinished_frame(chance: random.Random) -> list[Piece]:
    """A length that is allowed, and a part of what it promises."""
    length = chance.choice([9, 1000, 70_000, _MOST_TOKEN_BYTES])
    return [struct.pack(">i", length) + bytes(chance.randrange(length))]


def _wrong_order(chance: random.Random) -> list[Piece]:
    steps: list[Piece] = [
        _request(_METADATA, 1, struct.pack(">i", -1)),
        _request(_API_VERSIONS, chance.randrange(5), b"\0" * chance.randrange(8)),
        _request(chance.randrange(70), chance.randrange(12), _noise(chance, 60)),
        _handshake(chance.choice(_MECHANISMS), chance.randrange(3)),
        _token(b"\0a\0b", 1),
        _token(b"\0a\0b", 0),
        _framed(b""),
    ]
    return chance.choices(steps, k=chance.randrange(1, 8))


def _odd_handshake(chance: random.Random) -> list[Piece]:
    names = ["", "GSSAPI", "plain", "PLAIN\0", "OAUTHBEARER", "../PLAIN", "%s%n", "SCRAM-SHA-256-PLUS", "x" * 32_000]
    return [_mutated(chance, _handshake(chance.choice(names), chance.randrange(2)))]


def _plain(chance: random.Random) -> list[Piece]:
    version = chance.randrange(2)
    users = [USER, "", "\0", "a\nb", "\u202eevil", "x" * chance.randrange(1, 100_000), "../../etc", "*", "%s", "ü" * 99]
    user, password, other = (chance.choice(users).encode() for _ in range(3))
    token = chance.choice([b"\0%s\0%s" % (user, password), b"%s\0%s\0%s" % (other, user, password)])
    if chance.random() < 0.5:
        token = _mutated(chance, token)
    return [_handshake("PLAIN", version), *[_token(token, version)] * chance.randrange(1, 4)]


def _scram(chance: random.Random) -> list[Piece]:
    """A first message that may be good, and a last one that is not."""
    version = chance.randrange(2)
    user = chance.choice([USER, "nobody", "a=2Cb", "a=3D", "=", "", "\u0000", "x" * 5000, "\u0627a"])
    nonce = base64.b64encode(chance.randbytes(chance.choice([0, 3, 18, 4000]))).decode()
    head = chance.choice(["n,,"] * 4 + ["y,,", "p=tls-unique,,", "n,a=admin,", ",,", ""])
    first = f"{head}n={user},r={nonce}".encode()
    if chance.random() < 0.4:
        first = _mutated(chance, first)
    proof = base64.b64encode(chance.randbytes(chance.choice([0, 31, 32, 64, 5000]))).decode()
    is_mutated = chance.random() < 0.4
    state = chance.getrandbits(64)

    def last(answer: bytes) -> bytes:
        at = answer.find(b"r=")
        whole = answer[at + 2 : answer.find(b",s=", at)] if at >= 0 else b"none"
        message = b"c=biws,r=%s,p=%s" % (whole, proof.encode())
        return _token(_mutated(random.Random(state), message) if is_mutated else message, version)

    return [_handshake(chance.choice(_MECHANISMS[1:3]), version), _token(first, version), last, last]


def _bearer(chance: random.Random) -> list[Piece]:
    """Tokens as a thief or a fool may send them; none is signed with the key that the broker knows."""
    version = chance.randrange(2)
    algorithms: list[object] = ["none", "HS256", "ES256", "RS256", "nOnE", "", None, 7, "EdDSA", "x" * 9000]
    header = {"alg": chance.choice(algorithms), "kid": chance.choice(["key", "../../key", "", "\0", 7, "k" * 5000])}
    if chance.random() < 0.2:
        header |= {
            "jwk": {"kty": "oct", "k": "AA"},
            "jku": "http://127.0.0.1/",
            "crit": ["x"],
            "zip": "DEF",
            "b64": False,
        }
    claims: object = {
        "sub": chance.choice([USER, "a\nb", "", 7]),
        "exp": chance.choice([2**40, -1, 1e308, "x"]),
        "iat": 1,
    }
    if chance.random() < 0.2:
        claims = chance.choice([[], None, "x", {"a" * 60_000: 1}])
    text = json.dumps(claims) if chance.random() < 0.9 else "[" * 20_000
    parts = [base64.urlsafe_b64encode(each.encode()).rstrip(b"=") for each in (json.dumps(header), text)]
    signature = base64.urlsafe_b64encode(chance.randbytes(chance.choice([0, 32, 64, 256, 9000]))).rstrip(b"=")
    first = b"n,%s,\x01auth=Bearer %s\x01\x01" % (
        chance.choice([b"", b"", b"a=admin", b"a==2C"]),
        b".".join([*parts, signature]),
    )
    if chance.random() < 0.4:
        first = _mutated(chance, first)
    return [
        _handshake("OAUTHBEARER", version),
        _token(first, version),
        *[_token(b"\x01", version)] * chance.randrange(3),
    ]


def _many_tokens(chance: random.Random) -> list[Piece]:
    """Tokens after tokens, so that a buffer or a line of answers might grow."""
    version = chance.randrange(2)
    token = _token(_noise(chance, 50), version)
    return [_handshake(chance.choice(_MECHANISMS), version), token * chance.randrange(10, 500)]


def _largest_token(chance: random.Random) -> list[Piece]:
    version = chance.randrange(2)
    fill = chance.choice([b"\0", b"a", b",", b"=", b"\xff", b"n=", b"{"])
    size = chance.choice([_MOST_TOKEN_BYTES - 64, 100_000, 40_000])
    data = (fill * size)[:size]
    return [_handshake(chance.choice(_MECHANISMS), version), _token(chance.choice([b"", b"n,,"]) + data, version)]


def _many_versions(chance: random.Random) -> list[Piece]:
    """Answers that nobody reads: ApiVersions is served to strangers."""
    return [_request(_API_VERSIONS, 0, b"") * chance.randrange(1, 2000)]


def _tls(chance: random.Random) -> list[Piece]:
    hello = _CLIENT_HELLO
    match chance.randrange(4):
        case 0:
            hello = hello[: chance.randrange(1, len(hello))]
        case 1:
            hello = _mutated(chance, hello)
        case 2:
            hello = hello + bytes([chance.choice([20, 21, 22, 23, 24]), 3, 3]) + _framed(_noise(chance))[2:]
        case _:
            hello = b"\x16\x03\x01\xff\xff" + _noise(chance, 70_000)
    return _in_pieces(chance, hello)


def _plain_to_tls(chance: random.Random) -> list[Piece]:
    return [chance.choice([b"GET / HTTP/1.1\r\n\r\n", _handshake("PLAIN", 1), _noise(chance), b"\0", b""])]


def _nothing(chance: random.Random) -> list[Piece]:
    return []


_KINDS: Final[dict[str, Callable[[random.Random], list[Piece]]]] = {
    "random bytes": _random_bytes,
    "random frames": _random_frames,
    "impossible length": _impossible_length,
    "unfinished frame": _unfinished_frame,
    "wrong order": _wrong_order,
    "odd handshake": _odd_handshake,
    "plain": _plain,
    "scram": _scram,
    "bearer": _bearer,
    "many tokens": _many_tokens,
    "largest token": _largest_token,
    "many versions": _many_versions,
    "tls": _tls,
    "plain to tls": _plain_to_tls,
    "nothing": _nothing,
}
_FOR_EACH: Final = ("random bytes", "impossible length", "unfinished frame", "nothing")
"""Kinds that also go to a listener with TLS and without SASL, which demands a certificate that the client lacks."""

"""Takes secrets out of the data of znodes, for everybody: what nobody can judge is hidden as a whole. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from highwater.common.secret_names import WORDS, is_secret_name

HIDDEN: Final = "(hidden)"
_KNOWN_ROOTS: Final = frozenset(
    """
    admin brokers cluster config consumers controller controller_epoch delegation_token feature isr_change_notification
    kafka-acl kafka-acl-changes kafka-acl-extended kafka-acl-extended-changes latest_producer_id_block
    log_dir_event_notification migration
    """.split()  # noqa: SIM905 - one word a string would be twenty lines
)
_TOKENS: Final = "/delegation_token"
_CONFIG: Final = "/config"
_SECRET_TEXT: Final = re.compile(
    rf"(?:{WORDS})[\"']?\s*[=:]|-----BEGIN|LoginModule|[a-z]://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE,
)
_ITERATIONS: Final = re.compile(r"(?:^|,)iterations=([0-9]+)")


class Shown(NamedTuple):
    """What may be shown of a znode's data."""

    data: bytes
    """All views, also bytes as hex, are made of this."""
    note: str = ""
    """What is hidden, in a sentence; empty if nothing is."""


def hides_children(path: str) -> bool:
    """Names of tokens are one half of a login."""
    return path == f"{_TOKENS}/tokens"


def is_of_kafka(path: str) -> bool:
    return path == "/" or path.split("/")[1] in _KNOWN_ROOTS


def shown(path: str, data: bytes) -> Shown:
    """The data of the znode at `path` (below the chroot) without what must not leave the monitor."""
    if not data:
        return Shown(b"")
    if not is_of_kafka(path):
        return Shown(
            b"", "This znode is not Kafka's. Its data are not shown: the monitor does not know which of it is secret."
        )
    if path == _TOKENS or path.startswith(f"{_TOKENS}/"):
        return Shown(b"", "Delegation tokens are logins: their data are not shown.")
    try:
        value = json.loads(data)
        hidden: list[str] = []
        cleaned = _cleaned(value, hidden)
        text = json.dumps(cleaned, separators=(",", ":"), ensure_ascii=False) if hidden else ""
    except ValueError:
        return _of_text(path, data)
    except RecursionError:
        return Shown(b"", "These data are nested too deeply to be searched for secrets. They are not shown.")
    if not hidden:
        return Shown(data)
    # A lone surrogate is no UTF-8, and is written as JSON escapes it.
    return Shown(text.encode("utf-8", "backslashreplace"), f"Hidden here: {', '.join(sorted(set(hidden)))}.")


def _of_text(path: str, data: bytes) -> Shown:
    if path == _CONFIG or path.startswith(f"{_CONFIG}/"):
        return Shown(
            b"",
            "These settings are not the JSON that Kafka writes. They are not shown, because a secret may be in them.",
        )
    if _SECRET_TEXT.search(data.decode("utf-8", "replace")):
        return Shown(b"", "These data look as if a secret were in them, and are not shown.")
    return Shown(data)


def _cleaned(value: Any, hidden: list[str]) -> Any:
    if isinstance(value, dict):
        return {key: _of_key(key, each, hidden) for key, each in value.items()}
    if isinstance(value, list):
        return [_cleaned(each, hidden) for each in value]
    if isinstance(value, str) and _SECRET_TEXT.search(value):
        hidden.append("a value that looks like a secret")
        return HIDDEN
    return value


def _of_key(key: str, value: Any, hidden: list[str]) -> Any:
    if not is_secret_name(key) or value is None or isinstance(value, bool):
        return _cleaned(value, hidden)
    hidden.append(key)
    iterations = _ITERATIONS.search(value) if isinstance(value, str) and key.startswith("SCRAM-") else None
    return f"{HIDDEN}, iterations={iterations[1]}" if iterations else HIDDEN

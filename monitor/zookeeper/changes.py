"""What the watched znodes show of a cluster, and what changed between two looks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from highwater.common.units import count_text
from highwater.monitor.model import ZnodeChange

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
CONFIG_CHANGES: Final = "/config/changes"
_MOST_SINGLE: Final = 20
"""Changes of settings that one look reports one by one."""
_LONGEST_PROOF: Final = 2000


class Ephemeral(NamedTuple):
    """A znode that lives as long as the session of its owner."""

    data: bytes
    owner: int
    czxid: int
    """Another one under the same path is another registration."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The watched znodes at one look. None or nothing in them: the znode is not there."""

    controller: Ephemeral | None = None
    controller_epoch: int | None = None
    brokers: Mapping[str, Ephemeral] = field(default_factory=dict)
    """Znodes by their names below /brokers/ids."""
    config_changes: Mapping[str, bytes] = field(default_factory=dict)
    """Data by the names below /config/changes."""

    @property
    def controller_id(self) -> int | None:
        return None if self.controller is None else controller_id(self.controller.data)

    @property
    def sessions(self) -> dict[str, tuple[str, ...]]:
        """The ephemeral znodes of each session, by its number in hexadecimal."""
        found: dict[str, list[str]] = {}
        if self.controller is not None:
            found.setdefault(session_text(self.controller.owner), []).append(CONTROLLER)
        for name, each in self.brokers.items():
            found.setdefault(session_text(each.owner), []).append(f"{BROKER_IDS}/{name}")
        return {owner: tuple(paths) for owner, paths in sorted(found.items())}


def session_text(owner: int) -> str:
    return f"0x{owner & 0xFFFFFFFFFFFFFFFF:x}"


def changes(before: Watched, after: Watched, at_ms: int) -> list[ZnodeChange]:
    """What happened between two looks, the controller first. `at_ms`: Unix time of the later one."""
    return [
        *_controller(before, after, at_ms),
        *_brokers(before, after, at_ms),
        *_config_changes(before, after, at_ms),
    ]


def controller_id(data: bytes) -> int | None:
    number = _json(data).get("brokerid")
    return number if isinstance(number, int) and number >= 0 else None


def _controller(before: Watched, after: Watched, at_ms: int) -> Iterator[ZnodeChange]:
    old, new = before.controller, after.controller
    epoch, is_other_epoch = after.controller_epoch, before.controller_epoch != after.controller_epoch
    proof = (_proof(old.data if old else b""), _proof(new.data if new else b""))
    term = f" (epoch {epoch})" if epoch is not None else ""
    if (old and old.czxid) == (new and new.czxid):
        if is_other_epoch and epoch is not None:
            text = f"the controller epoch is {epoch}; it was {before.controller_epoch}"
            yield ZnodeChange(at_ms, CONTROLLER_EPOCH, text, str(before.controller_epoch), str(epoch))
        return
    if new is None:
        assert old is not None
        text = f"there is no controller: {_broker_of(old)} gave it up, or its session {session_text(old.owner)} is over"
    elif old is None:
        text = f"{_broker_of(new)} is the controller{term}; there was none"
    elif before.controller_id == after.controller_id:
        text = f"{_broker_of(new)} was elected controller again{term}"
    else:
        text = f"{_broker_of(new)} is the controller{term}; it was {_broker_of(old)}"
    yield ZnodeChange(at_ms, CONTROLLER, text, *proof)


def _broker_of(node: Ephemeral) -> str:
    number = controller_id(node.data)
    return "a broker that is not named" if number is None else f"broker {number}"


def _brokers(before: Watched, after: Watched, at_ms: int) -> Iterator[ZnodeChange]:
    for name in sorted(before.brokers.keys() | after.brokers.keys()):
        old, new = before.brokers.get(name), after.brokers.get(name)
        path, was = f"{BROKER_IDS}/{name}", _proof(old.data if old else b"")
        if new is None:
            assert old is not None
            session = session_text(old.owner)
            text = f"the registration of broker {name} is gone: it stopped, or its session {session} is over"
            yield ZnodeChange(at_ms, path, text, was, "")
        elif old is None:
            text = f"broker {name} registered, in session {session_text(new.owner)}"
            yield ZnodeChange(at_ms, path, text, "", _proof(new.data))
        elif old.czxid != new.czxid:
            text = f"broker {name} registered anew, in session {session_text(new.owner)}: it was away meanwhile"
            yield ZnodeChange(at_ms, path, text, was, _proof(new.data))


def _config_changes(before: Watched, after: Watched, at_ms: int) -> Iterator[ZnodeChange]:
    """ZooKeeper numbers the notifications, and a controller removes old ones."""
    newest = max(before.config_changes, default="")
    fresh = [name for name in sorted(after.config_changes) if name > newest]
    if len(fresh) > _MOST_SINGLE:
        text = f"settings were changed {count_text(len(fresh))} times"
        yield ZnodeChange(at_ms, CONFIG_CHANGES, text)
        return
    for name in fresh:
        data = after.config_changes[name]
        text = f"settings of {changed_entity(data) or 'something'} were changed"
        yield ZnodeChange(at_ms, f"{CONFIG_CHANGES}/{name}", text, "", _proof(data))


def changed_entity(data: bytes) -> str:
    """Return the entity of a notification, such as `topics/orders`; empty if it names none."""
    value = _json(data)
    if isinstance(value.get("entity_path"), str):
        return str(value["entity_path"])
    kind, name = value.get("entity_type"), value.get("entity_name")
    return f"{kind}/{name}" if isinstance(kind, str) and isinstance(name, str) else ""


def _json(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _proof(data: bytes) -> str:
    """The data of controllers, brokers and notifications have no secrets."""
    return data[:_LONGEST_PROOF].decode("utf-8", "replace")

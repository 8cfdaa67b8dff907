"""How much memory a member of a group takes in its coordinator: of the classic protocol, and of KIP-848.

    python -m tools.group_memory [MEMBERS] [TOPICS] [--lines]

A node without sockets is asked what clients ask. All members read the same topics, of which each partition has one
reader. Told is what Python frees (tracemalloc) when the node forgets its groups: when the group is stable, and when
the log was read back after a kill. With --lines the lines of the code follow that hold most of it.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol.primitives import int32_array, string
from tests.broker.group.asking import GroupHarness

_MEMBERS: Final = 1000
_TOPICS: Final = 100
_LINES: Final = 15
_ROOM: Final = str(64 * 1024 * 1024)
"""For the record of a classic group, which has the metadata of all its members."""

Join = Callable[[GroupHarness, int, list[str]], None]


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    members, count = (*numbers, *(_MEMBERS, _TOPICS)[len(numbers) :])
    _say(f"{members} members, which read {count} topics; bytes of each member:")
    tracemalloc.start()
    topics = [f"orders-of-region-{index:04}" for index in range(count)]
    for name, join in (("classic", _classic), ("consumer", _consumers)):
        with tempfile.TemporaryDirectory(prefix="group-memory-") as folder:
            node = _node(Path(folder))
            for topic in topics:
                node.create_topic(topic, -(-members // count))
            join(node, members, topics)
            _report(f"{name}, stable", node, members)
            node.close(clean=False)
            del node
            again = _node(Path(folder))
            _report(f"{name}, read back", again, members)
            again.close(clean=False)


def _node(folder: Path) -> GroupHarness:
    node = GroupHarness(folder, message_max_bytes=_ROOM)
    node.find()
    node.scheduler.run()
    return node


def _report(name: str, node: GroupHarness, members: int) -> None:
    gc.collect()
    before, snapshot = tracemalloc.get_traced_memory()[0], tracemalloc.take_snapshot()
    (group,) = node.node.groups.all_groups()[1]
    assert group.state_name == "Stable", group.state_name
    del group
    node.node.groups.topic.forget()
    gc.collect()
    _say(f"  {name:20} {(before - tracemalloc.get_traced_memory()[0]) / members:8,.0f}")
    if "--lines" in sys.argv:
        freed = [each for each in tracemalloc.take_snapshot().compare_to(snapshot, "lineno") if each.size_diff < 0]
        for each in freed[:_LINES]:
            place = each.traceback[0]
            _say(f"    {-each.size_diff / members:8,.0f}  {place.filename}:{place.lineno}")


def _consumers(node: GroupHarness, members: int, topics: list[str]) -> None:
    def beat(index: int, epoch: int, **fields: Any) -> int:
        answer = node.beat(f"member-{index:032}", epoch, **fields)
        assert answer.error_code == ErrorCode.none, answer
        return int(answer.member_epoch)

    epochs = [beat(index, 0, subscribed_topic_names=topics) for index in range(members)]
    for _ in range(4):
        node.advance(5_000)
        # Nobody says what it has, but for the first who has all in the beginning.
        owned: list[list[int] | None] = [[], *[None] * (members - 1)]
        epochs = [beat(index, epochs[index], topic_partitions=owned[index]) for index in range(members)]


def _classic(node: GroupHarness, members: int, topics: list[str]) -> None:
    metadata = b"\0\1" + len(topics).to_bytes(4, "big") + b"".join(string(topic, False) for topic in topics)
    metadata += b"\xff\xff\xff\xff" + bytes(4)
    fields: dict[str, Any] = {"protocols": [{"name": "range", "metadata": metadata}], "session_timeout": 45_000}
    ids = [node.join(**fields).member_id for _ in range(members)]
    joins = [node.join(member_id, **fields) for member_id in ids]
    node.advance(5_000)
    leader = next(each.answer for each in joins if each.answer.members)
    per_member = max(len(topics) * -(-members // len(topics)) // members, 1)
    assigned: dict[str, Any] = {
        member_id: b"\0\1\0\0\0\1"
        + string(topics[index % len(topics)], False)
        + int32_array([index // len(topics)] * per_member, False)
        + bytes(4)
        for index, member_id in enumerate(ids)
    }
    syncs = [node.sync(member_id, leader.generation_id) for member_id in ids if member_id != leader.member_id]
    assert node.sync(leader.member_id, leader.generation_id, **assigned).error_code == ErrorCode.none
    assert all(each.answer.error_code == ErrorCode.none for each in syncs)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()

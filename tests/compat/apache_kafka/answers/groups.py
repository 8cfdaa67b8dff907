"""Coordinators, groups and their offsets, and transactions that nobody has begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import versions
from tests.compat.apache_kafka.answers.script import CLOSED, THEN, Fields, Script, versions_of_both


def grouping(script: Script) -> None:
    script.note("FindCoordinator")

    def has_coordinator(kind: int) -> bool:
        found: ErrorCode = script.quietly("find_coordinator", 1, key="g", key_type=kind).error_code
        return found is ErrorCode.none

    def is_loaded() -> bool:
        loading = (
            ErrorCode.coordinator_load_in_progress,
            ErrorCode.not_coordinator,
            ErrorCode.coordinator_not_available,
        )
        groups: list[Fields] = [
            {"group_id": name, "topics": []} for name in ("g", "h", "i", "", "simple", "nowhere", "static")
        ]
        return all(group.error_code not in loading for group in script.quietly("offset_fetch", 8, groups=groups).groups)

    for kind in (0, 1):
        script.until(lambda kind=kind: has_coordinator(kind))  # type: ignore[misc]
    script.until(is_loaded)
    for kind in (0, 1, 2, 3):
        fields: Fields = {"key": "g", "key_type": kind, "coordinator_keys": ["g", "h"]}
        script.each("find_coordinator", f"key type {kind}", since=1 if kind else 0, **fields)
    script.each("find_coordinator", "''", key="", key_type=0, coordinator_keys=[""])
    script.each("find_coordinator", "no transactional id", since=1, key="", key_type=1, coordinator_keys=[""])
    script.ask("find_coordinator", 4, "no key", key_type=0, coordinator_keys=[])
    script.ask("find_coordinator", 4, "the same twice", key_type=0, coordinator_keys=["g", "g"])

    script.note("Groups")
    base: Fields = {
        "group_id": "g",
        "session_timeout": 300_000,  # no member is to expire on a slow host
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
    }

    def join(told: str, version: int = 9, **fields: Any) -> Any:
        answer = script.quietly("join_group", version, **(base | fields))
        if answer != CLOSED and answer.member_id:
            script.names.setdefault(answer.member_id, f"<m{len(script.names)}>")
        script.lines.append(f"join_group v{version} {told}{THEN}{script.text(answer)}")
        return answer

    join("as nobody known", member_id="nobody")
    join("''", group_id="")
    for timeout in (1, 0, -1, 1_800_001):
        join(f"session of {timeout} ms", session_timeout=timeout)
    join("rebalance of -1 ms", rebalance_timeout=-1, version=5, group_id="negative")
    join("no protocols", protocols=[])
    join("no protocol type", protocol_type="")
    join("to be told an id")
    join("to be told an id", version=4)
    for version in (0, 1, 2, 3):
        answer = join("and is in", version=version, group_id=f"old-{version}")
        member = {"group_id": f"old-{version}", "generation_id": answer.generation_id, "member_id": answer.member_id}
        script.ask("heartbeat", 0, "while it is to sync", **member)
        assignments = [{"member_id": answer.member_id, "assignment": b"mine"}]
        script.ask("sync_group", version, "as leader", **member, assignments=assignments)
        script.ask("leave_group", min(version, 2), "alone", group_id=f"old-{version}", member_id=answer.member_id)
    first = join("to be told an id", group_id="h")
    found = join("with it", member_id=first.member_id, group_id="h")
    me = {"group_id": "h", "generation_id": found.generation_id, "member_id": found.member_id}
    script.each("heartbeat", "before the assignment", **me)
    script.each("describe_groups", "before the assignment", groups=["h"], include_authorized_operations=True)
    script.ask("sync_group", 5, "another type", **me, protocol_type="connect", protocol_name="range", assignments=[])
    script.ask(
        "sync_group", 5, "another protocol", **me, protocol_type="consumer", protocol_name="sticky", assignments=[]
    )
    other = me | {"member_id": "nobody"}
    past = me | {"generation_id": 0}
    script.each("sync_group", "as nobody known", **other, assignments=[])
    script.each("sync_group", "of the last generation", **past, assignments=[])
    script.each("sync_group", "nowhere", **(me | {"group_id": "nowhere"}), assignments=[])
    kinds: Fields = {"protocol_type": "consumer", "protocol_name": "range"}
    assignments = [{"member_id": found.member_id, "assignment": b"mine"}]
    script.each("sync_group", "as leader", **me, **kinds, assignments=assignments)
    script.each("heartbeat", "in the group", **me)
    script.each("heartbeat", "as nobody known", **other)
    script.each("heartbeat", "of the last generation", **past)
    script.each("heartbeat", "nowhere", **(me | {"group_id": "nowhere"}))
    script.each("heartbeat", "''", **(me | {"group_id": ""}))
    script.each("describe_groups", "h", groups=["h"], include_authorized_operations=True)
    script.each("describe_groups", "without operations", groups=["h"])
    script.each("describe_groups", "nowhere", groups=["nowhere", ""])
    script.ask("describe_groups", 5, "twice", groups=["h", "h"])
    script.ask("describe_groups", 5, "none", groups=[])
    join("another type", group_id="h", protocol_type="connect", group_instance_id="other")
    join("another protocol", group_id="h", protocols=[{"name": "odd", "metadata": b""}], group_instance_id="other")
    join("again", member_id=found.member_id, group_id="h")
    me["generation_id"] += 1
    script.ask("sync_group", 5, "again", **me, **kinds, assignments=assignments)
    joined = join("static", group_id="static", group_instance_id="one")
    static = {"group_id": "static", "generation_id": joined.generation_id, "member_id": joined.member_id}
    mine = [{"member_id": joined.member_id, "assignment": b"mine"}]
    script.ask("sync_group", 5, "static", **static, group_instance_id="one", **kinds, assignments=mine)
    script.ask("heartbeat", 4, "static", **static, group_instance_id="one")
    script.ask("heartbeat", 4, "unknown instance", **static, group_instance_id="two")
    fenced = static | {"member_id": "another", "group_instance_id": "one"}
    script.ask("heartbeat", 4, "fenced", **fenced)
    script.ask("sync_group", 5, "fenced", **fenced, **kinds, assignments=[])
    join("fenced", group_id="static", group_instance_id="one", member_id="another")
    anew = join("static, anew", group_id="static", group_instance_id="one")
    script.ask("heartbeat", 4, "static, of before", **static, group_instance_id="one")
    script.ask("heartbeat", 4, "static, anew", **(static | {"member_id": anew.member_id}), group_instance_id="one")
    join("instance ''", group_id="unnamed", group_instance_id="")

    script.note("Offsets of groups")

    def commit(told: str, *topics: Fields, version: int = 8, **fields: Any) -> None:
        default: Fields = {"group_id": "simple", "generation_id_or_member_epoch": -1, "member_id": ""}
        script.ask("offset_commit", version, told, **(default | {"topics": topics} | fields))

    def offset(
        name: str = "t", index: int = 0, at: int = 3, metadata: str | None = "m", committed_leader_epoch: int = -1
    ) -> Fields:
        partition = {
            "partition_index": index,
            "committed_offset": at,
            "committed_leader_epoch": committed_leader_epoch,
            "committed_metadata": metadata,
        }
        return {"name": name, "partitions": [partition]}

    for version in versions_of_both("offset_commit"):
        commit("simple", offset(at=version), version=version)
    commit("nowhere", offset("nowhere"))
    commit("partition 9", offset(index=9))
    commit("bad name", offset("a b"))
    commit("metadata null", offset("u", metadata=None, committed_leader_epoch=4))
    commit("metadata of 4097", offset(metadata="x" * 4097))
    commit("metadata of 4096", offset("t", 1, metadata="x" * 4096))
    commit("offset -1", offset("u", 1, at=-1))
    commit("twice", offset(at=50), offset(at=51))
    commit("nothing")
    commit("group ''", offset(), group_id="")
    generation = {"generation_id_or_member_epoch": 1}
    commit("nobody's generation", offset(), group_id="nowhere", **generation)
    commit("nobody known", offset(), **generation, member_id="nobody")
    commit("without generation, in use", offset(), group_id="h")
    good = {"generation_id_or_member_epoch": me["generation_id"]}
    commit("member", offset(), group_id="h", member_id=me["member_id"], **good)
    commit("member, past", offset(), group_id="h", member_id=me["member_id"], **generation)
    commit("member, unknown", offset(), group_id="h", member_id="nobody", **good)
    commit("fenced", offset(), group_id="static", member_id="x", group_instance_id="one", **generation)

    def fetch(told: str, group: str, topics: Sequence[Fields] | None, since: int = 1, until: int = 99) -> None:
        groups = [{"group_id": group, "topics": topics, "member_epoch": -1}]
        fields: Fields = {"group_id": group, "topics": topics, "groups": groups, "require_stable": False}
        script.each("offset_fetch", told, since=since, until=until, **fields)

    fetch("t-0", "simple", [{"name": "t", "partition_indexes": [0]}])
    fetch("all", "simple", None, since=2)
    fetch("none", "simple", [])
    fetch(
        "what is not",
        "simple",
        [{"name": "t", "partition_indexes": [9, -1]}, {"name": "nowhere", "partition_indexes": [0]}],
    )
    fetch("nowhere", "nowhere", [{"name": "t", "partition_indexes": [0]}])
    fetch("all of nowhere", "nowhere", None, since=2)
    fetch("''", "", [{"name": "t", "partition_indexes": [0]}])
    fetch("twice", "simple", [{"name": "t", "partition_indexes": [0, 0]}])
    script.ask("offset_fetch", 8, "no groups", groups=[], require_stable=False)
    same = {"group_id": "simple", "topics": [{"name": "t", "partition_indexes": [0]}], "member_epoch": -1}
    script.ask("offset_fetch", 8, "a group twice", groups=[same, same], require_stable=False)
    as_member = same | {"member_id": "nobody", "member_epoch": 3}
    script.ask("offset_fetch", 9, "as a member unknown", groups=[as_member], require_stable=False)

    script.note("Groups listed, left, deleted")
    for version in versions("list_groups"):
        for states in ((), ("Stable",), ("stable", "Empty"), ("Nope",)):
            if states and version < 4:
                continue
            script.ask("list_groups", version, f"states {states}", states_filter=states, types_filter=())
    for types in (("classic",), ("Classic",), ("consumer",), ("nope",), ("share",)):
        script.ask("list_groups", 5, f"types {types}", states_filter=(), types_filter=types)

    def delete_offset(told: str, group: str, *topics: Fields) -> None:
        script.ask("offset_delete", 0, told, group_id=group, topics=topics)

    t0 = {"name": "t", "partitions": [{"partition_index": 0}]}
    delete_offset("t-0", "simple", t0)
    delete_offset("t-0 again", "simple", t0)
    delete_offset("t-9", "simple", {"name": "t", "partitions": [{"partition_index": 9}]})
    delete_offset("nowhere-0", "simple", {"name": "nowhere", "partitions": [{"partition_index": 0}]})
    delete_offset("of nowhere", "nowhere", t0)
    delete_offset("of ''", "", t0)
    delete_offset("of a group with members", "h", t0)
    delete_offset("nothing", "simple")
    script.each("delete_groups", "nowhere", groups_names=["nowhere"])
    script.each("delete_groups", "''", groups_names=[""])
    script.each("delete_groups", "with members", groups_names=["h"])
    script.ask("delete_groups", 2, "no groups", groups_names=[])
    script.ask("delete_groups", 2, "twice", groups_names=["simple", "simple"])

    def leave(told: str, *members: Fields, version: int = 5, **fields: Any) -> None:
        script.ask("leave_group", version, told, **({"group_id": "static", "members": members} | fields))

    leave("nobody")
    leave("unknown", {"member_id": "nobody"}, {"member_id": "", "group_instance_id": "nobody"})
    leave("fenced", {"member_id": "another", "group_instance_id": "one"})
    leave("by instance", {"member_id": "", "group_instance_id": "one"}, {"member_id": "nobody"})
    leave("again", {"member_id": "", "group_instance_id": "one"})
    leave("nowhere", {"member_id": "nobody"}, group_id="nowhere")
    leave("''", {"member_id": "nobody"}, group_id="")
    for version in (0, 1, 2):
        leave("unknown", version=version, group_id="h", member_id="nobody")
    leave("the last", {"member_id": me["member_id"]}, group_id="h")
    leave("the last, again", {"member_id": me["member_id"]}, group_id="h")
    script.each("describe_groups", "empty", groups=["h"])
    delete_offset("t-0 of an empty group", "h", t0)
    script.each("delete_groups", "an empty one", groups_names=["h"])
    script.each("describe_groups", "deleted", groups=["h"])


def transacting(script: Script) -> None:
    script.note("Transactions, nobody's")
    nobody: Fields = {"transactional_id": "q", "producer_id": 9, "producer_epoch": 0}
    script.each("add_offsets_to_txn", "nobody's", **nobody, group_id="g")
    script.each("end_txn", "nobody's", **nobody, committed=True)
    old: Fields = {f"v3_and_below_{key}": value for key, value in nobody.items()}
    topics = [{"name": "t", "partitions": [0]}]
    script.each("add_partitions_to_txn", "nobody's", until=3, **old, v3_and_below_topics=topics)
    script.ask("add_partitions_to_txn", 4, "nothing", transactions=[])
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": None}

    def commit(told: str, **fields: Any) -> None:
        default: Fields = {
            "group_id": "txn-g",
            "generation_id": -1,
            "member_id": "",
            "topics": [{"name": "t", "partitions": [offset]}],
        }
        script.each("txn_offset_commit", told, **(nobody | default | fields))

    commit("group ''", group_id="")
    commit("nowhere", topics=[{"name": "nowhere", "partitions": [offset]}])
    commit("partition 9", topics=[{"name": "t", "partitions": [offset | {"partition_index": 9}]}])
    commit("nothing", topics=[])
    commit("nobody known", member_id="nobody", generation_id=1)
    script.each("write_txn_markers", "nothing", markers=[])
    script.ask("describe_transactions", 0, "nothing", transactional_ids=[])
    script.each("list_transactions", "all", state_filters=(), producer_id_filters=(), duration_filter=-1)

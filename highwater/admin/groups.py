"""`highwater broker groups`: lists, describes, resets and deletes consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import typer
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import MemberAssignment, MemberDescription  # type: ignore[attr-defined]
from kio.schema.errors import ErrorCode

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    Partition,
    only_action,
    refuse_options,
    result_of,
)
from highwater.admin.offset_reset import Target, parse_target, targets
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
    say_all,
)
from highwater.admin.wire import coordinator_of
from highwater.common.nearest import did_you_mean
from highwater.kafka.requests.find_coordinator import GROUP


def groups(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    list_: Annotated[bool, typer.Option("--list", help="List the names of all groups.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show committed offsets and lag.")] = False,
    reset_offsets: Annotated[
        bool, typer.Option("--reset-offsets", help="Set the committed offsets of a group without members.")
    ] = False,
    delete_offsets: Annotated[
        bool, typer.Option("--delete-offsets", help="Delete committed offsets of topics that no member reads.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete groups without members, and their offsets.")] = False,
    group: Annotated[list[str] | None, typer.Option("--group", help="A group's name; may be repeated.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Select all groups of the cluster.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Describe the members instead of offsets.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Describe the state instead of offsets.")] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:P,P...]", help="A topic, or some of its partitions; may be repeated."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Reset every partition that the group has committed.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Reset to the earliest offset of each partition.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the end of each partition.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="Leave the committed offsets as they are.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", help="Reset to offset N.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="Reset to the records from this time on, such as 2026-01-31T12:00:00.000 (UTC by default).",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="DURATION",
            help="Reset to the records from this long ago on, such as 90min or P1DT2H30M.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by", metavar="N", help="Move the offsets forward by N records, or back if N is negative."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the new offsets and change nothing; the default.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Set the offsets.")] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List, describe, reset or delete groups, or offsets. Exit code: 0 done, 1 the broker refused it, 2 usage error."""
    with reporting():
        action = only_action(
            {
                "--list": list_,
                "--describe": describe,
                "--reset-offsets": reset_offsets,
                "--delete-offsets": delete_offsets,
                "--delete": delete,
            }
        )
        goals = {
            "--to-earliest": to_earliest or None,
            "--to-latest": to_latest or None,
            "--to-current": to_current or None,
            "--to-offset": to_offset,
            "--to-datetime": to_datetime,
            "--by-duration": by_duration,
            "--shift-by": shift_by,
        }
        refuse_options(
            action,
            {
                "--group": bool(group) and list_,
                "--all-groups": all_groups and list_,
                "--members": members and not describe,
                "--state": state and not describe and not list_,
                "--topic": bool(topic) and not reset_offsets and not delete_offsets,
                **{
                    name: is_given and not reset_offsets
                    for name, is_given in (
                        ("--all-topics", all_topics),
                        ("--dry-run", dry_run),
                        ("--execute", execute),
                        *((name, value is not None) for name, value in goals.items()),
                    )
                },
            },
        )
        if members and state:
            raise UsageError("--members and --state cannot go together")
        if not list_ and bool(group) == all_groups:
            raise UsageError(f"{action} needs --group NAME or --all-groups")
        if dry_run and execute:
            raise UsageError("--dry-run and --execute cannot go together")
        target = parse_target(goals) if reset_offsets else None
        if reset_offsets and bool(topic) == all_topics:
            raise UsageError("--reset-offsets needs --topic or --all-topics")
        if delete_offsets and not topic:
            raise UsageError("--delete-offsets needs --topic")
        cluster = Cluster(bootstrap_server, command_config)
        _ = cluster.metadata  # Raises UsageError when no broker answers.
        states = _states(cluster)
        if list_:
            _print_list(states, state, as_json)
            return
        names = sorted(states) if all_groups else list(dict.fromkeys(group or ()))
        if target is not None:
            _reset(cluster, names, states, topic or [], target, execute, as_json)
            return
        for name in names:
            if name not in states:
                raise CommandError(f"there is no group {name}{did_you_mean(name, states)}")
        if delete_offsets:
            _delete_offsets(cluster, names, _scope(cluster, topic or []), as_json)
        elif delete:
            _delete(cluster, names, as_json)
        elif members or state:
            _print_described(_describe(cluster, names), members, as_json)
        else:
            _print_progress(_progress(cluster, names), as_json)


def _states(cluster: Cluster) -> dict[str, str]:
    """Return the state of each group by its name."""
    listed = result_of("groups", cluster.admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S))
    return {found.group_id: _state_name(cluster, found.group_id, found.state) for found in listed.valid}


def _state_name(cluster: Cluster, group: str, state: ConsumerGroupState | None) -> str:
    """Kafka's name of a state; librdkafka's PREPARING_REBALANCING is Kafka's PreparingRebalance."""
    if state is ConsumerGroupState.UNKNOWN:
        # librdkafka lacks the names of two states of groups of KIP-848: Assigning and Reconciling.
        wanted = {"group_ids": [group], "include_authorized_operations": False}
        answer = coordinator_of(cluster, group, GROUP).ask("consumer_group_describe", 0, **wanted)
        return str(answer.groups[0].group_state) or "Unknown"
    if state is None:
        return "Unknown"
    return "".join(word.capitalize() for word in state.name.split("_")).replace("Rebalancing", "Rebalance")


def _print_list(states: dict[str, str], with_state: bool, as_json: bool) -> None:
    if as_json:
        print_json([{"group": name, "state": states[name]} for name in sorted(states)])
    elif with_state:
        print_table(("Group", "State"), [(name, states[name]) for name in sorted(states)])
    else:
        say_all(sorted(states))


# Describing


class Member(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Partition]
    coming: list[Partition]
    """Partitions of a member of KIP-848 that it is to have, and does not have yet."""


class GroupState(NamedTuple):
    name: str
    kind: str
    state: str
    assignor: str
    coordinator: int | None
    members: list[Member]


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    log_end_offset: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(self.log_end_offset - self.committed, 0)


class TotalLag(NamedTuple):
    """The lag of a group, over the partitions whose lag is known, and how many it leaves out."""

    records: int
    without_commit: int
    without_end: int
    """Partitions that do not exist any more, or whose leader does not report their end."""

    @property
    def left_out(self) -> str:
        """Why the total does not hold for the whole group; empty if it does."""
        reasons = ((self.without_commit, "no committed offset"), (self.without_end, "no known end"))
        parts = [
            f"{count} {'partition that has' if count == 1 else 'partitions that have'} {what}"
            for count, what in reasons
            if count
        ]
        return " and ".join(parts)


def total_lag(rows: Sequence[PartitionLag]) -> TotalLag:
    without_commit = sum(row.committed is None for row in rows)
    without_end = sum(row.committed is not None and row.log_end_offset is None for row in rows)
    return TotalLag(sum(row.lag or 0 for row in rows), without_commit, without_end)


def _describe(cluster: Cluster, names: list[str]) -> list[GroupState]:
    if not names:
        return []
    futures = cluster.admin.describe_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_S)
    states = []
    for name in names:
        found = result_of(f"group {name}", futures[name])
        coordinator = found.coordinator.id if found.coordinator is not None else None
        state = _state_name(cluster, name, found.state)
        members = [_member(member) for member in found.members]
        kind = found.type.name.lower()
        states.append(GroupState(name, kind, state, found.partition_assignor, coordinator, members))
    return states


def _member(found: MemberDescription) -> Member:
    partitions = _partitions(found.assignment)
    coming = _partitions(found.target_assignment) - partitions
    host = found.host.removeprefix("/")
    return Member(found.member_id, found.group_instance_id, found.client_id, host, sorted(partitions), sorted(coming))


def _partitions(assignment: MemberAssignment | None) -> set[Partition]:
    return set() if assignment is None else {(tp.topic, tp.partition) for tp in assignment.topic_partitions}


def _committed(cluster: Cluster, group: str) -> dict[Partition, int]:
    request = [ConsumerGroupTopicPartitions(group)]
    (future,) = cluster.admin.list_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_S).values()
    found = result_of(f"group {group}", future).topic_partitions or ()
    return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}


def _progress(cluster: Cluster, names: list[str]) -> dict[str, tuple[GroupState, list[PartitionLag]]]:
    described = {}
    for state in _describe(cluster, names):
        committed = _committed(cluster, state.name)
        owners = {partition: member for member in state.members for partition in member.partitions}
        # A group reads whole topics: a partition of them without a committed offset is not read yet.
        topics = {topic for topic, _ in (*committed, *owners) if topic in cluster.metadata.topics}
        unread = {(topic, index) for topic in topics for index in cluster.partitions_of(topic)}
        partitions = sorted(set(committed) | set(owners) | unread)
        ends = cluster.log_ranges(_existing(cluster, partitions))
        rows = []
        for topic, index in partitions:
            end = ends.get((topic, index))
            rows.append(
                PartitionLag(
                    topic,
                    index,
                    committed.get((topic, index)),
                    None if end is None else end[1],
                    owners.get((topic, index)),
                )
            )
        described[state.name] = (state, rows)
    return described


def _existing(cluster: Cluster, partitions: Iterable[Partition]) -> list[Partition]:
    """Return the partitions that exist: a group may have offsets of deleted topics."""
    topics = cluster.metadata.topics
    return [(topic, index) for topic, index in partitions if topic in topics and index in topics[topic].partitions]


def _print_progress(described: dict[str, tuple[GroupState, list[PartitionLag]]], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "group": name,
                    "state": state.state,
                    "lag": total_lag(rows)._asdict(),
                    "offsets": [
                        {
                            "topic": row.topic,
                            "partition": row.partition,
                            "committed": row.committed,
                            "log_end_offset": row.log_end_offset,
                            "lag": row.lag,
                            "member_id": None if row.member is None else row.member.member_id,
                        }
                        for row in rows
                    ],
                }
                for name, (state, rows) in described.items()
            ]
        )
        return
    for number, (name, (state, rows)) in enumerate(described.items()):
        if number:
            say("")
        lag = total_lag(rows)
        without = f", without {lag.left_out}" if lag.left_out else ""
        say(f"Group: {name}  State: {state.state}  Members: {len(state.members)}  Lag: {lag.records}{without}")
        print_table(
            ("Topic", "Partition", "Committed", "End", "Lag", "Member"),
            [
                (
                    row.topic,
                    row.partition,
                    row.committed,
                    row.log_end_offset,
                    row.lag,
                    None if row.member is None else f"{row.member.client_id}@{row.member.host}",
                )
                for row in rows
            ],
        )


def _print_described(states: list[GroupState], members: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "group": state.name,
                    "kind": state.kind,
                    "state": state.state,
                    "assignor": state.assignor,
                    "coordinator": state.coordinator,
                    "members": [
                        {
                            "member_id": member.member_id,
                            "group_instance_id": member.instance_id,
                            "client_id": member.client_id,
                            "host": member.host,
                            "partitions": [{"topic": topic, "partition": index} for topic, index in member.partitions],
                            "coming": [{"topic": topic, "partition": index} for topic, index in member.coming],
                        }
                        for member in state.members
                    ],
                }
                for state in states
            ]
        )
    elif members:
        for number, state in enumerate(states):
            if number:
                say("")
            say(f"Group: {state.name}  State: {state.state}  Members: {len(state.members)}")
            print_table(
                ("Member", "Client", "Host", "Partitions", "Coming"),
                [
                    (m.instance_id or m.member_id, m.client_id, m.host, _names(m.partitions), _names(m.coming))
                    for m in state.members
                ],
            )
    else:
        print_table(
            ("Group", "Kind", "State", "Members", "Assignor", "Coordinator"),
            [(s.name, s.kind, s.state, len(s.members), s.assignor, s.coordinator) for s in states],
        )


def _names(partitions: Iterable[Partition]) -> str:
    return " ".join(f"{topic}-{index}" for topic, index in partitions)


# Changing


def _delete(cluster: Cluster, names: list[str], as_json: bool) -> None:
    if names:
        futures = cluster.admin.delete_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_S)
        for name in names:
            result_of(f"group {name}", futures[name])
            if not as_json:
                say(f"Deleted group {name}.")
    if as_json:
        print_json([{"group": name, "deleted": True} for name in names])


def _delete_offsets(cluster: Cluster, names: list[str], partitions: list[Partition], as_json: bool) -> None:
    """Delete offsets with OffsetDelete (KIP-496), which confluent-kafka lacks."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    wanted = [
        {"name": topic, "partitions": [{"partition_index": index} for index in indexes]}
        for topic, indexes in topics.items()
    ]
    for name in names:
        answer = coordinator_of(cluster, name, GROUP).ask("offset_delete", 0, group_id=name, topics=wanted)
        if answer.error_code is not ErrorCode.none:
            raise CommandError(f"group {name}: {answer.error_code.name}")
        for told in answer.topics:
            for entry in told.partitions:
                if entry.error_code is ErrorCode.group_subscribed_to_topic:
                    raise CommandError(f"group {name} has members that read {told.name}: its offsets stay")
                if entry.error_code is not ErrorCode.none:
                    raise CommandError(f"group {name}, {told.name}-{entry.partition_index}: {entry.error_code.name}")
        if not as_json:
            say(f"Deleted the offsets of group {name} in {len(partitions)} partitions.")
    if as_json:
        print_json(
            [{"group": name, "topic": topic, "partition": index} for name in names for topic, index in partitions]
        )


def _reset(
    cluster: Cluster,
    names: list[str],
    states: dict[str, str],
    scopes: list[str],
    target: Target,
    execute: bool,
    as_json: bool,
) -> None:
    rows: list[tuple[str, str, int, int | None, int]] = []
    for name in names:
        if states.get(name, "Empty") not in ("Empty", "Dead"):
            raise CommandError(
                f"group {name} is in use (its state is {states[name]}): offsets can be set when it has no members"
            )
        committed = _committed(cluster, name) if name in states else {}
        partitions = _scope(cluster, scopes) if scopes else sorted(_existing(cluster, committed))
        if not partitions:
            raise CommandError(f"group {name} has committed nothing; name what to set with --topic")
        for (topic, index), offset in targets(cluster, partitions, committed, target).items():
            rows.append((name, topic, index, committed.get((topic, index)), offset))
        if execute:
            wanted = [TopicPartition(topic, index, offset) for group, topic, index, _, offset in rows if group == name]
            if wanted:
                request = [ConsumerGroupTopicPartitions(name, wanted)]
                (future,) = cluster.admin.alter_consumer_group_offsets(
                    request, request_timeout=REQUEST_TIMEOUT_S
                ).values()
                answer = result_of(f"group {name}", future)
                for tp in answer.topic_partitions:
                    if tp.error is not None:
                        raise CommandError(f"group {name}, {tp.topic}-{tp.partition}: {tp.error.str()}")
    if as_json:
        keys = ("group", "topic", "partition", "committed", "new_offset")
        print_json({"executed": execute, "offsets": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    print_table(("Group", "Topic", "Partition", "Committed", "New"), rows)
    if not execute:
        say("Nothing has changed yet: --execute applies it.")


def _scope(cluster: Cluster, scopes: list[str]) -> list[Partition]:
    partitions: list[Partition] = []
    for scope in scopes:
        topic, separator, listed = scope.partition(":")
        known = cluster.partitions_of(topic)
        if not separator:
            partitions += [(topic, index) for index in known]
            continue
        for text in listed.split(","):
            if not text.isdecimal():
                raise UsageError(f"--topic {scope}: write it as topic:0,1,2")
            if int(text) not in known:
                raise CommandError(f"topic {topic} has no partition {text}; it has {len(known)}, from 0 on")
            partitions.append((topic, int(text)))
    return list(dict.fromkeys(partitions))

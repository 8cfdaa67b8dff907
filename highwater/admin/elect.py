"""`highwater broker elect`: elects leaders, preferred ones or unclean ones."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from kio.schema.errors import ErrorCode

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    Partition,
    only_action,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
)
from highwater.admin.wire import ask_controller

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_NOTHING_TO_DO: Final = ErrorCode.election_not_needed


def elect(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    preferred: Annotated[bool, typer.Option("--preferred", help="Elect the first replica, if it is in sync.")] = False,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect a replica that is not in sync. RECORDS ARE LOST; needs --topic."),
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:P,P...]", help="A topic, or some of its partitions; may be repeated."),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every partition of the cluster.")] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Elect leaders. Exit code: 0 done, or nothing to do; 1 the cluster refused a partition; 2 wrong usage."""
    with reporting():
        election_type = {"--preferred": _PREFERRED, "--unclean": _UNCLEAN}[
            only_action({"--preferred": preferred, "--unclean": unclean})
        ]
        if bool(topic) == all_topics:
            raise UsageError("say which: --topic TOPIC[:P,P...] or --all-topics")
        if unclean and all_topics:
            raise UsageError("--unclean loses records: name with --topic the topics that may lose them")
        cluster = Cluster(bootstrap_server, command_config)
        places = [place for text in topic or cluster.topic_names for place in _places(cluster, text)]
        outcomes = _elect(cluster, election_type, places)
        failed = {place: text for place, text in outcomes.items() if text is not None}
        if as_json:
            print_json(
                [
                    {"topic": name, "partition": index, "error": outcomes[name, index]}
                    for name, index in sorted(outcomes)
                ]
            )
        elif failed:
            print_table(
                ("Partition", "Refused"), [(f"{name}-{index}", failed[name, index]) for name, index in sorted(failed)]
            )
        else:
            say(f"Elected leaders of {len(outcomes)} partitions." if outcomes else "No election was needed.")
        if failed:
            raise typer.Exit(1)


def _places(cluster: Cluster, text: str) -> list[Partition]:
    name, separator, numbers = text.rpartition(":")
    if not separator:
        return [(text, index) for index in cluster.partitions_of(text)]
    known = cluster.partitions_of(name)
    places = []
    for number in numbers.split(","):
        if not number.isdecimal() or int(number) not in known:
            raise CommandError(f"topic {name} has no partition {number}; it has {len(known)}, from 0 on")
        places.append((name, int(number)))
    return places


def _elect(cluster: Cluster, election_type: int, places: list[Partition]) -> dict[Partition, str | None]:
    """Return by partition None for an elected leader, or the error; without those that needed no election."""
    topics: dict[str, list[int]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(index)
    answer: Any = ask_controller(
        cluster,
        "elect_leaders",
        2,
        election_type=election_type,
        topic_partitions=[{"topic": name, "partitions": indexes} for name, indexes in topics.items()],
        timeout=REQUEST_TIMEOUT_S * 1000,
    )
    if answer.error_code is not ErrorCode.none:
        raise CommandError(f"the election was refused ({answer.error_code.name.upper()})")
    return {
        (result.topic, partition.partition_id): (
            None
            if partition.error_code is ErrorCode.none
            else f"{partition.error_message or ''} ({partition.error_code.name.upper()})".strip()
        )
        for result in answer.replica_election_results
        for partition in result.partition_result
        if partition.error_code is not _NOTHING_TO_DO
    }

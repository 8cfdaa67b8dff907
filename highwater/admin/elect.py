"""`highwater broker elect`: elects leaders, preferred ones or unclean ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

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
from highwater.kafka.requests.elect_leaders import PREFERRED, UNCLEAN, elect_leaders


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
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Elect leaders of all partitions of the cluster.")
    ] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Elect leaders. Exit code: 0 done, or nothing to do; 1 the cluster refused a partition; 2 usage error."""
    with reporting():
        election_type = {"--preferred": PREFERRED, "--unclean": UNCLEAN}[
            only_action({"--preferred": preferred, "--unclean": unclean})
        ]
        if bool(topic) == all_topics:
            raise UsageError("give --topic TOPIC[:P,P...] or --all-topics")
        if unclean and all_topics:
            raise UsageError("--unclean loses records: name with --topic the topics that may lose them")
        cluster = Cluster(bootstrap_server, command_config)
        places = [place for text in topic or cluster.topic_names for place in _places(cluster, text)]
        outcomes = _elect(cluster, election_type, places)
        failed = {place: text for place, text in outcomes.items() if text}
        if as_json:
            print_json(
                [
                    {"topic": name, "partition": index, "error": outcomes[name, index] or None}
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


def _elect(cluster: Cluster, election_type: int, places: list[Partition]) -> Mapping[Partition, str]:
    """Return by partition the error, empty for an elected leader; without those that needed no election."""
    answer = ask_controller(cluster, elect_leaders(election_type, places, int(REQUEST_TIMEOUT_S * 1000)))
    if answer.error:
        raise CommandError(f"the election was refused ({answer.error})")
    return answer.errors

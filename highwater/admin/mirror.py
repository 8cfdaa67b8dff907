"""`highwater broker mirror`: copies topics to another cluster, and continues after a crash."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer

from highwater.admin.client import REQUEST_TIMEOUT_S, Cluster, Partition, key_values
from highwater.admin.mirroring.copier import Copier
from highwater.admin.mirroring.offsets import take_along
from highwater.admin.mirroring.progress import lag
from highwater.admin.mirroring.topics import (
    PROGRESS_TOPIC_PREFIX,
    Selection,
    SourceTopic,
    make_alike,
    make_progress_topic,
    patterns,
    selected_topics,
    unmatched_names,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json_line,
    print_table,
    reporting,
    say_aside,
)
from highwater.kafka.topic_names import topic_name_problem

_TELL_INTERVAL_S: Final = 5.0
_REFRESH_INTERVAL_S: Final = 30.0
_GROUPS_INTERVAL_S: Final = 10.0


def mirror(
    source: Annotated[
        str, typer.Option("--source", metavar="HOST:PORT,...", help="The cluster to copy from.", show_default=False)
    ],
    target: Annotated[
        str, typer.Option("--target", metavar="HOST:PORT,...", help="The cluster to copy to.", show_default=False)
    ],
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", metavar="REGEX", help="Topics to copy, by whole name; may be repeated.", show_default=False
        ),
    ],
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="REGEX", help="Topics to leave out; may be repeated.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="REGEX", help="Groups whose offsets are copied too; may be repeated."),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--name", help="Name under which the progress is stored; only one mirror with a given name can run."
        ),
    ] = "default",
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix of the names of topics in the target.")] = "",
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            help="Replication factor of topics created in the target.",
            show_default="the source's",
        ),
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", help="Compression of records in the target: none, gzip, snappy, lz4, zstd.")
    ] = "lz4",
    once: Annotated[bool, typer.Option("--once", help="Exit when every record of the source is copied.")] = False,
    source_config: Annotated[
        Path | None,
        typer.Option("--source-config", metavar="FILE", help="A file of more client properties for the source."),
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option("--target-config", metavar="FILE", help="A file of more client properties for the target."),
    ] = None,
    client_properties: Annotated[
        list[str] | None,
        typer.Option("--client-property", metavar="NAME=VALUE", help="A property of both clients; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy topics with their partitions, order, timestamps, headers and keys, and keep copying until stopped.

    Consumers with isolation.level=read_committed see every record exactly once in the target, even after crashes of
    the mirror or of brokers. SIGTERM or Ctrl-C commits and ends. Exit codes: 0 done, 1 cannot continue, 2 usage error.
    """
    with reporting():
        selection = Selection(patterns(topic, "--topic"), patterns(exclude or (), "--exclude"))
        groups = patterns(group or (), "--group")
        if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
            raise UsageError(f"--compression {compression}: one of none, gzip, snappy, lz4, zstd")
        for option, text in (("--name", name), ("--prefix", prefix)):
            if text and (problem := topic_name_problem(text)):
                raise UsageError(f"{option} {text}: {problem}")
        properties = key_values(client_properties or (), "--client-property")
        run = _Run(
            Cluster(source, source_config, properties),
            Cluster(target, target_config, properties),
            selection,
            name,
            prefix,
            replication_factor,
            as_json=as_json,
        )
        run.check(topic)
        run.go(groups, compression, once=once)


class _Run:
    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        selection: Selection,
        name: str,
        prefix: str,
        replication_factor: int | None,
        *,
        as_json: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._name = name
        self._prefix = prefix
        self._replication_factor = replication_factor
        self._as_json = as_json
        self._topics: dict[str, SourceTopic] = {}
        self._told_count = 0
        self._told_ns = time.monotonic_ns()

    def check(self, topics: Sequence[str]) -> None:
        """Raises CommandError when the two clusters or the topics cannot be mirrored as given."""
        if not self._prefix and self._cluster_id(self._source) == self._cluster_id(self._target):
            raise UsageError("both are the same cluster, and a topic cannot be copied onto itself: give --prefix")
        for complaint in unmatched_names(self._source, topics):
            raise CommandError(f"the source: {complaint}")

    def _cluster_id(self, cluster: Cluster) -> str:
        described: Any = cluster.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result()
        return str(described.cluster_id)

    def go(self, groups: Sequence[Any], compression: str, *, once: bool) -> None:
        progress_topic = f"{PROGRESS_TOPIC_PREFIX}{self._name}"
        self._refresh_topics()
        make_progress_topic(self._target, progress_topic, self._replication_of_progress())
        copier = Copier(self._source, self._target, self._name, progress_topic, self._prefix, compression, self._say)
        try:
            with _stop_signals() as stopped:
                self._assign(copier)
                self._copy(copier, groups, stopped, once=once)
                self._tell(copier)
        finally:
            copier.close()

    def _replication_of_progress(self) -> int:
        wanted = self._replication_factor or max(
            (topic.replication_factor for topic in self._topics.values()), default=1
        )
        return min(wanted, len(self._target.metadata.brokers))

    def _copy(self, copier: Copier, groups: Sequence[Any], stopped: list[int], *, once: bool) -> None:
        refresh = _Every(_REFRESH_INTERVAL_S)
        take_groups = _Every(_GROUPS_INTERVAL_S)
        tell = _Every(_TELL_INTERVAL_S)
        while not stopped:
            copier.work()
            if once and copier.is_at_end:
                break
            if refresh.is_due():
                self._refresh_topics()
                self._assign(copier)
            if groups and take_groups.is_due():
                self._take_groups(copier, groups)
            if tell.is_due():
                self._tell(copier)
        copier.finish()
        if groups:
            self._take_groups(copier, groups)

    def _refresh_topics(self) -> None:
        found = selected_topics(self._source, self._selection)
        for topic in found.values():
            known = self._topics.get(topic.name)
            if known is not None and known.topic_id != topic.topic_id:
                raise _made_anew(topic.name)
            if known != topic:
                for what in make_alike(self._target, topic, self._prefix + topic.name, self._replication_factor):
                    self._say(what)
        self._topics |= found

    def _assign(self, copier: Copier) -> None:
        wanted = [(topic.name, index) for topic in self._topics.values() for index in range(topic.partition_count)]
        for place in wanted:
            known = copier.progress.get(place)
            if known is not None and known.topic_id != self._topics[place[0]].topic_id:
                raise _made_anew(place[0])
        starts = self._source.log_ranges(wanted)
        self._refuse_foreign_records([place for place in wanted if place not in copier.progress])
        copier.assign((place, self._topics[place[0]].topic_id, low) for place, (low, _) in starts.items())

    def _refuse_foreign_records(self, places: Sequence[Partition]) -> None:
        """Raises CommandError for a target partition that has records but no progress: copying would duplicate them."""
        ranges = self._target.log_ranges((self._prefix + topic, index) for topic, index in places)
        for (topic, index), (_, end) in sorted(ranges.items()):
            if end > 0:
                raise CommandError(
                    f"{topic}-{index} of the target has records, but the mirror {self._name} has no progress for it: "
                    "another producer or a mirror of another --name wrote them; give that --name, or another --prefix"
                )

    def _take_groups(self, copier: Copier, groups: Sequence[Any]) -> None:
        for group, count in take_along(self._source, self._target, groups, copier.progress, self._prefix).items():
            self._say(f"group {group}: offsets of {count} partitions")

    # Reporting

    def _say(self, text: str) -> None:
        say_aside(text)

    def _tell(self, copier: Copier) -> None:
        now_ns = time.monotonic_ns()
        rate = (copier.record_count - self._told_count) * 1e9 / max(now_ns - self._told_ns, 1)
        self._told_count, self._told_ns = copier.record_count, now_ns
        lags: dict[str, int] = {}
        ranges = copier.high_watermarks()
        for place, log_range in ranges.items():
            lags[place[0]] = lags.get(place[0], 0) + lag(copier.progress.get(place), log_range)
        if self._as_json:
            print_json_line({"copied": copier.record_count, "records_per_s": round(rate, 1), "lag": lags})
        else:
            unknown = sum(topic.partition_count for topic in self._topics.values()) - len(ranges)
            without = f", not counting {unknown} partitions whose end is not known" if unknown else ""
            print_table(
                ("Topic", "Partitions", "Lag"),
                [(name, self._topics[name].partition_count, lags.get(name)) for name in sorted(self._topics)],
                title=f"{copier.record_count} records copied, {rate:.0f}/s, {sum(lags.values())} behind{without}",
            )
        if copier.without_timestamp:
            self._say(f"warning: {copier.without_timestamp} records without a timestamp got the time of the copy")
            copier.without_timestamp = 0
        sys.stdout.flush()


def _made_anew(topic: str) -> CommandError:
    return CommandError(
        f"topic {topic} of the source was deleted and created again: delete its copy and mirror it under another --name"
    )


class _Every:
    def __init__(self, interval_s: float) -> None:
        self._interval_ns = int(interval_s * 1e9)
        self._last_ns = time.monotonic_ns()

    def is_due(self) -> bool:
        now_ns = time.monotonic_ns()
        if now_ns - self._last_ns < self._interval_ns:
            return False
        self._last_ns = now_ns
        return True


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Yield the list of received signals, so that a loop can finish its current step before it ends."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

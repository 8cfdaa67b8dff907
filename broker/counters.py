"""Counters as plain integers, incremented once for each request or batch, never for each record.

Nothing here is computed until somebody reads it (broker/metrics/exposition.py).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS, Api

BOUNDS_MS: Final = (
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500),
    *(1000, 2500, 5000, 10_000, 30_000),
)
_BOUNDS_NS: Final = tuple(int(bound * 1_000_000) for bound in BOUNDS_MS)


class Histogram:
    """Durations, counted by upper bound; the last bucket has none."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def observe(self, duration_ns: int, count: int = 1) -> None:
        self.counts[bisect_left(_BOUNDS_NS, duration_ns)] += count
        self.sum_ns += duration_ns * count


class RequestCounters:
    """The requests of one API.

    `queue` runs from the arrival of a request's last byte to its turn, `local` is the handler's own work, and `total`
    runs from the arrival to the whole answer, so it has the waiting for more bytes or for the disk too.
    """

    __slots__ = ("errors", "local", "name", "queue", "requests_by_version", "total")

    def __init__(self, api: Api) -> None:
        self.name = "".join(word.capitalize() for word in api.name.split("_"))
        """The name in Kafka's spelling: api_versions is ApiVersions."""
        self.requests_by_version = [0] * (api.max_version + 1)
        self.errors: dict[ErrorCode, int] = {}
        self.queue = Histogram()
        self.local = Histogram()
        self.total = Histogram()

    def handled(self, version: int, received_ns: int, started_ns: int, handled_ns: int, is_answered: bool) -> None:
        """Count a request when its handler is done; `total` of one that waits is observed when it is answered.

        This runs for every request, so the three histograms are written here without further calls.
        """
        self.requests_by_version[version] += 1
        queue, local = self.queue, self.local
        queue_ns = started_ns - received_ns
        queue.counts[bisect_left(_BOUNDS_NS, queue_ns)] += 1
        queue.sum_ns += queue_ns
        local_ns = handled_ns - started_ns
        local.counts[bisect_left(_BOUNDS_NS, local_ns)] += 1
        local.sum_ns += local_ns
        if is_answered:
            total = self.total
            total_ns = handled_ns - received_ns
            total.counts[bisect_left(_BOUNDS_NS, total_ns)] += 1
            total.sum_ns += total_ns

    def handled_together(
        self, version: int, count: int, received_ns: int, started_ns: int, handled_ns: int, is_answered: bool
    ) -> None:
        """Count requests that were handled and answered as one: the work of each is its share, and it waited else."""
        self.requests_by_version[version] += count
        local_ns, total_ns = (handled_ns - started_ns) // count, handled_ns - received_ns
        self.queue.observe(total_ns - local_ns, count)
        self.local.observe(local_ns, count)
        if is_answered:
            self.total.observe(total_ns, count)

    def failed(self, error_code: ErrorCode) -> None:
        self.errors[error_code] = self.errors.get(error_code, 0) + 1


class TopicCounters:
    """The traffic of one topic, or of all topics."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        """Produce requests, counted once for every partition of the topic they name, as Kafka does; so are fetches."""
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0

    def add(self, other: TopicCounters) -> None:
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.produces += other.produces
        self.fetches += other.fetches
        self.failed_produces += other.failed_produces
        self.failed_fetches += other.failed_fetches


class ZooKeeperCounters:
    def __init__(self) -> None:
        self.is_connected = False
        self.disconnects = 0
        self.expirations = 0
        self.latency = Histogram()


class BrokerCounters:
    def __init__(self) -> None:
        self.requests = {api.key: RequestCounters(api) for api in (*APIS.values(), *CLUSTER_APIS.values())}
        self.topics: dict[str, TopicCounters] = {}
        self.unknown_topics = TopicCounters()
        """Requests for unknown topics; they get no series, or a client could create any number of series."""
        self.log_flush = Histogram()
        self.event_loop_lag = Histogram()
        self.connections = 0
        self.connections_made = 0
        self.connections_refused = 0
        self.authentications = 0
        self.authentications_failed = 0
        self.authorizations_asked = 0
        """What the authorizer decided, denials included."""
        self.authorizations_denied = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.in_sync_shrinks = 0
        self.in_sync_expands = 0
        self.in_sync_changes_refused = 0
        self.fetches_from_disk = 0
        """Partitions of fetches whose records were not in the page cache."""
        self.produce_throttle_ms = 0
        self.fetch_throttle_ms = 0
        self.request_throttle_ms = 0
        self.mutation_throttle_ms = 0
        self._gone = TopicCounters()

    def failed(self, api_key: int, error_code: ErrorCode) -> None:
        self.requests[api_key].failed(error_code)

    def topic(self, name: str) -> TopicCounters:
        counters = self.topics.get(name)
        if counters is None:
            counters = self.topics[name] = TopicCounters()
        return counters

    def topic_deleted(self, name: str) -> None:
        """End the topic's own series; its counts stay in the broker's series."""
        counters = self.topics.pop(name, None)
        if counters is not None:
            self._gone.add(counters)

    def all_topics(self) -> TopicCounters:
        total = TopicCounters()
        for counters in (self._gone, self.unknown_topics, *self.topics.values()):
            total.add(counters)
        return total

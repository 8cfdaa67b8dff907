"""The body of a producer task without a client library: keep the schedule on plain sockets, time every acknowledgement.

One thread, one connection to each broker that leads one of the worker's partitions. The unit of work is a batch, so
what a record costs is what it costs to write its stamp, to checksum it and to hand it to the kernel. A record "leaves"
when its batch does; how late that was (`send_delay`) is reckoned from when the batch was to leave. Response latency
runs from the record's own intended time, so it contains the wait for the batch to fill; service latency is the rest.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from highwater.spark_loadgen.channel import TaskChannel
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.dealing import partitions_of
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.ledger import Ledger, ProducerReport, Totals
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import pool_start
from highwater.spark_loadgen.sampling import sampling_stride
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.windows import SECOND_NS
from highwater.spark_loadgen.wire.batch import HEADER_BYTES, NO_PLACE, BatchBuffer, BodyPool, Place, encode_headers
from highwater.spark_loadgen.wire.compression import compression_of
from highwater.spark_loadgen.wire.connection import Connection, addresses_of, fetch_cluster, fetch_producer_id
from highwater.spark_loadgen.wire.departures import ClosedDepartures, Departure, Departures, ScheduledDepartures
from highwater.spark_loadgen.wire.lanes import Batch, Lane
from highwater.spark_loadgen.wire.protocol import (
    DUPLICATE_SEQUENCE,
    OUT_OF_SEQUENCE,
    RETRIABLE,
    STALE_METADATA,
    Cluster,
    MalformedAnswerError,
    ProducePrefix,
    correlation_of,
    parse_produce,
)
from highwater.spark_loadgen.wire.settings import WireSettings

_ACCOUNTS_NS: Final = 5_000_000
_IDLE_NS_MAX: Final = 20_000_000
# What is due and has not left waits for the network, or for a broker that holds its clients back.
_OVERDUE_WAIT_NS: Final = 1_000_000
_REFRESH_NS: Final = 250_000_000
_STOPPED_DRAIN_S: Final = 5
_UNKNOWN_TOPIC: Final = 3


class WireProducer:
    """One worker's load, with the face of ProducerLoad."""

    def __init__(self, plan: LoadPlan, worker: int, magic: int, content: Content) -> None:
        """Raises LoadSetupError for what this driver cannot do, or not here."""
        self._plan = plan
        self._worker = worker
        self._settings = settings = WireSettings.of(plan.producer_config)
        self._lanes = [Lane(topic, partition) for topic, partition in partitions_of_producer(plan, worker)]
        self._prefixes = {
            (lane.topic, lane.partition): ProducePrefix(
                settings.client_id, settings.acks, settings.request_timeout_ms, lane.topic, lane.partition
            )
            for lane in self._lanes
        }
        self._new_buffer = _buffers(plan, worker, magic, content, settings, self._prefixes.values())
        first_buffer = self._new_buffer()
        self._spare_buffers = [first_buffer]
        self._value_bytes = len(content.pool[0]) + STAMP_BYTES
        self._departures = _departures(plan, worker, first_buffer.records_max, settings.linger_ns)
        self._stride = sampling_stride(plan)
        self._ledger = Ledger(plan)
        self._bootstrap = addresses_of(plan.bootstrap_servers)
        self._cluster = Cluster({}, {}, {})
        self._producer_id = -1
        self._connections: dict[int, Connection] = {}
        self._next_lane = 0
        self._sent = 0
        self._acked = 0
        self._failed_sequences: list[int] = []
        self._backpressure = 0
        self._next_accounts_ns = 0
        self._t0_ns = 0
        self._refresher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
        self._refreshing: Future[Cluster] | None = None
        self._next_refresh_ns = 0

    # --- before the load ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find the leaders and connect to them. Raises LoadSetupError."""
        try:
            self._take(fetch_cluster(self._bootstrap, self._settings.client_id, self._plan.topics))
            if self._settings.idempotence:
                self._producer_id = fetch_producer_id(self._bootstrap, self._settings.client_id)
        except OSError as error:
            raise LoadSetupError(
                f"no broker answers at {self._plan.bootstrap_servers}: {error.strerror or error}"
            ) from error
        except MalformedAnswerError as error:
            raise LoadSetupError(
                f"the broker at {self._plan.bootstrap_servers} speaks {error}; use the client driver"
            ) from error
        self._check_topics()
        try:
            for lane in self._lanes:
                if lane.leader >= 0:
                    self._connection_of(lane)
        except OSError as error:
            raise LoadSetupError(f"cannot connect to the partitions' leaders: {error.strerror or error}") from error

    def _check_topics(self) -> None:
        servers, cluster = self._plan.bootstrap_servers, self._cluster
        for topic in self._plan.topics:
            found = sum(1 for other, _ in cluster.leaders if other == topic)
            if cluster.errors.get(topic) == _UNKNOWN_TOPIC:
                raise LoadSetupError(f"topic {topic} does not exist at {servers}; create it first")
            if found != self._plan.partitions:
                raise LoadSetupError(f"topic {topic} has {found} partitions, the plan says {self._plan.partitions}")

    # --- the load ----------------------------------------------------------------------------------------------------

    def run(self, t0_ns: int, channel: TaskChannel) -> ProducerReport:
        """Keep the schedule from `t0_ns` (monotonic) and wait for what is outstanding. Returns the measurements."""
        self._t0_ns = t0_ns
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._ledger.start()
        self._send_all(channel)
        self._wait_for_acks(channel)
        elapsed_ns = self._elapsed_ns()
        self._ledger.account(elapsed_ns, self._totals())
        self._ledger.turn(elapsed_ns)
        return self._ledger.report(self._failed_sequences, self._backpressure)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._refresher.shutdown(wait=False, cancel_futures=True)

    def _send_all(self, channel: TaskChannel) -> None:
        """Send the whole schedule and stay to its end; a sender that fell behind gets the time of the drain as well."""
        end_ns = self._plan.schedule_s * SECOND_NS
        self._departures.end_at(end_ns)
        while not channel.stop.is_set():
            if channel.phases.end_ns != end_ns:
                end_ns = channel.phases.end_ns
                self._departures.end_at(end_ns)
            elapsed_ns = self._elapsed_ns()
            all_sent = self._departures.next_ns > end_ns
            if elapsed_ns > end_ns + self._plan.drain_max_s * SECOND_NS or (all_sent and elapsed_ns >= end_ns):
                break
            self._send_due()
            self._step(channel, until_ns=min(self._departures.next_ns, max(end_ns, elapsed_ns)))

    def _wait_for_acks(self, channel: TaskChannel) -> None:
        drain_s = min(_STOPPED_DRAIN_S, self._plan.drain_max_s) if channel.stop.is_set() else self._plan.drain_max_s
        deadline_ns = self._elapsed_ns() + drain_s * SECOND_NS
        while any(lane.in_flight or lane.retries for lane in self._lanes) and self._elapsed_ns() < deadline_ns:
            self._send_again()
            self._step(channel, until_ns=deadline_ns)
        left = [batch for connection in self._connections.values() for _, _, batch, _ in connection.in_flight]
        left += [batch for lane in self._lanes for batch in lane.retries]
        for batch in left:
            self._fail(batch.departure, "no acknowledgement before the end of the load")
        if all(lane.leader < 0 for lane in self._lanes) and not channel.stop.is_set():
            self._fail_next()

    def _fail_next(self) -> None:
        """Nobody is left to send to: the batch that was next has failed; those after it were never sent."""
        if (departure := self._departures.take(self._elapsed_ns())) is not None:
            self._sent += departure.count
            self._fail(departure, "no broker leads its partition")

    def _step(self, channel: TaskChannel, until_ns: int) -> None:
        """Wait for the network, at the longest until an instant, and take what it brings; then the books."""
        connections = list(self._connections.items())
        by_socket = {connection.socket: (broker, connection) for broker, connection in connections}
        writers = [connection.socket for _, connection in connections if connection.sending]
        wait_ns = min(max(until_ns - self._elapsed_ns(), _OVERDUE_WAIT_NS), _IDLE_NS_MAX)
        readable, writable, _ = select.select(list(by_socket), writers, [], wait_ns / 1e9)
        for socket in writable:
            self._guarded(*by_socket[socket], self._push)
        for socket in readable:
            self._guarded(*by_socket[socket], self._take_answers)
        self._look_after(channel)

    def _look_after(self, channel: TaskChannel) -> None:
        elapsed_ns = self._elapsed_ns()
        turned = self._ledger.turn(elapsed_ns)
        if elapsed_ns < self._next_accounts_ns and not turned:
            return
        self._next_accounts_ns = elapsed_ns + _ACCOUNTS_NS
        self._ledger.account(elapsed_ns, self._totals())
        if turned:
            channel.send(self._ledger.progress())
        self._refresh(elapsed_ns)
        self._give_up(elapsed_ns)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_due(self) -> None:
        """Send all that is to leave by now, as far as connections take it."""
        self._send_again()
        while self._departures.next_ns <= self._elapsed_ns():
            lane = self._free_lane()
            if lane is None:
                self._backpressure += 1
                return
            elapsed_ns = self._elapsed_ns()
            departure = self._departures.take(elapsed_ns)
            if departure is None:
                return
            self._sent += departure.count
            intended_ns = self._departures.intended_ns(departure)
            timed_ns = intended_ns[-departure.first % self._stride :: self._stride].copy()
            self._send(lane, Batch(departure, elapsed_ns, timed_ns), intended_ns)

    def _send_again(self) -> None:
        for lane in self._lanes:
            if lane.retries and self._is_free(lane) and (batch := lane.again(self._elapsed_ns())) is not None:
                self._send(lane, batch, self._departures.intended_ns(batch.departure))

    def _free_lane(self) -> Lane | None:
        """The next partition in turn whose broker can take a request."""
        for step in range(len(self._lanes)):
            at = (self._next_lane + step) % len(self._lanes)
            if self._lanes[at].takes_new and self._is_free(self._lanes[at]):
                self._next_lane = at + 1
                return self._lanes[at]
        return None

    def _is_free(self, lane: Lane) -> bool:
        connection = self._connections.get(lane.leader)
        return (
            connection is not None
            and not connection.sending
            and len(connection.in_flight) < self._settings.in_flight_max
            and connection.quiet_until_ns <= self._elapsed_ns()
        )

    def _send(self, lane: Lane, batch: Batch, intended_ns: NDArray[np.int64]) -> None:
        connection, departure = self._connections[lane.leader], batch.departure
        buffer = connection.buffer
        buffer.fill(departure.first, departure.count, intended_ns, self._place_of(lane, batch))
        correlation = connection.next_correlation()
        prefix = self._prefixes[lane.topic, lane.partition].encode(correlation, buffer.batch_bytes)
        lane.in_flight += 1
        connection.in_flight.append((correlation, lane, batch, self._elapsed_ns()))
        connection.start(buffer.frame(prefix))
        self._guarded(lane.leader, connection, self._push)

    def _place_of(self, lane: Lane, batch: Batch) -> Place:
        if not self._settings.idempotence:
            return NO_PLACE
        lane.number(batch)
        return Place(self._producer_id, batch.epoch, batch.base_sequence)

    def _push(self, connection: Connection) -> None:
        if connection.push() and not self._settings.acks:
            # Nobody answers: handed to the kernel is all there is to know.
            while connection.in_flight:
                _, lane, batch, _ = connection.in_flight.popleft()
                lane.in_flight -= 1
                self._acknowledge(batch, self._elapsed_ns())

    # --- answers -----------------------------------------------------------------------------------------------------

    def _take_answers(self, connection: Connection) -> None:
        for answer in connection.answers():
            acked_ns = self._elapsed_ns()
            if not self._settings.acks:  # some brokers answer all the same
                continue
            if not connection.in_flight or connection.in_flight[0][0] != correlation_of(answer):
                raise MalformedAnswerError("an answer to a request that was not made")
            _, lane, batch, _ = connection.in_flight.popleft()
            lane.in_flight -= 1
            error, throttle_ms = parse_produce(answer)
            if throttle_ms > 0:
                connection.quiet_until_ns = acked_ns + throttle_ms * 1_000_000
                self._ledger.errors["throttled by the broker"] += 1
            if not error or error == DUPLICATE_SEQUENCE:
                self._acknowledge(batch, acked_ns)
            elif error in OUT_OF_SEQUENCE and self._settings.idempotence:
                self._ledger.errors[KafkaError(error).str()] += 1
                lane.out_of_sequence(batch, acked_ns)
            elif error in RETRIABLE:
                self._ledger.errors[KafkaError(error).str()] += 1
                lane.failed(batch, acked_ns)
                if error in STALE_METADATA:
                    lane.leader = -1
            else:
                self._fail(batch.departure, KafkaError(error).str())

    def _acknowledge(self, batch: Batch, acked_ns: int) -> None:
        self._acked += batch.departure.count
        if len(batch.timed_ns):
            sent_ns: NDArray[np.int64] = batch.timed_ns + batch.lateness_ns
            self._ledger.record_sends(batch.timed_ns, sent_ns)
            self._ledger.record_acks(batch.timed_ns, sent_ns, np.full(len(sent_ns), acked_ns))

    def _fail(self, departure: Departure, reason: str) -> None:
        first, count = departure.first, departure.count
        self._failed_sequences.extend(range(first, first + count))
        self._ledger.errors[reason] += count

    def _give_up(self, elapsed_ns: int) -> None:
        limit_ns = elapsed_ns - self._settings.delivery_timeout_ms * 1_000_000
        for lane in self._lanes:
            for batch in lane.give_up(sent_before_ns=limit_ns):
                self._fail(batch.departure, f"not delivered within {self._settings.delivery_timeout_ms} ms")
        oldest_ns = elapsed_ns - self._settings.request_timeout_ms * 1_000_000
        for broker, connection in list(self._connections.items()):
            if connection.in_flight and connection.in_flight[0][3] < oldest_ns:
                self._lose(broker, connection, f"no answer within {self._settings.request_timeout_ms} ms")

    # --- brokers that come and go ------------------------------------------------------------------------------------

    def _guarded(self, broker: int, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Do something with a connection that may break by it."""
        try:
            act(connection)
        except OSError as error:
            self._lose(broker, connection, error.strerror or str(error))
        except MalformedAnswerError as error:
            self._lose(broker, connection, str(error))

    def _lose(self, broker: int, connection: Connection, reason: str) -> None:
        """What was on its way has an unknown fate: sent again, it may be there twice without idempotence."""
        if self._connections.get(broker) is not connection:
            return
        del self._connections[broker]
        connection.close()
        self._spare_buffers.append(connection.buffer)
        host, port = connection.address
        self._ledger.errors[f"{host}:{port}: {reason}"] += 1
        elapsed_ns = self._elapsed_ns()
        for _, lane, batch, _ in connection.in_flight:
            lane.in_flight -= 1
            lane.failed(batch, elapsed_ns)
        for lane in self._lanes:
            if lane.leader == broker:
                lane.leader = -1

    def _refresh(self, elapsed_ns: int) -> None:
        """While a partition has no leader, ask for one; in a thread, so that the other partitions go on."""
        if self._refreshing is not None:
            if not self._refreshing.done():
                return
            done, self._refreshing = self._refreshing, None
            if done.exception() is None:
                self._take(done.result())
                self._connect_all()
        if any(lane.leader < 0 for lane in self._lanes) and elapsed_ns >= self._next_refresh_ns:
            self._next_refresh_ns = elapsed_ns + _REFRESH_NS
            known = [*self._cluster.brokers.values(), *self._bootstrap]
            client_id, topics = self._settings.client_id, self._plan.topics
            self._refreshing = self._refresher.submit(fetch_cluster, known, client_id, topics)

    def _take(self, cluster: Cluster) -> None:
        self._cluster = cluster
        for lane in self._lanes:
            leader = cluster.leaders.get((lane.topic, lane.partition), -1)
            lane.leader = leader if leader in cluster.brokers else -1

    def _connect_all(self) -> None:
        for lane in self._lanes:
            if lane.leader >= 0:
                try:
                    self._connection_of(lane)
                except OSError as error:
                    self._ledger.errors[error.strerror or str(error)] += 1
                    lane.leader = -1

    def _connection_of(self, lane: Lane) -> Connection:
        if lane.leader not in self._connections:
            buffer = self._spare_buffers.pop() if self._spare_buffers else self._new_buffer()
            address = self._cluster.brokers[lane.leader]
            self._connections[lane.leader] = Connection(address, buffer, self._settings.send_buffer_bytes)
        return self._connections[lane.leader]

    # --- books -------------------------------------------------------------------------------------------------------

    def _elapsed_ns(self) -> int:
        return time.monotonic_ns() - self._t0_ns

    def _totals(self) -> Totals:
        return Totals(
            sent=self._sent,
            acked=self._acked,
            acked_bytes=self._acked * self._value_bytes,
            failed=len(self._failed_sequences),
        )


def partitions_of_producer(plan: LoadPlan, worker: int) -> list[tuple[str, int]]:
    """The partitions that a worker sends to: a share of its own; with fewer partitions than workers some share one."""
    members = min(plan.producers, plan.partitions * len(plan.topics))
    return partitions_of(plan.topics, plan.partitions, members, worker % members)


def _buffers(
    plan: LoadPlan,
    worker: int,
    magic: int,
    content: Content,
    settings: WireSettings,
    prefixes: Iterable[ProducePrefix],
) -> Callable[[], BatchBuffer]:
    """What makes the buffer of a connection."""
    records_max = min(settings.batch_records_max, max(1, settings.batch_bytes // (len(content.pool[0]) + STAMP_BYTES)))
    pool = BodyPool(content.pool, pool_start(worker, plan.producers, content.pool), records_max)
    headers, room = encode_headers(content.headers), max(prefix.size_bytes for prefix in prefixes)
    batch_bytes = max(settings.batch_bytes, HEADER_BYTES)
    compression = compression_of(settings.codec, settings.compression_level)

    def make() -> BatchBuffer:
        return BatchBuffer(worker, magic, pool, headers, batch_bytes, records_max, room, compression)

    return make


def _departures(plan: LoadPlan, worker: int, records_max: int, linger_ns: int) -> Departures:
    schedule = plan.arrivals
    if schedule is None:
        return ClosedDepartures(plan.schedule_s * SECOND_NS, records_max)
    return ScheduledDepartures(schedule, worker, records_max, linger_ns)

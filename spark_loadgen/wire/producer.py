"""A producer task of the wire driver: sends batches on schedule over plain sockets and times them.

One thread, one connection to each broker that leads one of the worker's partitions. The unit of work is a batch, so the
cost of a record is only its stamp, its part of the checksum and its copy into the kernel. A record is sent when its
batch is; `send_delay` runs from the time at which the batch was due. Response latency runs from the record's own
intended time, so it includes the wait for a full batch; service latency is the rest.
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

from highwater.spark_loadgen.assignment import assigned_partitions
from highwater.spark_loadgen.channel import TaskChannel
from highwater.spark_loadgen.compression import compression_of
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.new_topics import ask_until
from highwater.spark_loadgen.payload import pool_start
from highwater.spark_loadgen.producer_metrics import ProducerMetrics, ProducerReport, Totals
from highwater.spark_loadgen.sampling import sampling_stride
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.telemetry.publisher import Publisher
from highwater.spark_loadgen.windows import SECOND_NS
from highwater.spark_loadgen.wire.batch import (
    HEADER_BYTES,
    NO_SEQUENCE,
    BatchBuffer,
    BodyPool,
    ProducerSequence,
    encode_headers,
)
from highwater.spark_loadgen.wire.batching import BatchSchedule, ClosedLoopBatches, DueRecords, OpenLoopBatches
from highwater.spark_loadgen.wire.connection import Connection, addresses_of, fetch_cluster, fetch_producer_id
from highwater.spark_loadgen.wire.partition_state import Batch, PartitionState
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
from highwater.spark_loadgen.wire_settings import WireSettings

_TOTALS_NS: Final = 5_000_000
_IDLE_NS_MAX: Final = 20_000_000
# A batch that is due but not sent waits for the network, or for a broker that throttles its clients.
_OVERDUE_WAIT_NS: Final = 1_000_000
_REFRESH_NS: Final = 250_000_000
_STOPPED_DRAIN_S: Final = 5
_UNKNOWN_TOPIC: Final = 3


class WireProducer:
    """The load of one worker, with the interface of ProducerLoad."""

    def __init__(self, plan: LoadPlan, worker: int, magic: int, content: Content) -> None:
        """Raises LoadSetupError when this driver cannot run the plan, or a package is missing."""
        self._plan = plan
        self._worker = worker
        self._settings = settings = WireSettings.of(plan.producer_config)
        self._partitions = [
            PartitionState(topic, partition) for topic, partition in partitions_of_producer(plan, worker)
        ]
        self._prefixes = {
            (partition.topic, partition.partition): ProducePrefix(
                settings.client_id, settings.acks, settings.request_timeout_ms, partition.topic, partition.partition
            )
            for partition in self._partitions
        }
        self._new_buffer = _buffers(plan, worker, magic, content, settings, self._prefixes.values())
        first_buffer = self._new_buffer()
        self._spare_buffers = [first_buffer]
        self._value_bytes = len(content.pool[0]) + STAMP_BYTES
        self._batches = _batch_schedule(plan, worker, first_buffer.records_max, settings.linger_ns)
        self._stride = sampling_stride(plan)
        self._metrics = ProducerMetrics(plan)
        self._bootstrap = addresses_of(plan.bootstrap_servers)
        self._cluster = Cluster({}, {}, {})
        self._producer_id = -1
        self._connections: dict[int, Connection] = {}
        self._next_partition = 0
        self._sent = 0
        self._acked = 0
        self._failed_sequences: list[int] = []
        self._backpressure = 0
        self._publisher: Publisher | None = None
        self._next_totals_ns = 0
        self._t0_ns = 0
        self._refresher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
        self._refreshing: Future[Cluster] | None = None
        self._next_refresh_ns = 0

    # --- before the load ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find the leaders and connect to them. Raises LoadSetupError."""
        try:
            cluster = ask_until(
                lambda: fetch_cluster(self._bootstrap, self._settings.client_id, self._plan.topics),
                lambda found: _UNKNOWN_TOPIC not in found.errors.values(),
            )
            self._update_leaders(cluster)
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
            for partition in self._partitions:
                if partition.leader >= 0:
                    self._connection_of(partition)
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

    def run(self, t0_ns: int, channel: TaskChannel, publisher: Publisher | None = None) -> ProducerReport:
        """Send on schedule from `t0_ns` (CLOCK_MONOTONIC) on, wait for outstanding records, return the measurements."""
        self._publisher = publisher
        self._t0_ns = t0_ns
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._metrics.start()
        self._send_all(channel)
        self._wait_for_acks(channel)
        elapsed_ns = self._elapsed_ns()
        self._metrics.record_totals(elapsed_ns, self._totals())
        self._metrics.advance(elapsed_ns)
        if publisher is not None:
            publisher.offer(self._metrics.changes, last=True)
        return self._metrics.report(self._failed_sequences, self._backpressure)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._refresher.shutdown(wait=False, cancel_futures=True)

    def _send_all(self, channel: TaskChannel) -> None:
        """Send the whole schedule and wait for its end. A sender that is late may also use the time of the drain."""
        end_ns = self._plan.schedule_s * SECOND_NS
        self._batches.end_at(end_ns)
        while not channel.stop.is_set():
            if channel.phases.end_ns != end_ns:
                end_ns = channel.phases.end_ns
                self._batches.end_at(end_ns)
            elapsed_ns = self._elapsed_ns()
            all_sent = self._batches.next_ns > end_ns
            if elapsed_ns > end_ns + self._plan.drain_max_s * SECOND_NS or (all_sent and elapsed_ns >= end_ns):
                break
            self._send_due()
            self._step(channel, until_ns=min(self._batches.next_ns, max(end_ns, elapsed_ns)))

    def _wait_for_acks(self, channel: TaskChannel) -> None:
        drain_s = min(_STOPPED_DRAIN_S, self._plan.drain_max_s) if channel.stop.is_set() else self._plan.drain_max_s
        deadline_ns = self._elapsed_ns() + drain_s * SECOND_NS
        while (
            any(partition.in_flight or partition.retries for partition in self._partitions)
            and self._elapsed_ns() < deadline_ns
        ):
            self._send_retries()
            self._step(channel, until_ns=deadline_ns)
        left = [batch for connection in self._connections.values() for _, _, batch, _ in connection.in_flight]
        left += [batch for partition in self._partitions for batch in partition.retries]
        for batch in left:
            self._fail(batch.records, "no acknowledgement before the end of the load")
        if all(partition.leader < 0 for partition in self._partitions) and not channel.stop.is_set():
            self._fail_next()

    def _fail_next(self) -> None:
        """No partition has a leader: the next batch counts as failed, later ones as never sent."""
        if (records := self._batches.take(self._elapsed_ns())) is not None:
            self._sent += records.count
            self._fail(records, "no broker leads its partition")

    def _step(self, channel: TaskChannel, until_ns: int) -> None:
        """Wait for the network, at most until `until_ns`, handle what is ready, then do the periodic work."""
        connections = list(self._connections.items())
        by_socket = {connection.socket: (broker, connection) for broker, connection in connections}
        writers = [connection.socket for _, connection in connections if connection.sending]
        wait_ns = min(max(until_ns - self._elapsed_ns(), _OVERDUE_WAIT_NS), _IDLE_NS_MAX)
        readable, writable, _ = select.select(list(by_socket), writers, [], wait_ns / 1e9)
        for socket in writable:
            self._guarded(*by_socket[socket], self._push)
        for socket in readable:
            self._guarded(*by_socket[socket], self._take_answers)
        self._tick(channel)

    def _tick(self, channel: TaskChannel) -> None:
        elapsed_ns = self._elapsed_ns()
        second_ended = self._metrics.advance(elapsed_ns)
        if elapsed_ns < self._next_totals_ns and not second_ended:
            return
        self._next_totals_ns = elapsed_ns + _TOTALS_NS
        self._metrics.record_totals(elapsed_ns, self._totals())
        if second_ended:
            channel.send(self._metrics.progress())
            if self._publisher is not None:
                self._publisher.offer(self._metrics.changes)
        self._refresh(elapsed_ns)
        self._expire(elapsed_ns)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_due(self) -> None:
        """Send all batches that are due, as far as connections accept them."""
        self._send_retries()
        while self._batches.next_ns <= self._elapsed_ns():
            partition = self._free_partition()
            if partition is None:
                self._backpressure += 1
                return
            elapsed_ns = self._elapsed_ns()
            records = self._batches.take(elapsed_ns)
            if records is None:
                return
            self._sent += records.count
            intended_ns = self._batches.intended_ns(records)
            timed_ns = intended_ns[-records.first % self._stride :: self._stride].copy()
            self._send(partition, Batch(records, elapsed_ns, timed_ns), intended_ns)

    def _send_retries(self) -> None:
        for partition in self._partitions:
            if (
                partition.retries
                and self._is_free(partition)
                and (batch := partition.next_retry(self._elapsed_ns())) is not None
            ):
                self._send(partition, batch, self._batches.intended_ns(batch.records))

    def _free_partition(self) -> PartitionState | None:
        """The next partition in turn whose broker can accept a request."""
        for step in range(len(self._partitions)):
            at = (self._next_partition + step) % len(self._partitions)
            if self._partitions[at].accepts_new and self._is_free(self._partitions[at]):
                self._next_partition = at + 1
                return self._partitions[at]
        return None

    def _is_free(self, partition: PartitionState) -> bool:
        connection = self._connections.get(partition.leader)
        return (
            connection is not None
            and not connection.sending
            and len(connection.in_flight) < self._settings.in_flight_max
            and connection.throttled_until_ns <= self._elapsed_ns()
        )

    def _send(self, partition: PartitionState, batch: Batch, intended_ns: NDArray[np.int64]) -> None:
        connection, records = self._connections[partition.leader], batch.records
        buffer = connection.buffer
        buffer.fill(records.first, records.count, intended_ns, self._sequence_of(partition, batch))
        correlation = connection.next_correlation()
        prefix = self._prefixes[partition.topic, partition.partition].encode(correlation, buffer.batch_bytes)
        partition.in_flight += 1
        connection.in_flight.append((correlation, partition, batch, self._elapsed_ns()))
        connection.start(buffer.frame(prefix))
        self._guarded(partition.leader, connection, self._push)

    def _sequence_of(self, partition: PartitionState, batch: Batch) -> ProducerSequence:
        if not self._settings.idempotence:
            return NO_SEQUENCE
        partition.assign_sequence(batch)
        return ProducerSequence(self._producer_id, batch.epoch, batch.base_sequence)

    def _push(self, connection: Connection) -> None:
        if connection.push() and not self._settings.acks:
            # With acks=0 the broker sends no answer: a record that the kernel has accepted counts as acknowledged.
            while connection.in_flight:
                _, partition, batch, _ = connection.in_flight.popleft()
                partition.in_flight -= 1
                self._acknowledge(batch, self._elapsed_ns())

    # --- answers -----------------------------------------------------------------------------------------------------

    def _take_answers(self, connection: Connection) -> None:
        for answer in connection.answers():
            acked_ns = self._elapsed_ns()
            if not self._settings.acks:  # some brokers answer nevertheless
                continue
            if not connection.in_flight or connection.in_flight[0][0] != correlation_of(answer):
                raise MalformedAnswerError("an answer to a request that was not sent")
            _, partition, batch, _ = connection.in_flight.popleft()
            partition.in_flight -= 1
            error, throttle_ms = parse_produce(answer)
            if throttle_ms > 0:
                connection.throttled_until_ns = acked_ns + throttle_ms * 1_000_000
                self._metrics.errors["throttled by the broker"] += 1
            if not error or error == DUPLICATE_SEQUENCE:
                self._acknowledge(batch, acked_ns)
            elif error in OUT_OF_SEQUENCE and self._settings.idempotence:
                self._metrics.errors[KafkaError(error).str()] += 1
                partition.on_out_of_sequence(batch, acked_ns)
            elif error in RETRIABLE:
                self._metrics.errors[KafkaError(error).str()] += 1
                partition.add_retry(batch, acked_ns)
                if error in STALE_METADATA:
                    partition.leader = -1
            else:
                self._fail(batch.records, KafkaError(error).str())

    def _acknowledge(self, batch: Batch, acked_ns: int) -> None:
        self._acked += batch.records.count
        if len(batch.timed_ns):
            sent_ns: NDArray[np.int64] = batch.timed_ns + batch.lateness_ns
            self._metrics.record_sends(batch.timed_ns, sent_ns)
            self._metrics.record_acks(batch.timed_ns, sent_ns, np.full(len(sent_ns), acked_ns))

    def _fail(self, records: DueRecords, reason: str) -> None:
        first, count = records.first, records.count
        self._failed_sequences.extend(range(first, first + count))
        self._metrics.errors[reason] += count

    def _expire(self, elapsed_ns: int) -> None:
        limit_ns = elapsed_ns - self._settings.delivery_timeout_ms * 1_000_000
        for partition in self._partitions:
            for batch in partition.expire(sent_before_ns=limit_ns):
                self._fail(batch.records, f"not delivered within {self._settings.delivery_timeout_ms} ms")
        oldest_ns = elapsed_ns - self._settings.request_timeout_ms * 1_000_000
        for broker, connection in list(self._connections.items()):
            if connection.in_flight and connection.in_flight[0][3] < oldest_ns:
                self._drop(broker, connection, f"no answer within {self._settings.request_timeout_ms} ms")

    # --- brokers that come and go ------------------------------------------------------------------------------------

    def _guarded(self, broker: int, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Call `act` with a connection; drop the connection if that raises."""
        try:
            act(connection)
        except OSError as error:
            self._drop(broker, connection, error.strerror or str(error))
        except MalformedAnswerError as error:
            self._drop(broker, connection, str(error))

    def _drop(self, broker: int, connection: Connection, reason: str) -> None:
        """Drop a connection and resend its requests in flight. Without idempotence these may be in the log twice."""
        if self._connections.get(broker) is not connection:
            return
        del self._connections[broker]
        connection.close()
        self._spare_buffers.append(connection.buffer)
        host, port = connection.address
        self._metrics.errors[f"{host}:{port}: {reason}"] += 1
        elapsed_ns = self._elapsed_ns()
        for _, partition, batch, _ in connection.in_flight:
            partition.in_flight -= 1
            partition.add_retry(batch, elapsed_ns)
        for partition in self._partitions:
            if partition.leader == broker:
                partition.leader = -1

    def _refresh(self, elapsed_ns: int) -> None:
        """Fetch metadata while a partition has no leader; in a thread, so that the other partitions continue."""
        if self._refreshing is not None:
            if not self._refreshing.done():
                return
            done, self._refreshing = self._refreshing, None
            if done.exception() is None:
                self._update_leaders(done.result())
                self._connect_all()
        if any(partition.leader < 0 for partition in self._partitions) and elapsed_ns >= self._next_refresh_ns:
            self._next_refresh_ns = elapsed_ns + _REFRESH_NS
            known = [*self._cluster.brokers.values(), *self._bootstrap]
            client_id, topics = self._settings.client_id, self._plan.topics
            self._refreshing = self._refresher.submit(fetch_cluster, known, client_id, topics)

    def _update_leaders(self, cluster: Cluster) -> None:
        self._cluster = cluster
        for partition in self._partitions:
            leader = cluster.leaders.get((partition.topic, partition.partition), -1)
            partition.leader = leader if leader in cluster.brokers else -1

    def _connect_all(self) -> None:
        for partition in self._partitions:
            if partition.leader >= 0:
                try:
                    self._connection_of(partition)
                except OSError as error:
                    self._metrics.errors[error.strerror or str(error)] += 1
                    partition.leader = -1

    def _connection_of(self, partition: PartitionState) -> Connection:
        if partition.leader not in self._connections:
            buffer = self._spare_buffers.pop() if self._spare_buffers else self._new_buffer()
            address = self._cluster.brokers[partition.leader]
            self._connections[partition.leader] = Connection(address, buffer, self._settings.send_buffer_bytes)
        return self._connections[partition.leader]

    # --- counts ------------------------------------------------------------------------------------------------------

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
    """The partitions that a worker sends to: a share of its own; with too few partitions, workers share one."""
    members = min(plan.producers, plan.partitions * len(plan.topics))
    return assigned_partitions(plan.topics, plan.partitions, members, worker % members)


def _buffers(
    plan: LoadPlan,
    worker: int,
    magic: int,
    content: Content,
    settings: WireSettings,
    prefixes: Iterable[ProducePrefix],
) -> Callable[[], BatchBuffer]:
    """A function that makes the buffer of a connection."""
    records_max = min(settings.batch_records_max, max(1, settings.batch_bytes // (len(content.pool[0]) + STAMP_BYTES)))
    pool = BodyPool(content.pool, pool_start(worker, plan.producers, content.pool), records_max)
    headers, room = encode_headers(content.headers), max(prefix.size_bytes for prefix in prefixes)
    batch_bytes = max(settings.batch_bytes, HEADER_BYTES)
    compression = compression_of(settings.codec, settings.compression_level)

    def make() -> BatchBuffer:
        return BatchBuffer(worker, magic, pool, headers, batch_bytes, records_max, room, compression)

    return make


def _batch_schedule(plan: LoadPlan, worker: int, records_max: int, linger_ns: int) -> BatchSchedule:
    schedule = plan.arrivals
    if schedule is None:
        return ClosedLoopBatches(plan.schedule_s * SECOND_NS, records_max)
    return OpenLoopBatches(schedule, worker, records_max, linger_ns)

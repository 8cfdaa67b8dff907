"""The one table of the APIs that this broker serves; dispatch and ApiVersions use it."""

from __future__ import annotations

from typing import Final, NamedTuple

from highwater.kafka.protocol.primitives import MAX_ITEMS

ONE_STEP_ITEMS_MAX: Final = 10_000
"""The most items of a request that changes the broker's state for all of them in one step of the event loop."""
OWNED_ITEMS_MAX: Final = 100_000
"""The most of a request with all partitions of a member: it does not come in parts, and the first member has all."""


class Api(NamedTuple):
    key: int
    name: str
    """The name in kio's spelling; also the module of highwater.broker.handlers that serves it."""
    min_version: int
    """The lowest version that ApiVersions advertises."""
    max_version: int
    flexible_from: int
    """The first version with compact encodings and tagged fields, in the request's and the answer's header too."""
    served_from: int = 0
    """The lowest version served, if it is higher than the lowest advertised."""
    items_max: int = MAX_ITEMS
    """Array items and tags in one request."""

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version and version >= self.served_from

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
CONTROLLED_SHUTDOWN: Final = 7
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
ADD_PARTITIONS_TO_TXN: Final = 24
WRITE_TXN_MARKERS: Final = 27
SASL_AUTHENTICATE: Final = 36
ALTER_PARTITION: Final = 56
ALLOCATE_PRODUCER_IDS: Final = 67
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72
TELEMETRY_APIS: Final = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
"""Clients use both or none: librdkafka looks for the first alone."""
_NEVER: Final = 1 << 15

APIS: Final = {
    api.key: api
    for api in (
        # Produce 0 to 2 are advertised, not served: librdkafka checks for 0..0 when it decides whether a broker takes
        # compressed batches, and sends 3 or higher (librdkafka issue 4956; Kafka answers the same, KAFKA-18659).
        Api(PRODUCE, "produce", 0, 13, 9, served_from=3),
        Api(FETCH, "fetch", 4, 18, 12),
        # kafka-python guesses the release from Produce, ListOffsets and DescribeLogDirs. If its user names no newer one
        # than it guesses, it takes the versions of the named one, whatever ApiVersions says: they must be here.
        Api(LIST_OFFSETS, "list_offsets", 0, 11, 6),
        Api(METADATA, "metadata", 0, 13, 9),
        Api(8, "offset_commit", 2, 10, 8),
        Api(9, "offset_fetch", 1, 10, 6),
        Api(10, "find_coordinator", 0, 6, 3),
        Api(11, "join_group", 0, 9, 6, items_max=ONE_STEP_ITEMS_MAX),
        Api(12, "heartbeat", 0, 4, 4),
        Api(13, "leave_group", 0, 5, 4, items_max=ONE_STEP_ITEMS_MAX),
        Api(14, "sync_group", 0, 5, 4, items_max=ONE_STEP_ITEMS_MAX),
        Api(15, "describe_groups", 0, 6, 5),
        Api(LIST_GROUPS, "list_groups", 0, 5, 3),
        Api(SASL_HANDSHAKE, "sasl_handshake", 0, 1, _NEVER),
        Api(API_VERSIONS, "api_versions", 0, 5, 3),
        Api(CREATE_TOPICS, "create_topics", 0, 7, 5),
        Api(20, "delete_topics", 0, 6, 4),
        Api(21, "delete_records", 0, 2, 2),
        Api(22, "init_producer_id", 0, 5, 2),
        Api(23, "offset_for_leader_epoch", 0, 4, 4),
        Api(ADD_PARTITIONS_TO_TXN, "add_partitions_to_txn", 0, 5, 3),
        Api(25, "add_offsets_to_txn", 0, 4, 3),
        Api(26, "end_txn", 0, 5, 3),
        Api(WRITE_TXN_MARKERS, "write_txn_markers", 0, 2, 1),
        Api(28, "txn_offset_commit", 0, 6, 3),
        Api(29, "describe_acls", 0, 3, 2),
        Api(30, "create_acls", 0, 3, 2, items_max=ONE_STEP_ITEMS_MAX),
        Api(31, "delete_acls", 0, 3, 2, items_max=ONE_STEP_ITEMS_MAX),
        Api(32, "describe_configs", 0, 4, 4),
        Api(33, "alter_configs", 0, 2, 2, items_max=ONE_STEP_ITEMS_MAX),
        Api(34, "alter_replica_log_dirs", 0, 2, 2),
        Api(35, "describe_log_dirs", 0, 5, 2),
        Api(SASL_AUTHENTICATE, "sasl_authenticate", 0, 2, 2),
        Api(37, "create_partitions", 0, 3, 2),
        Api(42, "delete_groups", 0, 3, 2),
        Api(43, "elect_leaders", 0, 2, 2),
        Api(44, "incremental_alter_configs", 0, 1, 1, items_max=ONE_STEP_ITEMS_MAX),
        Api(45, "alter_partition_reassignments", 0, 1, 0),
        Api(46, "list_partition_reassignments", 0, 0, 0),
        Api(47, "offset_delete", 0, 0, _NEVER),
        Api(48, "describe_client_quotas", 0, 1, 1),
        Api(49, "alter_client_quotas", 0, 1, 1, items_max=ONE_STEP_ITEMS_MAX),
        Api(50, "describe_user_scram_credentials", 0, 0, 0),
        Api(51, "alter_user_scram_credentials", 0, 0, 0, items_max=ONE_STEP_ITEMS_MAX),
        Api(57, "update_features", 0, 2, 0, items_max=ONE_STEP_ITEMS_MAX),
        Api(60, "describe_cluster", 0, 2, 0),
        Api(61, "describe_producers", 0, 0, 0),
        Api(65, "describe_transactions", 0, 0, 0),
        Api(66, "list_transactions", 0, 2, 0),
        # Refused where `group.version` is 0, as by Kafka: librdkafka waits for ever where the API is not there.
        Api(68, "consumer_group_heartbeat", 0, 1, 0, items_max=OWNED_ITEMS_MAX),
        Api(69, "consumer_group_describe", 0, 1, 0),
        Api(GET_TELEMETRY_SUBSCRIPTIONS, "get_telemetry_subscriptions", 0, 0, 0),
        Api(PUSH_TELEMETRY, "push_telemetry", 0, 0, 0),
        Api(74, "list_config_resources", 0, 1, 0),
        Api(75, "describe_topic_partitions", 0, 0, 0),
    )
}

CLUSTER_APIS: Final = {
    api.key: api
    for api in (
        Api(LEADER_AND_ISR, "leader_and_isr", 0, 7, 4),
        Api(STOP_REPLICA, "stop_replica", 0, 4, 2),
        Api(UPDATE_METADATA, "update_metadata", 0, 8, 6),
        # ControlledShutdown 0 has a request header of its own, without a client id; Kafka 0.9 was the last to send it.
        Api(CONTROLLED_SHUTDOWN, "controlled_shutdown", 0, 3, 3, served_from=1),
        Api(ALTER_PARTITION, "alter_partition", 0, 3, 0),
        Api(ALLOCATE_PRODUCER_IDS, "allocate_producer_ids", 0, 0, 0),
    )
}
"""What brokers of a cluster ask of each other and clients never do: served where there is a cluster."""


def api_of(key: int) -> Api:
    """Return the API of a key, also of requests that only brokers send."""
    return APIS.get(key) or CLUSTER_APIS[key]

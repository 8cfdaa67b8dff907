"""The one table of what each API demands of a client when there is an authorizer.

The demands are those of KafkaApis of Kafka 3.9. An API without a row is not served, and a test fails: what is forgotten
is closed. Produce, Fetch and Metadata encode their answers themselves, so their handlers ask what the client may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.broker.handlers.authorization import administration, groups, topics, transactions
from highwater.broker.handlers.authorization.access import Guard
from highwater.broker.handlers.authorization.administration import of_cluster, of_settings, whole, whole_with_message
from highwater.kafka.acl import Operation

_NOTHING: Final = None
"""Everybody may ask."""
_IN_THE_HANDLER: Final = None

_CLUSTER_ACTION, _ALTER, _DESCRIBE = Operation.CLUSTER_ACTION, Operation.ALTER, Operation.DESCRIBE

GUARDS: Final[Mapping[str, Guard | None]] = {
    # Records and topics
    "produce": _IN_THE_HANDLER,
    "fetch": _IN_THE_HANDLER,
    "metadata": _IN_THE_HANDLER,
    "describe_topic_partitions": _IN_THE_HANDLER,
    "list_offsets": topics.LIST_OFFSETS,
    "offset_for_leader_epoch": topics.OFFSET_FOR_LEADER_EPOCH,
    "create_topics": topics.create_topics,
    "create_partitions": topics.create_partitions,
    "delete_topics": topics.delete_topics,
    "delete_records": topics.DELETE_RECORDS,
    "describe_producers": topics.DESCRIBE_PRODUCERS,
    # Groups
    "find_coordinator": groups.find_coordinator,
    "join_group": groups.join_group,
    "sync_group": groups.of_member({}),
    "heartbeat": groups.of_member({}),
    "consumer_group_heartbeat": groups.consumer_group_heartbeat,
    "leave_group": groups.of_member({}),
    "offset_commit": groups.offset_commit,
    "offset_fetch": groups.offset_fetch,
    "describe_groups": groups.describe_groups,
    "consumer_group_describe": groups.consumer_group_describe,
    "list_groups": groups.list_groups,
    "delete_groups": groups.delete_groups,
    "offset_delete": groups.offset_delete,
    # Producers and transactions
    "init_producer_id": transactions.init_producer_id,
    "add_partitions_to_txn": transactions.add_partitions_to_txn,
    "add_offsets_to_txn": transactions.add_offsets_to_txn,
    "end_txn": transactions.end_txn,
    "write_txn_markers": transactions.write_txn_markers,
    "txn_offset_commit": transactions.txn_offset_commit,
    "describe_transactions": transactions.describe_transactions,
    "list_transactions": transactions.list_transactions,
    # Administration
    "describe_configs": of_settings(Operation.DESCRIBE_CONFIGS, "results", configs=[]),
    "list_config_resources": of_cluster(Operation.DESCRIBE_CONFIGS, whole(config_resources=[])),
    "alter_configs": of_settings(Operation.ALTER_CONFIGS, "responses"),
    "incremental_alter_configs": of_settings(Operation.ALTER_CONFIGS, "responses"),
    "describe_acls": of_cluster(_DESCRIBE, whole_with_message(resources=[])),
    "create_acls": of_cluster(_ALTER, administration.created_acls),
    "delete_acls": of_cluster(_ALTER, administration.deleted_acls),
    "alter_replica_log_dirs": of_cluster(_ALTER, administration.moved_logs),
    "describe_log_dirs": of_cluster(_DESCRIBE, whole(results=[])),
    "elect_leaders": of_cluster(_ALTER, administration.elected_leaders),
    "alter_partition_reassignments": of_cluster(_ALTER, administration.reassigned),
    "list_partition_reassignments": of_cluster(_DESCRIBE, whole_with_message(topics=[])),
    "describe_client_quotas": of_cluster(Operation.DESCRIBE_CONFIGS, whole(entries=None)),
    "alter_client_quotas": of_cluster(Operation.ALTER_CONFIGS, administration.altered_quotas),
    "describe_user_scram_credentials": of_cluster(_DESCRIBE, administration.described_users),
    "alter_user_scram_credentials": administration.altered_users,
    "describe_cluster": administration.describe_cluster,
    "update_features": of_cluster(_ALTER, whole_with_message(results=[])),
    # Telemetry: who may produce or consume may say how that went.
    "get_telemetry_subscriptions": _NOTHING,
    "push_telemetry": _NOTHING,
    # Who is there, and who the client is
    "api_versions": _NOTHING,
    "sasl_handshake": _NOTHING,
    "sasl_authenticate": _NOTHING,
    # What brokers ask of each other
    "leader_and_isr": of_cluster(_CLUSTER_ACTION, administration.told_partitions),
    "stop_replica": of_cluster(_CLUSTER_ACTION, whole(partition_errors=[])),
    "update_metadata": of_cluster(_CLUSTER_ACTION, whole()),
    "controlled_shutdown": of_cluster(_CLUSTER_ACTION, whole(remaining_partitions=[])),
    "alter_partition": of_cluster(_CLUSTER_ACTION, whole(topics=[])),
    "allocate_producer_ids": of_cluster(_CLUSTER_ACTION, whole(producer_id_start=-1, producer_id_len=0)),
}

"""Builds the complete node of a broker that runs alone."""

from __future__ import annotations

from functools import partial

from highwater.broker.alone.acls import StoredAcls
from highwater.broker.alone.auto_creation import LocalAutoCreation
from highwater.broker.alone.producer_ids import StoredProducerIds
from highwater.broker.alone.stepping import Stepping
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.alone.topics import LocalTopics, take_up_topics
from highwater.broker.alone.view import LoneBroker
from highwater.broker.counters import BrokerCounters
from highwater.broker.dynamic_settings import following
from highwater.broker.features import GROUP_VERSION, TRANSACTION_VERSION
from highwater.broker.group.coordinator import GroupCoordinator
from highwater.broker.node import Node
from highwater.broker.quota.client_quotas import ClientQuotas
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.replica.fetch_sessions import FetchSessions
from highwater.broker.runtime import Runtime
from highwater.broker.settings.authorization import audit_of, authorizer_of
from highwater.broker.settings.metadata_tree import GROUP_CONFIGS
from highwater.broker.telemetry.client_telemetry import ClientTelemetry
from highwater.broker.telemetry.publishing import Publishing
from highwater.broker.topics.coordinators import Coordinators
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.storage import Storage
from highwater.broker.txn.coordinator import TransactionCoordinator
from highwater.broker.txn.markers import LocalMarkers


class LoneNode:
    def __init__(self, runtime: Runtime, store: EmbeddedMetadataStore, storage: Storage) -> None:
        """Take up every topic of the store.

        Raises MetadataError when the log directories have partitions that the store does not know, LogDirectoryError
        when they cannot be used, ConfigError for an authorizer that cannot be.
        """
        config = runtime.config
        authorizer = authorizer_of(config)
        features = store.features
        counters = BrokerCounters()
        throttles = ReplicationThrottles(runtime.broker_id, config)
        quotas = ClientQuotas.of(config, store.client_quotas())
        partitions = Partitions(config, storage, counters, throttles)
        deleted_topics = take_up_topics(partitions, store)
        view = LoneBroker(runtime, store.cluster_id, partitions)
        groups = GroupCoordinator(runtime, partitions, view, partial(features.level, GROUP_VERSION), deleted_topics)
        markers = LocalMarkers(runtime.clock, partitions, view, groups.commits.transaction_ended)
        stepping = Stepping(runtime, storage.log_directories, storage.run_aside)
        store.run_steps = stepping.run
        producer_ids = StoredProducerIds(runtime.broker_id, partitions, store, stepping)
        level = partial(features.level, TRANSACTION_VERSION)
        transactions = TransactionCoordinator(runtime, partitions, view, producer_ids, markers, level)
        coordinators = Coordinators(groups, transactions)
        coordinators.take_up_all(partitions)
        partitions.resume_moves()
        self.topics = LocalTopics(runtime, partitions, store, coordinators, stepping)
        auto_creation = LocalAutoCreation(self.topics, config)
        telemetry = ClientTelemetry(
            runtime, store, Publishing(runtime, partitions, view, auto_creation, None), counters
        )
        following.follow(
            runtime,
            store,
            partitions,
            quotas,
            throttles,
            enable_unclean_election=lambda topic: None,
            client_metrics_changed=telemetry.take_up,
            group_settings_changed=lambda: groups.take_up_settings(store.own_configs(GROUP_CONFIGS)),
        )
        groups.take_up_settings(store.own_configs(GROUP_CONFIGS))
        self.node = Node(
            broker_id=runtime.broker_id,
            config=config,
            clock=runtime.clock,
            scheduler=runtime.scheduler,
            turns=runtime.turns,
            features=features,
            feature_store=store,
            storage=storage,
            store=store,
            acls=None if authorizer is None else StoredAcls(store, authorizer, stepping),
            inside_listener=None,
            audit=audit_of(
                config, runtime.broker_id, runtime.clock, runtime.scheduler, has_authorizer=authorizer is not None
            ),
            counters=counters,
            quotas=quotas,
            replication_throttles=throttles,
            partitions=partitions,
            cluster=view,
            administration=self.topics,
            auto_creation=auto_creation,
            groups=groups,
            transactions=transactions,
            telemetry=telemetry,
            producer_ids=producer_ids,
            markers=markers,
            fetch_sessions=FetchSessions(config.integer("max.incremental.fetch.session.cache.slots")),
            fetch_max_bytes=config.integer("fetch.max.bytes"),
            member=None,
        )

"""Kafka's property names: type, default and range of each, and whether this broker honours it.

Names, defaults and ranges are those of Apache Kafka 3.9 (KafkaConfig and LogConfig print them); a test compares. Five
defaults are our own: loopback instead of every interface, as clients need no login by default; socket buffers
left to the kernel's tuning; no log directory that is nobody's choice; assignors by their names, as in Kafka 4. Five
rows of group.consumer.* are of Kafka 4.4. Our own are highwater.processes and highwater.process (which processes are
given by their parent), highwater.client.telemetry, metrics.listener, audit.log.file, inter.broker.listener.exclusive,
and zookeeper.sasl.jaas.config with its .file, where Kafka has an option of its JVM.
"""

from __future__ import annotations

from typing import Final

from highwater.broker.settings.property_row import (
    BOOLEAN,
    CLASS,
    COMPRESSION_TYPES,
    DOUBLE,
    INT,
    INT32_MAX,
    INT64_MAX,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Property,
    honoured,
    in_a_cluster,
)
from highwater.broker.settings.unserved_properties import FAMILIES, UNSERVED_PROPERTIES

_MIGRATION_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")

BROKER_PROPERTIES: Final = {
    entry.name: entry
    for entry in (
        # Who this broker is and where it listens
        honoured("broker.id", INT, -1),
        honoured("node.id", INT, -1),
        honoured("broker.rack", STRING, None),
        honoured("highwater.processes", STRING, None),
        honoured("highwater.process", STRING, None),
        honoured("highwater.client.telemetry", BOOLEAN, True),
        honoured("telemetry.max.bytes", INT, 1_048_576, 1),
        honoured("listeners", STRING, "PLAINTEXT://127.0.0.1:9092"),
        honoured("advertised.listeners", STRING, None),
        honoured(
            "listener.security.protocol.map",
            STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        ),
        honoured("socket.listen.backlog.size", INT, 50, 1),
        honoured("socket.receive.buffer.bytes", INT, -1),
        honoured("socket.send.buffer.bytes", INT, -1),
        honoured("socket.request.max.bytes", INT, 104_857_600, 1),
        honoured("connections.max.idle.ms", LONG, 600_000),
        honoured("max.connections", INT, INT32_MAX, 0),
        honoured("max.connections.per.ip", INT, INT32_MAX, 0),
        honoured("max.connection.creation.rate", INT, INT32_MAX, 0),
        honoured("max.connections.per.ip.overrides", STRING, ""),
        honoured("metrics.listener", STRING, None),
        # Who clients are. Each may be set for one listener, as listener.name.<listener>.<property>.
        honoured("sasl.enabled.mechanisms", LIST, ["GSSAPI"]),
        honoured("sasl.server.max.receive.size", INT, 524_288),
        honoured("connections.max.reauth.ms", LONG, 0),
        honoured("sasl.oauthbearer.jwks.endpoint.url", STRING, None),
        in_a_cluster("sasl.oauthbearer.token.endpoint.url", STRING, None),
        honoured("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, 1000),
        honoured("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, 10),
        honoured("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, 10),
        honoured("sasl.oauthbearer.expected.audience", LIST, None),
        honoured("sasl.oauthbearer.expected.issuer", STRING, None),
        honoured("sasl.oauthbearer.clock.skew.seconds", INT, 30, 0),
        honoured("sasl.oauthbearer.scope.claim.name", STRING, "scope"),
        honoured("sasl.oauthbearer.sub.claim.name", STRING, "sub"),
        honoured("authorizer.class.name", STRING, ""),
        honoured("audit.log.file", STRING, ""),
        honoured("super.users", STRING, ""),
        honoured("allow.everyone.if.no.acl.found", BOOLEAN, False),
        honoured("connection.failed.authentication.delay.ms", INT, 100, 0),
        honoured("ssl.client.auth", STRING, "none", None, None, "required", "requested", "none"),
        honoured("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], None, None, "TLSv1.2", "TLSv1.3"),
        honoured("ssl.keystore.type", STRING, "JKS", None, None, "JKS", "PKCS12", "PEM"),
        honoured("ssl.keystore.location", STRING, None),
        honoured("ssl.keystore.password", PASSWORD, None),
        honoured("ssl.key.password", PASSWORD, None),
        honoured("ssl.keystore.certificate.chain", PASSWORD, None),
        honoured("ssl.keystore.key", PASSWORD, None),
        honoured("ssl.truststore.type", STRING, "JKS", None, None, "JKS", "PKCS12", "PEM"),
        honoured("ssl.truststore.location", STRING, None),
        honoured("ssl.truststore.password", PASSWORD, None),
        honoured("ssl.truststore.certificates", PASSWORD, None),
        honoured("ssl.allow.dn.changes", BOOLEAN, False),
        honoured("ssl.allow.san.changes", BOOLEAN, False),
        honoured("ssl.principal.mapping.rules", STRING, "DEFAULT"),
        # The cluster
        honoured("zookeeper.connect", STRING, None),
        in_a_cluster("zookeeper.session.timeout.ms", INT, 18_000),
        in_a_cluster("zookeeper.connection.timeout.ms", INT, None),
        in_a_cluster("zookeeper.max.in.flight.requests", INT, 10, 1),
        in_a_cluster("zookeeper.set.acl", BOOLEAN, False),
        in_a_cluster("zookeeper.sasl.jaas.config", PASSWORD, None),
        in_a_cluster("zookeeper.sasl.jaas.config.file", STRING, None),
        in_a_cluster("zookeeper.ssl.client.enable", BOOLEAN, False),
        in_a_cluster("zookeeper.clientCnxnSocket", STRING, None),
        *(
            in_a_cluster(f"zookeeper.ssl.{store}.{name}", kind, None)
            for store in ("keystore", "truststore")
            for name, kind in (("location", STRING), ("password", PASSWORD), ("type", STRING))
        ),
        in_a_cluster("zookeeper.ssl.protocol", STRING, "TLSv1.2", None, None, "TLSv1.2", "TLSv1.3"),
        in_a_cluster("zookeeper.ssl.enabled.protocols", LIST, None, None, None, "TLSv1.2", "TLSv1.3"),
        in_a_cluster("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS"),
        in_a_cluster("broker.id.generation.enable", BOOLEAN, True),
        in_a_cluster("reserved.broker.max.id", INT, 1000, 0),
        in_a_cluster("inter.broker.listener.name", STRING, None),
        in_a_cluster("inter.broker.listener.exclusive", BOOLEAN, True),
        in_a_cluster("security.inter.broker.protocol", STRING, "PLAINTEXT"),
        in_a_cluster("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI"),
        in_a_cluster("ssl.endpoint.identification.algorithm", STRING, "https", None, None, "https", ""),
        in_a_cluster("controller.socket.timeout.ms", INT, 30_000),
        in_a_cluster("request.timeout.ms", INT, 30_000),
        in_a_cluster("controlled.shutdown.enable", BOOLEAN, True),
        in_a_cluster("controlled.shutdown.max.retries", INT, 3),
        in_a_cluster("controlled.shutdown.retry.backoff.ms", LONG, 5000),
        in_a_cluster("auto.leader.rebalance.enable", BOOLEAN, True),
        in_a_cluster("leader.imbalance.check.interval.seconds", LONG, 300),
        in_a_cluster("leader.imbalance.per.broker.percentage", INT, 10),
        in_a_cluster("unclean.leader.election.enable", BOOLEAN, False),
        in_a_cluster("num.replica.fetchers", INT, 1),
        in_a_cluster("replica.fetch.backoff.ms", INT, 1000, 0),
        in_a_cluster("replica.fetch.max.bytes", INT, 1_048_576, 0),
        in_a_cluster("replica.fetch.min.bytes", INT, 1),
        in_a_cluster("replica.fetch.response.max.bytes", INT, 10_485_760, 0),
        in_a_cluster("replica.fetch.wait.max.ms", INT, 500),
        in_a_cluster("replica.lag.time.max.ms", LONG, 30_000),
        in_a_cluster("replica.selector.class", STRING, None),
        in_a_cluster("replica.socket.timeout.ms", INT, 30_000),
        in_a_cluster("replication.quota.window.num", INT, 11, 1),
        in_a_cluster("replication.quota.window.size.seconds", INT, 1, 1),
        in_a_cluster("leader.replication.throttled.rate", LONG, INT64_MAX, 0),
        in_a_cluster("follower.replication.throttled.rate", LONG, INT64_MAX, 0),
        in_a_cluster("offsets.commit.timeout.ms", INT, 5000, 1),
        in_a_cluster("offsets.topic.replication.factor", SHORT, 3, 1),
        in_a_cluster("transaction.state.log.min.isr", INT, 2, 1),
        in_a_cluster("transaction.state.log.replication.factor", SHORT, 3, 1),
        # Topics
        honoured("auto.create.topics.enable", BOOLEAN, True),
        honoured("delete.topic.enable", BOOLEAN, True),
        honoured("num.partitions", INT, 1, 1),
        honoured("default.replication.factor", INT, 1),
        honoured("min.insync.replicas", INT, 1, 1),
        # Consumer groups
        honoured("group.initial.rebalance.delay.ms", INT, 3000),
        honoured("group.max.session.timeout.ms", INT, 1_800_000),
        honoured("group.min.session.timeout.ms", INT, 6000),
        honoured("group.max.size", INT, INT32_MAX, 1),
        honoured("group.consumer.assignment.interval.ms", INT, 1000, 0),
        honoured("group.consumer.min.assignment.interval.ms", INT, 0, 0),
        honoured("group.consumer.max.assignment.interval.ms", INT, 15_000, 0),
        honoured("group.consumer.assignors", LIST, ["uniform", "range"], None, None, "uniform", "range"),
        honoured("group.consumer.heartbeat.interval.ms", INT, 5000, 1),
        honoured("group.consumer.min.heartbeat.interval.ms", INT, 5000, 1),
        honoured("group.consumer.max.heartbeat.interval.ms", INT, 15_000, 1),
        honoured("group.consumer.max.size", INT, INT32_MAX, 1),
        honoured("group.consumer.migration.policy", STRING, "bidirectional", None, None, *_MIGRATION_POLICIES),
        honoured("group.consumer.regex.refresh.interval.ms", INT, 600_000, 10_000),
        honoured("group.consumer.session.timeout.ms", INT, 45_000, 1),
        honoured("group.consumer.min.session.timeout.ms", INT, 45_000, 1),
        honoured("group.consumer.max.session.timeout.ms", INT, 60_000, 1),
        honoured("offset.metadata.max.bytes", INT, 4096),
        honoured("offsets.load.buffer.size", INT, 5_242_880, 1),
        honoured("offsets.retention.check.interval.ms", LONG, 600_000, 1),
        honoured("offsets.retention.minutes", INT, 10_080, 1),
        honoured("offsets.topic.compression.codec", INT, 0, 0, 4),
        honoured("offsets.topic.num.partitions", INT, 50, 1),
        honoured("offsets.topic.segment.bytes", INT, 104_857_600, 1),
        # Transactions
        honoured("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, 1),
        honoured("transaction.max.timeout.ms", INT, 900_000, 1),
        honoured("transaction.partition.verification.enable", BOOLEAN, True),
        honoured("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, 1),
        honoured("transaction.state.log.load.buffer.size", INT, 5_242_880, 1),
        honoured("transaction.state.log.num.partitions", INT, 50, 1),
        honoured("transaction.state.log.segment.bytes", INT, 104_857_600, 1),
        honoured("transactional.id.expiration.ms", INT, 604_800_000, 1),
        # The log
        honoured("log.dir", STRING, None),
        honoured("log.dirs", STRING, None),
        honoured("log.segment.bytes", INT, 1_073_741_824, 14),
        honoured("log.roll.hours", INT, 168, 1),
        honoured("log.roll.ms", LONG, None, 1),
        honoured("log.index.interval.bytes", INT, 4096, 0),
        honoured("log.index.size.max.bytes", INT, 10_485_760, 4),
        honoured("log.preallocate", BOOLEAN, False),
        honoured("message.max.bytes", INT, 1_048_588, 0),
        honoured("log.message.timestamp.type", STRING, "CreateTime", None, None, "CreateTime", "LogAppendTime"),
        honoured("log.message.timestamp.after.max.ms", LONG, INT64_MAX, 0),
        honoured("log.message.timestamp.before.max.ms", LONG, INT64_MAX, 0),
        honoured("log.message.timestamp.difference.max.ms", LONG, INT64_MAX, 0),
        honoured("log.flush.interval.messages", LONG, INT64_MAX, 1),
        honoured("log.flush.interval.ms", LONG, None),
        honoured("log.flush.scheduler.interval.ms", LONG, INT64_MAX),
        honoured("log.flush.offset.checkpoint.interval.ms", INT, 60_000, 0),
        honoured("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, 0),
        honoured("replica.high.watermark.checkpoint.interval.ms", LONG, 5000),
        honoured("log.retention.hours", INT, 168, -1),
        honoured("log.retention.minutes", INT, None, -1),
        honoured("log.retention.ms", LONG, None, -1),
        honoured("log.retention.bytes", LONG, -1, -1),
        honoured("log.retention.check.interval.ms", LONG, 300_000, 1),
        honoured("log.segment.delete.delay.ms", LONG, 60_000, 0),
        honoured("log.roll.jitter.hours", INT, 0, 0),
        honoured("log.roll.jitter.ms", LONG, None, 0),
        honoured("log.cleanup.policy", LIST, "delete", None, None, "compact", "delete"),
        honoured("log.cleaner.enable", BOOLEAN, True),
        honoured("log.cleaner.threads", INT, 1, 0),
        honoured("log.cleaner.backoff.ms", LONG, 15_000, 0),
        honoured("log.cleaner.dedupe.buffer.size", LONG, 134_217_728),
        honoured("log.cleaner.delete.retention.ms", LONG, 86_400_000, 0),
        honoured("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9),
        honoured("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308),
        honoured("log.cleaner.max.compaction.lag.ms", LONG, INT64_MAX, 1),
        honoured("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, 0, 1),
        honoured("log.cleaner.min.compaction.lag.ms", LONG, 0, 0),
        honoured("producer.id.expiration.ms", INT, 86_400_000, 1),
        honoured("fetch.max.bytes", INT, 57_671_680, 1024),
        honoured("max.incremental.fetch.session.cache.slots", INT, 1000, 0),
        honoured("max.request.partition.size.limit", INT, 2000, 1),
        honoured("compression.type", STRING, "producer", None, None, *COMPRESSION_TYPES),
        honoured("compression.gzip.level", INT, -1, -1, 9),
        honoured("compression.zstd.level", INT, 3, -131_072, 22),
        honoured("controller.quota.window.num", INT, 11, 1),
        honoured("controller.quota.window.size.seconds", INT, 1, 1),
        honoured("quota.window.num", INT, 11, 1),
        honoured("quota.window.size.seconds", INT, 1, 1),
        *UNSERVED_PROPERTIES,
    )
}

_OF_A_LISTENER: Final = ("ssl.", "sasl.", "connections.max.reauth.ms")
_JAAS: Final = Property("sasl.jaas.config", PASSWORD, None)
_OF_TOKENS: Final = {
    f"oauthbearer.{name}": Property(name, CLASS, None)
    for name in ("sasl.server.callback.handler.class", "sasl.login.callback.handler.class")
}


def property_named(name: str) -> Property | None:
    """The row of a broker property, or of the family it belongs to; of one listener, that of the property itself."""
    if name.startswith("listener.name."):
        property_name = name.split(".", 3)[-1]
        if property_name.endswith("." + _JAAS.name):
            return _JAAS
        if (row := _OF_TOKENS.get(property_name)) is not None:
            return row
        return property_named(property_name) if property_name.startswith(_OF_A_LISTENER) else None
    row = BROKER_PROPERTIES.get(name)
    if row is None:
        row = next((family for prefix, family in FAMILIES.items() if name.startswith(prefix)), None)
    return row

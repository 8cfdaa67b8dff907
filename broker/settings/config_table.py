"""Kafka's property names: type, default and range of each, and whether this broker honours it.

Names, defaults and ranges are those of Apache Kafka 3.9 (KafkaConfig and LogConfig print them); a test compares. Four
defaults are our own: loopback instead of every interface, as nobody need say who it is unless told so; socket buffers
left to the kernel's tuning; no log directory that is nobody's choice. Our own are metrics.listener, audit.log.file,
inter.broker.listener.exclusive, and zookeeper.sasl.jaas.config with its .file, where Kafka has an option of its JVM.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple

Value = bool | int | float | str | list[str] | None

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


class Kind(IntEnum):
    """Numbered as DescribeConfigs tells it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Support(Enum):
    HONOURED = "honoured"
    IN_A_CLUSTER = "honoured in a cluster"
    """And accepted with a warning where zookeeper.connect is not set."""
    NO_EFFECT = "accepted with a warning"
    REFUSED = "an error"


class Property(NamedTuple):
    name: str
    kind: Kind
    default: Value
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    support: Support = Support.HONOURED
    why: str = ""
    """For a property that is not honoured: the reason, or what to do instead."""
    item_pattern: str = ""
    """Of a list whose items are of a kind of their own."""


def _honoured(
    name: str, kind: Kind, default: Value, low: float | None = None, high: float | None = None, *choices: str
) -> Property:
    return Property(name, kind, default, low, high, choices)


def _in_a_cluster(
    name: str, kind: Kind, default: Value, low: float | None = None, high: float | None = None, *choices: str
) -> Property:
    return Property(name, kind, default, low, high, choices, Support.IN_A_CLUSTER, _ALONE)


def _no_effect(name: str, kind: Kind, default: Value, why: str) -> Property:
    return Property(name, kind, default, support=Support.NO_EFFECT, why=why)


def _refused(name: str, kind: Kind, default: Value, why: str) -> Property:
    return Property(name, kind, default, support=Support.REFUSED, why=why)


_ONE_LOOP: Final = "one event loop serves every connection"
_NO_NEW_GROUPS: Final = "groups are of the classic protocol"
_ALONE: Final = "a broker without zookeeper.connect runs alone"
_ONE_LZ4: Final = "LZ4 has one speed here"
_COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_NO_MECHANISM: Final = "the mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; remove it"
_NOT_JAVAS_TLS: Final = "TLS is OpenSSL's, not Java's"
_JAAS_OF_A_MECHANISM: Final = "write it as listener.name.<listener>.<mechanism>.sasl.jaas.config"
_NO_REVOCATION: Final = "revoked certificates are not asked for; remove it"
_ONE_ZOOKEEPER: Final = "ACLs are in the ZooKeeper of the cluster; remove it"
_KRAFTS: Final = "it is of KRaft, which this broker does not speak"
_NO_KRAFT: Final = "this broker does not speak KRaft; remove it"

BOOLEAN, STRING, INT, SHORT = Kind.BOOLEAN, Kind.STRING, Kind.INT, Kind.SHORT
LONG, DOUBLE, LIST, CLASS, PASSWORD = Kind.LONG, Kind.DOUBLE, Kind.LIST, Kind.CLASS, Kind.PASSWORD

BROKER_PROPERTIES: Final = {
    entry.name: entry
    for entry in (
        # Who this broker is and where it listens
        _honoured("broker.id", INT, -1),
        _honoured("node.id", INT, -1),
        _honoured("broker.rack", STRING, None),
        _honoured("listeners", STRING, "PLAINTEXT://127.0.0.1:9092"),
        _honoured("advertised.listeners", STRING, None),
        _honoured(
            "listener.security.protocol.map",
            STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        ),
        _honoured("socket.listen.backlog.size", INT, 50, 1),
        _honoured("socket.receive.buffer.bytes", INT, -1),
        _honoured("socket.send.buffer.bytes", INT, -1),
        _honoured("socket.request.max.bytes", INT, 104_857_600, 1),
        _honoured("connections.max.idle.ms", LONG, 600_000),
        _honoured("max.connections", INT, INT32_MAX, 0),
        _honoured("max.connections.per.ip", INT, INT32_MAX, 0),
        _honoured("max.connection.creation.rate", INT, INT32_MAX, 0),
        _honoured("max.connections.per.ip.overrides", STRING, ""),
        _honoured("metrics.listener", STRING, None),
        # Who clients are. Each may be set for one listener, as listener.name.<listener>.<property>.
        _honoured("sasl.enabled.mechanisms", LIST, ["GSSAPI"]),
        _honoured("sasl.server.max.receive.size", INT, 524_288),
        _honoured("connections.max.reauth.ms", LONG, 0),
        _honoured("sasl.oauthbearer.jwks.endpoint.url", STRING, None),
        _honoured("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, 1000),
        _honoured("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, 10),
        _honoured("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, 10),
        _honoured("sasl.oauthbearer.expected.audience", LIST, None),
        _honoured("sasl.oauthbearer.expected.issuer", STRING, None),
        _honoured("sasl.oauthbearer.clock.skew.seconds", INT, 30, 0),
        _honoured("sasl.oauthbearer.scope.claim.name", STRING, "scope"),
        _honoured("sasl.oauthbearer.sub.claim.name", STRING, "sub"),
        _honoured("authorizer.class.name", STRING, ""),
        _honoured("audit.log.file", STRING, ""),
        _honoured("super.users", STRING, ""),
        _honoured("allow.everyone.if.no.acl.found", BOOLEAN, False),
        _honoured("connection.failed.authentication.delay.ms", INT, 100, 0),
        _honoured("ssl.client.auth", STRING, "none", None, None, "required", "requested", "none"),
        _honoured("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], None, None, "TLSv1.2", "TLSv1.3"),
        _honoured("ssl.keystore.type", STRING, "JKS", None, None, "JKS", "PKCS12", "PEM"),
        _honoured("ssl.keystore.location", STRING, None),
        _honoured("ssl.keystore.password", PASSWORD, None),
        _honoured("ssl.key.password", PASSWORD, None),
        _honoured("ssl.keystore.certificate.chain", PASSWORD, None),
        _honoured("ssl.keystore.key", PASSWORD, None),
        _honoured("ssl.truststore.type", STRING, "JKS", None, None, "JKS", "PKCS12", "PEM"),
        _honoured("ssl.truststore.location", STRING, None),
        _honoured("ssl.truststore.password", PASSWORD, None),
        _honoured("ssl.truststore.certificates", PASSWORD, None),
        _honoured("ssl.allow.dn.changes", BOOLEAN, False),
        _honoured("ssl.allow.san.changes", BOOLEAN, False),
        _honoured("ssl.principal.mapping.rules", STRING, "DEFAULT"),
        # The cluster
        _honoured("zookeeper.connect", STRING, None),
        _in_a_cluster("zookeeper.session.timeout.ms", INT, 18_000),
        _in_a_cluster("zookeeper.connection.timeout.ms", INT, None),
        _in_a_cluster("zookeeper.max.in.flight.requests", INT, 10, 1),
        _in_a_cluster("zookeeper.set.acl", BOOLEAN, False),
        _in_a_cluster("zookeeper.sasl.jaas.config", PASSWORD, None),
        _in_a_cluster("zookeeper.sasl.jaas.config.file", STRING, None),
        _in_a_cluster("zookeeper.ssl.client.enable", BOOLEAN, False),
        _in_a_cluster("zookeeper.clientCnxnSocket", STRING, None),
        *(
            _in_a_cluster(f"zookeeper.ssl.{store}.{name}", kind, None)
            for store in ("keystore", "truststore")
            for name, kind in (("location", STRING), ("password", PASSWORD), ("type", STRING))
        ),
        _in_a_cluster("zookeeper.ssl.protocol", STRING, "TLSv1.2", None, None, "TLSv1.2", "TLSv1.3"),
        _in_a_cluster("zookeeper.ssl.enabled.protocols", LIST, None, None, None, "TLSv1.2", "TLSv1.3"),
        _in_a_cluster("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS"),
        _in_a_cluster("broker.id.generation.enable", BOOLEAN, True),
        _in_a_cluster("reserved.broker.max.id", INT, 1000, 0),
        _in_a_cluster("inter.broker.listener.name", STRING, None),
        _in_a_cluster("inter.broker.listener.exclusive", BOOLEAN, True),
        _in_a_cluster("security.inter.broker.protocol", STRING, "PLAINTEXT"),
        _in_a_cluster("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI"),
        _in_a_cluster("ssl.endpoint.identification.algorithm", STRING, "https", None, None, "https", ""),
        _in_a_cluster("controller.socket.timeout.ms", INT, 30_000),
        _in_a_cluster("request.timeout.ms", INT, 30_000),
        _in_a_cluster("controlled.shutdown.enable", BOOLEAN, True),
        _in_a_cluster("controlled.shutdown.max.retries", INT, 3),
        _in_a_cluster("controlled.shutdown.retry.backoff.ms", LONG, 5000),
        _in_a_cluster("auto.leader.rebalance.enable", BOOLEAN, True),
        _in_a_cluster("leader.imbalance.check.interval.seconds", LONG, 300),
        _in_a_cluster("leader.imbalance.per.broker.percentage", INT, 10),
        _in_a_cluster("unclean.leader.election.enable", BOOLEAN, False),
        _in_a_cluster("num.replica.fetchers", INT, 1),
        _in_a_cluster("replica.fetch.backoff.ms", INT, 1000, 0),
        _in_a_cluster("replica.fetch.max.bytes", INT, 1_048_576, 0),
        _in_a_cluster("replica.fetch.min.bytes", INT, 1),
        _in_a_cluster("replica.fetch.response.max.bytes", INT, 10_485_760, 0),
        _in_a_cluster("replica.fetch.wait.max.ms", INT, 500),
        _in_a_cluster("replica.lag.time.max.ms", LONG, 30_000),
        _in_a_cluster("replica.selector.class", STRING, None),
        _in_a_cluster("replica.socket.timeout.ms", INT, 30_000),
        _in_a_cluster("replication.quota.window.num", INT, 11, 1),
        _in_a_cluster("replication.quota.window.size.seconds", INT, 1, 1),
        _in_a_cluster("leader.replication.throttled.rate", LONG, INT64_MAX, 0),
        _in_a_cluster("follower.replication.throttled.rate", LONG, INT64_MAX, 0),
        _in_a_cluster("offsets.commit.timeout.ms", INT, 5000, 1),
        _in_a_cluster("offsets.topic.replication.factor", SHORT, 3, 1),
        _in_a_cluster("transaction.state.log.min.isr", INT, 2, 1),
        _in_a_cluster("transaction.state.log.replication.factor", SHORT, 3, 1),
        # Topics
        _honoured("auto.create.topics.enable", BOOLEAN, True),
        _honoured("delete.topic.enable", BOOLEAN, True),
        _honoured("num.partitions", INT, 1, 1),
        _honoured("default.replication.factor", INT, 1),
        _honoured("min.insync.replicas", INT, 1, 1),
        # Consumer groups
        _honoured("group.initial.rebalance.delay.ms", INT, 3000),
        _honoured("group.max.session.timeout.ms", INT, 1_800_000),
        _honoured("group.min.session.timeout.ms", INT, 6000),
        _honoured("group.max.size", INT, INT32_MAX, 1),
        _honoured("offset.metadata.max.bytes", INT, 4096),
        _honoured("offsets.load.buffer.size", INT, 5_242_880, 1),
        _honoured("offsets.retention.check.interval.ms", LONG, 600_000, 1),
        _honoured("offsets.retention.minutes", INT, 10_080, 1),
        _honoured("offsets.topic.compression.codec", INT, 0, 0, 4),
        _honoured("offsets.topic.num.partitions", INT, 50, 1),
        _honoured("offsets.topic.segment.bytes", INT, 104_857_600, 1),
        # Transactions
        _honoured("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, 1),
        _honoured("transaction.max.timeout.ms", INT, 900_000, 1),
        _honoured("transaction.partition.verification.enable", BOOLEAN, True),
        _honoured("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, 1),
        _honoured("transaction.state.log.load.buffer.size", INT, 5_242_880, 1),
        _honoured("transaction.state.log.num.partitions", INT, 50, 1),
        _honoured("transaction.state.log.segment.bytes", INT, 104_857_600, 1),
        _honoured("transactional.id.expiration.ms", INT, 604_800_000, 1),
        # The log
        _honoured("log.dir", STRING, None),
        _honoured("log.dirs", STRING, None),
        _honoured("log.segment.bytes", INT, 1_073_741_824, 14),
        _honoured("log.roll.hours", INT, 168, 1),
        _honoured("log.roll.ms", LONG, None, 1),
        _honoured("log.index.interval.bytes", INT, 4096, 0),
        _honoured("log.index.size.max.bytes", INT, 10_485_760, 4),
        _honoured("log.preallocate", BOOLEAN, False),
        _honoured("message.max.bytes", INT, 1_048_588, 0),
        _honoured("log.message.timestamp.type", STRING, "CreateTime", None, None, "CreateTime", "LogAppendTime"),
        _honoured("log.message.timestamp.after.max.ms", LONG, INT64_MAX, 0),
        _honoured("log.message.timestamp.before.max.ms", LONG, INT64_MAX, 0),
        _honoured("log.message.timestamp.difference.max.ms", LONG, INT64_MAX, 0),
        _honoured("log.flush.interval.messages", LONG, INT64_MAX, 1),
        _honoured("log.flush.interval.ms", LONG, None),
        _honoured("log.flush.scheduler.interval.ms", LONG, INT64_MAX),
        _honoured("log.flush.offset.checkpoint.interval.ms", INT, 60_000, 0),
        _honoured("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, 0),
        _honoured("replica.high.watermark.checkpoint.interval.ms", LONG, 5000),
        _honoured("log.retention.hours", INT, 168, -1),
        _honoured("log.retention.minutes", INT, None, -1),
        _honoured("log.retention.ms", LONG, None, -1),
        _honoured("log.retention.bytes", LONG, -1, -1),
        _honoured("log.retention.check.interval.ms", LONG, 300_000, 1),
        _honoured("log.segment.delete.delay.ms", LONG, 60_000, 0),
        _honoured("log.roll.jitter.hours", INT, 0, 0),
        _honoured("log.roll.jitter.ms", LONG, None, 0),
        _honoured("log.cleanup.policy", LIST, "delete", None, None, "compact", "delete"),
        _honoured("log.cleaner.enable", BOOLEAN, True),
        _honoured("log.cleaner.threads", INT, 1, 0),
        _honoured("log.cleaner.backoff.ms", LONG, 15_000, 0),
        _honoured("log.cleaner.dedupe.buffer.size", LONG, 134_217_728),
        _honoured("log.cleaner.delete.retention.ms", LONG, 86_400_000, 0),
        _honoured("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9),
        _honoured("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308),
        _honoured("log.cleaner.max.compaction.lag.ms", LONG, INT64_MAX, 1),
        _honoured("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, 0, 1),
        _honoured("log.cleaner.min.compaction.lag.ms", LONG, 0, 0),
        _honoured("producer.id.expiration.ms", INT, 86_400_000, 1),
        _honoured("fetch.max.bytes", INT, 57_671_680, 1024),
        _honoured("max.incremental.fetch.session.cache.slots", INT, 1000, 0),
        _honoured("compression.type", STRING, "producer", None, None, *_COMPRESSION_TYPES),
        _honoured("compression.gzip.level", INT, -1, -1, 9),
        _honoured("compression.zstd.level", INT, 3, -131_072, 22),
        _honoured("quota.window.num", INT, 11, 1),
        _honoured("quota.window.size.seconds", INT, 1, 1),
        # Known, and without effect in this version
        *(
            _no_effect(name, kind, default, why)
            for name, kind, default, why in (
                ("num.network.threads", INT, 3, _ONE_LOOP),
                ("num.io.threads", INT, 8, _ONE_LOOP),
                ("background.threads", INT, 10, _ONE_LOOP),
                ("num.recovery.threads.per.data.dir", INT, 1, _ONE_LOOP),
                ("queued.max.requests", INT, 500, _ONE_LOOP),
                ("queued.max.request.bytes", LONG, -1, _ONE_LOOP),
                ("log.cleaner.io.buffer.size", INT, 524_288, "segments are read by windows of a fixed size"),
                ("compression.lz4.level", INT, 9, _ONE_LZ4),
                ("log.message.format.version", STRING, "3.0-IV1", "record batches are always of format v2"),
                ("log.message.downconversion.enable", BOOLEAN, True, "record batches are always of format v2"),
                ("inter.broker.protocol.version", STRING, "3.9-IV0", "brokers speak as those of 3.9 do"),
                ("ssl.keymanager.algorithm", STRING, "SunX509", _NOT_JAVAS_TLS),
                ("ssl.protocol", STRING, "TLSv1.3", "ssl.enabled.protocols says which are spoken"),
                ("ssl.provider", STRING, None, _NOT_JAVAS_TLS),
                ("ssl.secure.random.implementation", STRING, None, _NOT_JAVAS_TLS),
                ("ssl.trustmanager.algorithm", STRING, "PKIX", _NOT_JAVAS_TLS),
                ("replica.socket.receive.buffer.bytes", INT, 65_536, "it is left to the kernel's tuning"),
                ("offsets.commit.required.acks", SHORT, -1, "a commit always waits for the high watermark"),
                ("max.request.partition.size.limit", INT, 2000, "DescribeTopicPartitions is not served"),
                ("metrics.num.samples", INT, 2, "there is no JMX"),
                ("metrics.recording.level", STRING, "INFO", "there is no JMX"),
                ("metrics.sample.window.ms", LONG, 30_000, "there is no JMX"),
                ("metric.reporters", LIST, "", "there is no JMX"),
                ("auto.include.jmx.reporter", BOOLEAN, True, "there is no JMX"),
                ("kafka.metrics.polling.interval.secs", INT, 10, "there is no JMX"),
                ("kafka.metrics.reporters", LIST, "", "there is no JMX"),
                ("telemetry.max.bytes", INT, 1_048_576, "client telemetry is not taken"),
                ("fetch.purgatory.purge.interval.requests", INT, 1000, "waiting requests are dropped at once"),
                ("producer.purgatory.purge.interval.requests", INT, 1000, "waiting requests are dropped at once"),
                ("delete.records.purgatory.purge.interval.requests", INT, 1, "waiting requests are dropped at once"),
                ("log.dir.failure.timeout.ms", LONG, 30_000, "a failing log directory is known at once"),
                ("num.replica.alter.log.dirs.threads", INT, None, "logs move between log directories one at a time"),
                (
                    "alter.log.dirs.replication.quota.window.num",
                    INT,
                    11,
                    "moves between log directories have no quota",
                ),
                (
                    "alter.log.dirs.replication.quota.window.size.seconds",
                    INT,
                    1,
                    "moves between log directories have no quota",
                ),
                ("log.local.retention.bytes", LONG, -2, "there is no tiered storage"),
                ("log.local.retention.ms", LONG, -2, "there is no tiered storage"),
                ("remote.fetch.max.wait.ms", INT, 500, "there is no tiered storage"),
                ("eligible.leader.replicas.enable", BOOLEAN, False, _KRAFTS),
                ("broker.heartbeat.interval.ms", INT, 2000, _KRAFTS),
                ("broker.session.timeout.ms", INT, 9000, _KRAFTS),
                ("initial.broker.registration.timeout.ms", INT, 60_000, _KRAFTS),
                ("early.start.listeners", STRING, None, _KRAFTS),
            )
        ),
        # Known, and refused because ignoring them would mean something else than the person asked for
        *(
            _refused(name, kind, default, why)
            for name, kind, default, why in (
                ("zookeeper.ssl.cipher.suites", LIST, None, "OpenSSL's own choice is used; remove it"),
                ("zookeeper.ssl.crl.enable", BOOLEAN, False, _NO_REVOCATION),
                ("zookeeper.ssl.ocsp.enable", BOOLEAN, False, _NO_REVOCATION),
                ("zookeeper.metadata.migration.enable", BOOLEAN, False, _NO_KRAFT),
                ("process.roles", LIST, "", _NO_KRAFT),
                ("controller.listener.names", STRING, None, _NO_KRAFT),
                ("controller.quorum.voters", LIST, "", _NO_KRAFT),
                ("controller.quorum.bootstrap.servers", LIST, "", _NO_KRAFT),
                (
                    "control.plane.listener.name",
                    STRING,
                    None,
                    "the controller comes by the listener between brokers; remove it",
                ),
                ("authorizer.zookeeper.url", STRING, None, _ONE_ZOOKEEPER),
                ("authorizer.zookeeper.connection.timeout.ms", INT, None, _ONE_ZOOKEEPER),
                ("authorizer.zookeeper.session.timeout.ms", INT, None, _ONE_ZOOKEEPER),
                ("authorizer.zookeeper.max.in.flight.requests", INT, None, _ONE_ZOOKEEPER),
                ("principal.builder.class", CLASS, None, "Java classes cannot be loaded; remove it"),
                ("alter.config.policy.class.name", CLASS, None, "Java classes cannot be loaded; remove it"),
                ("create.topic.policy.class.name", CLASS, None, "Java classes cannot be loaded; remove it"),
                ("client.quota.callback.class", CLASS, None, "Java classes cannot be loaded; remove it"),
                ("security.providers", STRING, None, "Java classes cannot be loaded; remove it"),
                ("ssl.cipher.suites", LIST, "", "OpenSSL's own choice is used; remove it"),
                ("ssl.engine.factory.class", CLASS, None, "Java classes cannot be loaded; remove it"),
                ("sasl.jaas.config", PASSWORD, None, _JAAS_OF_A_MECHANISM),
                ("sasl.server.callback.handler.class", CLASS, None, "Java classes cannot be loaded; remove it"),
            )
        ),
    )
}

FAMILIES: Final = {
    "sasl.kerberos.": _refused("sasl.kerberos.*", STRING, None, _NO_MECHANISM),
    "sasl.oauthbearer.": _refused(
        "sasl.oauthbearer.*", STRING, None, "brokers do not log in to each other with OAUTHBEARER; remove it"
    ),
    "sasl.mechanism.": _no_effect("sasl.mechanism.*", STRING, None, _KRAFTS),
    "sasl.client.": _no_effect("sasl.client.*", CLASS, None, "the broker logs in nowhere"),
    "sasl.login.": _no_effect("sasl.login.*", STRING, None, "the broker logs in nowhere"),
    "password.encoder.": _no_effect("password.encoder.*", STRING, None, "passwords are not set while a broker runs"),
    "delegation.token.": _refused("delegation.token.*", STRING, None, "there are no delegation tokens; remove it"),
    "remote.log.": _refused("remote.log.*", STRING, None, "tiered storage is not supported; remove it"),
    "controller.": _no_effect("controller.*", STRING, None, "changes of topics have no quota"),
    "metadata.": _no_effect("metadata.*", STRING, None, _KRAFTS),
    "group.consumer.": _no_effect("group.consumer.*", STRING, None, _NO_NEW_GROUPS),
    "group.share.": _no_effect("group.share.*", STRING, None, _NO_NEW_GROUPS),
    "group.coordinator.": _no_effect("group.coordinator.*", STRING, None, _NO_NEW_GROUPS),
    "socket.connection.": _no_effect(
        "socket.connection.*", LONG, None, "connections to brokers have as long as their requests"
    ),
}
"""Prefixes of property names that are treated alike and not worth a row each."""


class TopicProperty(NamedTuple):
    """A property of a topic. Its default is the first of its broker properties that is set, else that one's default."""

    row: Property
    broker_properties: tuple[tuple[str, int], ...] = ()
    """(name, factor): the broker's property in its own unit times the factor is the topic's value."""

    @property
    def name(self) -> str:
        return self.row.name


def _topic(row: Property, *broker_properties: str | tuple[str, int]) -> TopicProperty:
    return TopicProperty(row, tuple(p if isinstance(p, tuple) else (p, 1) for p in broker_properties))


TOPIC_PROPERTIES: Final = {
    entry.name: entry
    for entry in (
        _topic(_honoured("flush.messages", LONG, INT64_MAX, 1), "log.flush.interval.messages"),
        _topic(_honoured("flush.ms", LONG, INT64_MAX, 0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        _topic(_honoured("index.interval.bytes", INT, 4096, 0), "log.index.interval.bytes"),
        _topic(_honoured("max.message.bytes", INT, 1_048_588, 0), "message.max.bytes"),
        _topic(
            _honoured("message.timestamp.type", STRING, "CreateTime", None, None, "CreateTime", "LogAppendTime"),
            "log.message.timestamp.type",
        ),
        _topic(_honoured("min.insync.replicas", INT, 1, 1), "min.insync.replicas"),
        _topic(_honoured("preallocate", BOOLEAN, False), "log.preallocate"),
        _topic(_honoured("segment.bytes", INT, 1_073_741_824, 14), "log.segment.bytes"),
        _topic(_honoured("segment.index.bytes", INT, 10_485_760, 4), "log.index.size.max.bytes"),
        _topic(_honoured("segment.ms", LONG, 604_800_000, 1), "log.roll.ms", ("log.roll.hours", _HOUR_MS)),
        _topic(_honoured("compression.type", STRING, "producer", None, None, *_COMPRESSION_TYPES), "compression.type"),
        _topic(_honoured("compression.gzip.level", INT, -1, -1, 9), "compression.gzip.level"),
        _topic(_honoured("compression.zstd.level", INT, 3, -131_072, 22), "compression.zstd.level"),
        _topic(_no_effect("compression.lz4.level", INT, 9, _ONE_LZ4), "compression.lz4.level"),
        _topic(
            _honoured("cleanup.policy", LIST, "delete", None, None, "compact", "delete"),
            "log.cleanup.policy",
        ),
        _topic(_honoured("retention.bytes", LONG, -1, -1), "log.retention.bytes"),
        _topic(
            _honoured("retention.ms", LONG, 604_800_000, -1),
            "log.retention.ms",
            ("log.retention.minutes", _MINUTE_MS),
            ("log.retention.hours", _HOUR_MS),
        ),
        _topic(_honoured("file.delete.delay.ms", LONG, 60_000, 0), "log.segment.delete.delay.ms"),
        _topic(
            _honoured("segment.jitter.ms", LONG, 0, 0),
            "log.roll.jitter.ms",
            ("log.roll.jitter.hours", _HOUR_MS),
        ),
        _topic(
            _honoured("delete.retention.ms", LONG, 86_400_000, 0),
            "log.cleaner.delete.retention.ms",
        ),
        _topic(
            _honoured("max.compaction.lag.ms", LONG, INT64_MAX, 1),
            "log.cleaner.max.compaction.lag.ms",
        ),
        _topic(
            _honoured("min.compaction.lag.ms", LONG, 0, 0),
            "log.cleaner.min.compaction.lag.ms",
        ),
        _topic(
            _honoured("min.cleanable.dirty.ratio", DOUBLE, 0.5, 0, 1),
            "log.cleaner.min.cleanable.ratio",
        ),
        *(
            _topic(_honoured(name, LONG, INT64_MAX, 0), "log." + name)
            for name in (
                "message.timestamp.after.max.ms",
                "message.timestamp.before.max.ms",
                "message.timestamp.difference.max.ms",
            )
        ),
        _topic(_in_a_cluster("unclean.leader.election.enable", BOOLEAN, False), "unclean.leader.election.enable"),
        *(
            _topic(_in_a_cluster(name, LIST, "")._replace(item_pattern=r"\*|[0-9]+:[0-9]+"))
            for name in ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
        ),
        _topic(_no_effect("message.downconversion.enable", BOOLEAN, True, "record batches are always of format v2")),
        _topic(_no_effect("message.format.version", STRING, "3.0-IV1", "record batches are always of format v2")),
        _topic(_refused("remote.storage.enable", BOOLEAN, False, "tiered storage is not supported")),
    )
}


_OF_A_LISTENER: Final = ("ssl.", "sasl.", "connections.max.reauth.ms")
_JAAS: Final = Property("sasl.jaas.config", PASSWORD, None)
_JUDGE_OF_TOKENS: Final = Property("sasl.server.callback.handler.class", CLASS, None)


def property_named(name: str) -> Property | None:
    """The row of a broker property, or of the family it belongs to; of one listener, that of the property itself."""
    if name.startswith("listener.name."):
        property_name = name.split(".", 3)[-1]
        if property_name.endswith("." + _JAAS.name):
            return _JAAS
        if property_name == f"oauthbearer.{_JUDGE_OF_TOKENS.name}":
            return _JUDGE_OF_TOKENS
        return property_named(property_name) if property_name.startswith(_OF_A_LISTENER) else None
    row = BROKER_PROPERTIES.get(name)
    if row is None:
        row = next((family for prefix, family in FAMILIES.items() if name.startswith(prefix)), None)
    return row

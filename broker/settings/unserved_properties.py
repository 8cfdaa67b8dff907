"""Kafka's properties that this broker does not honour: without effect here, or an error."""

from __future__ import annotations

from typing import Final

from highwater.broker.settings.property_row import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    ONE_BATCH_FORMAT,
    ONE_LZ4,
    PASSWORD,
    SHORT,
    STRING,
    no_effect,
    refused,
)

_ONE_LOOP: Final = "one event loop serves every connection"
_NO_SHARE_GROUPS: Final = "there are no share groups"
_NO_THREADS: Final = "groups run on the broker's event loop, and the feature group.version tells which there are"
_NO_MECHANISM: Final = "the mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; remove it"
_NOT_JAVAS_TLS: Final = "TLS is OpenSSL's, not Java's"
_JAAS_OF_A_MECHANISM: Final = "write it as listener.name.<listener>.<mechanism>.sasl.jaas.config"
_NO_REVOCATION: Final = "revoked certificates are not asked for; remove it"
_ONE_ZOOKEEPER: Final = "ACLs are in the ZooKeeper of the cluster; remove it"
_KRAFTS: Final = "it is of KRaft, which this broker does not speak"
_NO_KRAFT: Final = "this broker does not speak KRaft; remove it"

UNSERVED_PROPERTIES: Final = (
    # Known, and without effect in this version
    *(
        no_effect(name, kind, default, why)
        for name, kind, default, why in (
            ("num.network.threads", INT, 3, _ONE_LOOP),
            ("num.io.threads", INT, 8, _ONE_LOOP),
            ("background.threads", INT, 10, _ONE_LOOP),
            ("num.recovery.threads.per.data.dir", INT, 1, _ONE_LOOP),
            ("queued.max.requests", INT, 500, _ONE_LOOP),
            ("queued.max.request.bytes", LONG, -1, _ONE_LOOP),
            ("log.cleaner.io.buffer.size", INT, 524_288, "segments are read by windows of a fixed size"),
            ("compression.lz4.level", INT, 9, ONE_LZ4),
            ("log.message.format.version", STRING, "3.0-IV1", ONE_BATCH_FORMAT),
            ("log.message.downconversion.enable", BOOLEAN, True, ONE_BATCH_FORMAT),
            ("inter.broker.protocol.version", STRING, "3.9-IV0", "brokers speak as those of 3.9 do"),
            ("ssl.keymanager.algorithm", STRING, "SunX509", _NOT_JAVAS_TLS),
            ("ssl.protocol", STRING, "TLSv1.3", "ssl.enabled.protocols says which are spoken"),
            ("ssl.provider", STRING, None, _NOT_JAVAS_TLS),
            ("ssl.secure.random.implementation", STRING, None, _NOT_JAVAS_TLS),
            ("ssl.trustmanager.algorithm", STRING, "PKIX", _NOT_JAVAS_TLS),
            ("replica.socket.receive.buffer.bytes", INT, 65_536, "it is left to the kernel's tuning"),
            ("offsets.commit.required.acks", SHORT, -1, "a commit always waits for the high watermark"),
            ("metrics.num.samples", INT, 2, "there is no JMX"),
            ("metrics.recording.level", STRING, "INFO", "there is no JMX"),
            ("metrics.sample.window.ms", LONG, 30_000, "there is no JMX"),
            ("metric.reporters", LIST, "", "there is no JMX"),
            ("auto.include.jmx.reporter", BOOLEAN, True, "there is no JMX"),
            ("kafka.metrics.polling.interval.secs", INT, 10, "there is no JMX"),
            ("kafka.metrics.reporters", LIST, "", "there is no JMX"),
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
        refused(name, kind, default, why)
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

FAMILIES: Final = {
    "sasl.kerberos.": refused("sasl.kerberos.*", STRING, None, _NO_MECHANISM),
    "sasl.oauthbearer.": refused("sasl.oauthbearer.*", STRING, None, "it is of later versions of Kafka; remove it"),
    "sasl.mechanism.": no_effect("sasl.mechanism.*", STRING, None, _KRAFTS),
    "sasl.client.": no_effect("sasl.client.*", CLASS, None, "the broker logs in nowhere"),
    "sasl.login.": no_effect("sasl.login.*", STRING, None, "tokens are renewed at 80 % of their life"),
    "password.encoder.": no_effect("password.encoder.*", STRING, None, "passwords are not set while a broker runs"),
    "delegation.token.": refused("delegation.token.*", STRING, None, "there are no delegation tokens; remove it"),
    "remote.log.": refused("remote.log.*", STRING, None, "tiered storage is not supported; remove it"),
    "controller.": no_effect("controller.*", STRING, None, _KRAFTS),
    "metadata.": no_effect("metadata.*", STRING, None, _KRAFTS),
    "group.share.": no_effect("group.share.*", STRING, None, _NO_SHARE_GROUPS),
    "group.coordinator.": no_effect("group.coordinator.*", STRING, None, _NO_THREADS),
    "socket.connection.": no_effect(
        "socket.connection.*", LONG, None, "connections to brokers have as long as their requests"
    ),
}
"""Prefixes of property names that are treated alike and not worth a row each."""

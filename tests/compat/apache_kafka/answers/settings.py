"""Settings, quotas and credentials, told and changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tests.compat.apache_kafka.answers.script import THEN, Fields, Script


def configuring(script: Script) -> None:
    script.note("DescribeConfigs")

    def describe(told: str, *resources: Fields, **fields: Any) -> None:
        asked: Fields = {"resources": resources, "include_synonyms": True}
        script.each("describe_configs", told, **(asked | fields))

    def resource(kind: int, name: str, *keys: str, every: bool = False) -> Fields:
        return {"resource_type": kind, "resource_name": name, "configuration_keys": None if every else keys}

    for name in _config_names(script, 2, "new-4"):
        describe(f"{name} of a topic", resource(2, "new-4", name))
    script.lines.append(f"settings of a broker{THEN}" + " ".join(_config_names(script, 4, "0")))
    for name in (
        "retention.ms",
        "log.retention.ms",
        "log.retention.hours",
        "log.cleaner.threads",
        "num.io.threads",
        "message.max.bytes",
        "compression.type",
        "ssl.keystore.password",
        "sasl.enabled.mechanisms",
        "nope",
    ):
        describe(f"{name} of a broker", resource(4, "0", name))
    describe("no keys", resource(2, "new-4"))
    describe("unknown keys", resource(2, "new-4", "no.such", "retention.ms"))
    describe("without synonyms", resource(2, "new-4", "retention.ms"), include_synonyms=False)
    for kind, name in (
        (2, "nowhere"),
        (2, "a b"),
        (2, ""),
        (4, ""),
        (4, "1"),
        (4, "abc"),
        (0, "x"),
        (1, "x"),
        (3, "x"),
        (5, "x"),
        (8, "1"),
        (99, "x"),
    ):
        script.ask("describe_configs", 4, f"type {kind} {name!r}", resources=[resource(kind, name, "retention.ms")])
    script.ask("describe_configs", 4, "twice", resources=[resource(2, "new-4", "retention.ms")] * 2)
    script.ask("describe_configs", 4, "nothing", resources=[])

    script.note("AlterConfigs, IncrementalAlterConfigs")

    def alter(told: str, kind: int, name: str, *settings: tuple[str, str | None], validate_only: bool = False) -> None:
        configs = [{"name": key, "value": value} for key, value in settings]
        resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
        script.each("alter_configs", told, resources=resources, validate_only=validate_only)

    def change(
        told: str, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> None:
        configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
        resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
        script.each("incremental_alter_configs", told, resources=resources, validate_only=validate_only)

    def now(name: str, *keys: str) -> None:
        script.ask(
            "describe_configs", 1, f"then of {name}", resources=[resource(2, name, *keys)], include_synonyms=False
        )

    alter("fine", 2, "new-5", ("retention.ms", "7000"), ("cleanup.policy", "compact"))
    now("new-5", "retention.ms", "cleanup.policy")
    alter("only to validate", 2, "new-5", ("retention.ms", "9000"), validate_only=True)
    alter("bad value", 2, "new-5", ("retention.ms", "x"))
    alter("null", 2, "new-5", ("retention.ms", None))
    alter("unknown", 2, "new-5", ("no.such", "1"))
    alter("twice", 2, "new-5", ("retention.ms", "1"), ("retention.ms", "2"))
    alter("nowhere", 2, "nowhere", ("retention.ms", "1"))
    alter("bad name", 2, "a b", ("retention.ms", "1"))
    alter("nothing", 2, "new-5")
    now("new-5", "retention.ms", "cleanup.policy")
    alter("read-only of a broker", 4, "0", ("broker.id", "1"))
    alter("unknown of a broker", 4, "0", ("no.such", "1"))
    alter("of another broker", 4, "7", ("log.cleaner.threads", "1"))
    alter("of no broker", 4, "abc", ("log.cleaner.threads", "1"))
    for kind in (0, 1, 8, 99):
        alter(f"type {kind}", kind, "x", ("retention.ms", "1"))
    change("set", 2, "new-5", ("retention.ms", 0, "8000"))
    change("append", 2, "new-5", ("cleanup.policy", 2, "compact"))
    now("new-5", "retention.ms", "cleanup.policy")
    change("append again", 2, "new-5", ("cleanup.policy", 2, "compact"))
    change("subtract", 2, "new-5", ("cleanup.policy", 3, "delete"))
    now("new-5", "retention.ms", "cleanup.policy")
    change("subtract what is not", 2, "new-5", ("cleanup.policy", 3, "delete"))
    change("append to no list", 2, "new-5", ("retention.ms", 2, "1"))
    change("append what is bad", 2, "new-5", ("cleanup.policy", 2, "nope"))
    change("delete", 2, "new-5", ("retention.ms", 1, None), ("cleanup.policy", 1, "ignored"))
    now("new-5", "retention.ms", "cleanup.policy")
    change("delete again", 2, "new-5", ("retention.ms", 1, None))
    change("delete unknown", 2, "new-5", ("no.such", 1, None))
    change("set unknown", 2, "new-5", ("no.such", 0, "1"))
    change("set null", 2, "new-5", ("retention.ms", 0, None))
    change("append null", 2, "new-5", ("cleanup.policy", 2, None))
    change("operation 9", 2, "new-5", ("retention.ms", 9, "1"))
    change("twice", 2, "new-5", ("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    change("nothing", 2, "new-5")
    change("only to validate", 2, "new-5", ("retention.ms", 0, "6"), validate_only=True)
    change("bad value, only to validate", 2, "new-5", ("retention.ms", 0, "x"), validate_only=True)
    change("throttled replicas", 2, "new-5", ("leader.replication.throttled.replicas", 2, "0:0,1:0"))
    change("throttled replicas subtracted", 2, "new-5", ("leader.replication.throttled.replicas", 3, "0:0"))
    now("new-5", "leader.replication.throttled.replicas", "retention.ms")
    change("nowhere", 2, "nowhere", ("retention.ms", 0, "1"))
    change("bad name", 2, "a b", ("retention.ms", 0, "1"))
    change("name ''", 2, "", ("retention.ms", 0, "1"))
    change("of a broker", 4, "0", ("log.cleaner.backoff.ms", 0, "14000"))
    change("of all brokers", 4, "", ("log.cleaner.backoff.ms", 0, "14500"))
    describe("then of the broker", resource(4, "0", "log.cleaner.backoff.ms"))
    describe("then of all", resource(4, "", every=True))
    change("of a broker, deleted", 4, "0", ("log.cleaner.backoff.ms", 1, None))
    change("of all brokers, deleted", 4, "", ("log.cleaner.backoff.ms", 1, None))
    change("read-only of a broker", 4, "0", ("broker.id", 0, "1"))
    change("bad value of a broker", 4, "0", ("log.cleaner.backoff.ms", 0, "x"))
    change("per broker only", 4, "", ("ssl.keystore.location", 0, "/nowhere"))
    change("unknown of a broker", 4, "0", ("no.such", 0, "1"))
    change("another broker's", 4, "7", ("log.cleaner.backoff.ms", 0, "1"))
    change("no broker's", 4, "abc", ("log.cleaner.backoff.ms", 0, "1"))
    for kind in (0, 1, 99):
        change(f"type {kind}", kind, "x", ("retention.ms", 0, "1"))
    one = {"resource_type": 2, "resource_name": "new-5", "configs": []}
    script.ask("incremental_alter_configs", 1, "a resource twice", resources=[one, one])
    script.ask("alter_configs", 2, "a resource twice", resources=[one, one])
    script.ask("incremental_alter_configs", 1, "no resources", resources=[])


def _config_names(script: Script, kind: int, name: str) -> Iterator[str]:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
    answer = script.quietly("describe_configs", 1, resources=resources)
    return iter(sorted(config.name for config in answer.results[0].configs))


def limiting(script: Script) -> None:
    script.note("Quotas")

    def change(
        told: str, entity: Sequence[tuple[str, str | None]], *ops: tuple[str, float, bool], **fields: Any
    ) -> None:
        entry = {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "ops": [{"key": key, "value": value, "remove": remove} for key, value, remove in ops],
        }
        asked: Fields = {"entries": [entry], "validate_only": False}
        script.each("alter_client_quotas", told, **(asked | fields))

    def describe(told: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        asked = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        script.each("describe_client_quotas", told, components=asked, strict=strict)

    rate = "producer_byte_rate"
    client: tuple[str, str | None] = ("client-id", "c")
    user: tuple[str, str | None] = ("user", "u")
    change("client", [client], (rate, 1e6, False))
    change("user", [user], (rate, 2e6, False), ("consumer_byte_rate", 3e6, False))
    change("user and client", [user, client], ("request_percentage", 50.5, False))
    change("default client", [("client-id", None)], (rate, 4e6, False))
    change("default user", [("user", None)], ("controller_mutation_rate", 10.0, False))
    change("ip", [("ip", "127.0.0.9")], ("connection_creation_rate", 100.0, False))
    change("default ip", [("ip", None)], ("connection_creation_rate", 200.0, False))
    for told, entity, op in (
        ("unknown key", [client], ("nope", 1.0, False)),
        ("remove unknown key", [client], ("nope", 1.0, True)),
        ("zero", [client], (rate, 0.0, False)),
        ("negative", [client], (rate, -1.0, False)),
        ("half a byte", [client], (rate, 1.5, False)),
        ("not a number", [client], (rate, float("nan"), False)),
        ("half a connection", [("ip", "127.0.0.9")], ("connection_creation_rate", 1.5, False)),
        ("an ip's for a client", [client], ("connection_creation_rate", 1.0, False)),
        ("a client's for an ip", [("ip", "127.0.0.9")], (rate, 1.0, False)),
        ("ip and user", [("ip", "127.0.0.9"), user], (rate, 1.0, False)),
        ("no ip", [("ip", "not an ip")], ("connection_creation_rate", 1.0, False)),
        ("unknown kind", [("color", "red")], (rate, 1.0, False)),
        ("nobody", [], (rate, 1.0, False)),
        ("client ''", [("client-id", "")], (rate, 1.0, False)),
        ("user ''", [("user", "")], (rate, 1.0, False)),
        ("a kind twice", [client, ("client-id", "d")], (rate, 1.0, False)),
        ("only to validate", [("user", "v")], (rate, 1.0, False)),
        ("remove what is not", [("user", "v")], (rate, 0.0, True)),
    ):
        change(told, entity, op, validate_only=told == "only to validate")
    change("no change", [client])
    change("a key twice", [client], (rate, 1.0, False), (rate, 2.0, False))
    script.ask("alter_client_quotas", 1, "nothing", entries=[], validate_only=False)
    describe("all")
    describe("all, strict", strict=True)
    for strict in (False, True):
        told = ", strict" if strict else ""
        describe(f"client c{told}", ("client-id", 0, "c"), strict=strict)
        describe(f"default client{told}", ("client-id", 1, None), strict=strict)
        describe(f"any client{told}", ("client-id", 2, None), strict=strict)
        describe(f"any user{told}", ("user", 2, None), strict=strict)
        describe(f"any ip{told}", ("ip", 2, None), strict=strict)
        describe(f"user u and any client{told}", ("user", 0, "u"), ("client-id", 2, None), strict=strict)
    describe("match 3", ("user", 3, None))
    describe("exact without a name", ("user", 0, None))
    describe("default with a name", ("user", 1, "u"))
    describe("any with a name", ("user", 2, "u"))
    describe("unknown kind", ("color", 2, None))
    describe("kind ''", ("", 2, None))
    describe("a kind twice", ("user", 2, None), ("user", 0, "u"))
    describe("ip and user", ("ip", 2, None), ("user", 2, None))
    change("client, removed", [client], (rate, 0.0, True))
    change("user, removed", [user], (rate, 0.0, True), ("consumer_byte_rate", 0.0, True))
    describe("the rest")
    removals: tuple[tuple[list[tuple[str, str | None]], str], ...] = (
        ([user, client], "request_percentage"),
        ([("client-id", None)], rate),
        ([("user", None)], "controller_mutation_rate"),
        ([("ip", "127.0.0.9")], "connection_creation_rate"),
        ([("ip", None)], "connection_creation_rate"),
    )
    for entity, key in removals:
        change("removed", entity, (key, 0.0, True))
    describe("all, at the end")

    script.note("SCRAM")

    def upsert(name: str = "alice", mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt") -> Fields:
        return {
            "name": name,
            "mechanism": mechanism,
            "iterations": iterations,
            "salt": salt,
            "salted_password": b"p" * (64 if mechanism == 2 else 32),
        }

    def credentials(told: str, *upsertions: Fields, deletions: Sequence[Fields] = ()) -> None:
        script.ask("alter_user_scram_credentials", 0, told, deletions=deletions, upsertions=upsertions)

    def users(told: str, *names: str, every: bool = False) -> None:
        wanted = None if every else [{"name": name} for name in names]
        script.ask("describe_user_scram_credentials", 0, told, users=wanted)

    users("nobody is there", every=True)
    credentials("alice", upsert(), upsert("alice", 2))
    credentials("bob", upsert("bob"))
    credentials("few iterations", upsert(iterations=4095))
    credentials("many iterations", upsert(iterations=16_385))
    credentials("unknown mechanism", upsert(mechanism=3))
    credentials("mechanism 0", upsert(mechanism=0))
    credentials("no name", upsert(""))
    credentials("no salt", upsert("carol", salt=b""))
    credentials("the same twice", upsert("dave"), upsert("dave"))
    credentials("good and bad", upsert("erin"), upsert("erin", 9))
    credentials("set and deleted", upsert("bob"), deletions=[{"name": "bob", "mechanism": 1}])
    credentials("delete nobody", deletions=[{"name": "nobody", "mechanism": 1}])
    credentials("delete what bob has not", deletions=[{"name": "bob", "mechanism": 2}])
    credentials("delete no name", deletions=[{"name": "", "mechanism": 1}])
    credentials("nothing")

    def is_there() -> bool:
        found = script.quietly("describe_user_scram_credentials", 0, users=[{"name": "bob"}])
        return found.results[0].error_code is ErrorCode.none

    script.until(is_there)
    users("all", every=True)
    users("none")
    users("alice and nobody", "alice", "nobody")
    users("alice twice", "alice", "alice")
    users("''", "")
    credentials("deleted", deletions=[{"name": "alice", "mechanism": 1}, {"name": "alice", "mechanism": 2}])

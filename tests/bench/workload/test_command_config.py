"""Files of TLS and SASL properties: what is taken, and what each fault says without telling a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.commands.common import specification_of
from highwater.bench.workload.command_config import read_command_config, told_of
from highwater.bench.workload.specification import load_specification
from highwater.common.errors import UsageError
from tests.bench.fakes import MINIMAL
from tests.broker.server.certificates import Authority

SECRET = "ge,h= eim"  # noqa: S105
TOKENS = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PLAIN = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=bench\nsasl.password={SECRET}\n"


def read(directory: Path, text: str) -> dict[str, str]:
    (directory / "ca.pem").write_text(Authority().pem)
    (directory / "client.properties").write_text(text)
    return read_command_config(directory / "client.properties")


def test_the_names_of_librdkafka_with_paths_beside_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, PLAIN + "# the authority\nssl.ca.location = ca.pem\n")
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bench",
        "sasl.password": SECRET,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }
    assert told_of(found) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("module", "mechanism"), [("plain.PlainLoginModule", "PLAIN"), ("scram.ScramLoginModule", "SCRAM-SHA-512")]
)
def test_what_kafkas_own_clients_are_given(tmp_path: Path, module: str, mechanism: str) -> None:
    found = read(
        tmp_path,
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n"
        '  username="bench" \\\n  password="a, \\\\"b; c";\n',
    )
    assert (found["sasl.username"], found["sasl.password"]) == ("bench", 'a, "b; c')
    found = read(tmp_path, "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    assert found["ssl.endpoint.identification.algorithm"] == "none"


def test_where_tokens_come_from(tmp_path: Path) -> None:
    package = "org.apache.kafka.common.security.oauthbearer."
    server = "http://127.0.0.1:9/token"
    found = read(
        tmp_path,
        f"{TOKENS}={server}\n"
        f"sasl.login.callback.handler.class={package}secured.OAuthBearerLoginCallbackHandler\n"
        f"sasl.jaas.config={package}OAuthBearerLoginModule required "
        f'clientId="bench" clientSecret="{SECRET}" scope="kafka";\n',
    )
    wanted = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "bench",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    }
    assert found == wanted
    assert told_of(found) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    kafka_4 = f"client.credentials.client.id=bench\nsasl.oauthbearer.client.credentials.client.secret={SECRET}"
    assert read(tmp_path, f"{TOKENS}={server}\nsasl.oauthbearer.{kafka_4}\nsasl.oauthbearer.scope=kafka") == wanted


@pytest.mark.parametrize(
    "options",
    [
        'username="bench" password="a \\"b; c";',
        "username=bench password='a \"b; c';",
        'password = "a \\"b; c"   username = bench ;',
    ],
)
def test_a_login_is_quoted_as_java_reads_it(tmp_path: Path, options: str) -> None:
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule REQUIRED {options}"
    escaped = login.replace("\\", "\\\\")
    found = read(tmp_path, f"security.protocol=sasl_plaintext\nsasl.mechanism=plain\nsasl.jaas.config={escaped}\n")
    assert (found["sasl.username"], found["sasl.password"]) == ("bench", 'a "b; c')
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_PLAINTEXT", "PLAIN")


def test_a_file_of_windows_and_a_plain_connection(tmp_path: Path) -> None:
    found = read(tmp_path, "\ufeffsecurity.protocol=SSL \r\nssl.ca.location=probe\r\n")
    assert found == {"security.protocol": "SSL", "ssl.ca.location": "probe"}
    assert told_of(read(tmp_path, "security.protocol=PLAINTEXT")) == told_of({}) == {}


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("linger.ms=5", 1, "linger.ms: is not a setting of TLS or SASL"),
        ("bootstrap.servers=a:1", 1, "bootstrap.servers: comes from the workload"),
        (
            PLAIN + f"sasl.pasword={SECRET}",
            5,
            'sasl.pasword: no librdkafka property has this name; did you mean "sasl.p',
        ),
        (f"# one\nsecurity.protocol={SECRET}", None, "needs a known security.protocol (SSL, SASL_SSL, "),
        ("# nothing\n", None, "needs a known security.protocol"),
        ("security.protocol=SASL_SSL", None, "needs a sasl.mechanism"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", None, "GSSAPI (Kerberos) is not in the librdkafka"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER",
            None,
            "OAUTHBEARER needs sasl.oauthbearer.token",
        ),
        ("security.protocol=SSL\n\\\n\nssl.ca.location=no.pem", 4, "no.pem: no such file"),
        ("security.protocol=SSL\nssl.ca.location=", 2, "ssl.ca.location: names no file"),
        ("security.protocol=SSL\nssl.ca.location=~nobody-of-that-name/a", 2, "no such user"),
        (
            f"security.protocol=SSL\nssl.key.pem=-----BEGIN KEY-----\n{SECRET}",
            3,
            "does not begin with a property's name",
        ),
        ("security.protocol=PLAINTEXT\nsasl.username=bench", 2, "sasl.username: has no effect with security.protocol="),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nssl.ca.location=ca.pem",
            3,
            "ssl.ca.location: has no",
        ),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", None, "sasl.username and sasl.password must be set"),
        (
            "ssl.truststore.location=trust.jks",
            1,
            "ssl.truststore.location: is a setting of Java clients; librdkafka, which generates the",
        ),
        (f"{TOKENS}=http://idp.example/token", 3, "must be https: what crosses the network by http can be read"),
        (f"{TOKENS}=file:///run/token", 3, "is not an https address (librdkafka, which generates the load, reads no"),
        (f"sasl.jaas.config=a.OAuthBearerLoginModule required clientId={SECRET};", 1, "nor one of a program"),
        (f"sasl.login.callback.handler.class={SECRET}", 1, "class: is a class of Java clients, and not"),
        (f"sasl.jaas.config=Krb5LoginModule required keyTab={SECRET};", 1, "is not a login with user and password"),
        (f"sasl.jaas.config={LOGIN} username=u password={SECRET};", 1, "is not a login with user and password"),
        (
            f'sasl.jaas.config={LOGIN} username=u password="{SECRET}" tokenauth="true";',
            1,
            "is not a login with user and",
        ),
        (PLAIN.replace("=PLAIN\n", "=NONE\n"), None, "Unsupported SASL mechanism: NONE"),
        (f"\nsasl.password=\\u{SECRET}", 2, "write each backslash of a value twice"),
    ],
)
def test_each_fault_is_one_line_without_a_secret(tmp_path: Path, text: str, line: int | None, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    told = str(raised.value)
    assert told.startswith(f"{tmp_path}/client.properties" + (f":{line}: " if line else ": "))
    assert complaint in told
    assert not [part for part in SECRET.split() if part in told]
    assert "\n" not in told


@pytest.mark.parametrize(
    ("system", "complaint"),
    [
        (
            "{kind: external, bootstrap_servers: 'a:1', command_config: none.properties}",
            "none.properties: no such file",
        ),
        ("{command_config: none.properties}", "w.yaml:9: system.command_config: is for kind: external"),
        (
            "{kind: external, cluster: c, clusters: {c: {bootstrap_servers: 'a:1', command_config: none}}}",
            "/none: no such file",
        ),
        (
            "{kind: external, cluster: c, command_config: none, clusters: {c: {bootstrap_servers: 'a:1'}}}",
            "system.command_config: belongs to one cluster: clusters.c.command_config",
        ),
    ],
)
def test_a_workload_names_the_file_of_its_cluster(tmp_path: Path, system: str, complaint: str) -> None:
    (tmp_path / "w.yaml").write_text(MINIMAL + f"system: {system}\n")
    with pytest.raises(UsageError) as raised:
        load_specification(tmp_path / "w.yaml")
    assert complaint in str(raised.value)


def test_the_wire_driver_has_no_tls(tmp_path: Path) -> None:
    system = "system: {kind: external, bootstrap_servers: 'a:1', command_config: client.properties}\n"
    (tmp_path / "w.yaml").write_text(MINIMAL + "producers: {driver: wire}\n" + system)
    with pytest.raises(UsageError, match=r"producers\.driver: wire supports neither TLS nor a login"):
        load_specification(tmp_path / "w.yaml")


def test_no_secret_among_the_settings_of_a_load(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(MINIMAL + f"producers: {{client: {{sasl.password: {SECRET!r}}}}}\n")
    with pytest.raises(UsageError, match=r"producers\.client\.sasl\.password: belongs to the connection") as raised:
        load_specification(tmp_path / "w.yaml")
    assert SECRET not in str(raised.value)


def test_a_file_is_read_once_and_is_no_part_of_what_is_asked(tmp_path: Path) -> None:
    text = MINIMAL + "system: {kind: external, bootstrap_servers: 'a:1', command_config: client.properties}\n"
    (tmp_path / "w.yaml").write_text(text)
    (tmp_path / "client.properties").write_text("security.protocol=SSL\n")
    asked = load_specification(tmp_path / "w.yaml")
    (tmp_path / "client.properties").rename(tmp_path / "elsewhere")
    assert asked.command_config(asked.workload) == {"security.protocol": "SSL"}
    (tmp_path / "w.yaml").write_text(text.replace("client.properties", "elsewhere"))
    assert load_specification(tmp_path / "w.yaml").sha256 == asked.sha256


def test_a_file_at_home_is_found_and_nobodys_home_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "client.properties").write_text("security.protocol=SSL\n")
    text = MINIMAL + "system: {kind: external, bootstrap_servers: 'a:1', command_config: ~/client.properties}\n"
    (tmp_path / "w.yaml").write_text(text)
    asked = load_specification(tmp_path / "w.yaml")
    assert asked.command_config(asked.workload) == {"security.protocol": "SSL"}
    for changed in (
        text.replace("~", "~nobody-of-that-name"),
        MINIMAL.replace("size: 100B", "payload_file: ~nobody-x"),
    ):
        (tmp_path / "w.yaml").write_text(changed)
        with pytest.raises(UsageError, match=r"^~nobody-\S+: no such user$"):
            load_specification(tmp_path / "w.yaml")


def test_the_login_of_a_workloads_cluster_goes_to_no_other(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        MINIMAL + "system: {kind: external, bootstrap_servers: 'a:1', command_config: client.properties}\n"
    )
    for name in ("client", "other"):
        (tmp_path / f"{name}.properties").write_text("security.protocol=SSL\n")

    def login(bootstrap_servers: str | None, command_config: Path | None) -> str | None:
        found = specification_of(tmp_path / "w.yaml", None, None, None, bootstrap_servers, command_config)
        assert found.workload.system.external is not None
        return found.workload.system.external.command_config

    assert login(None, None) == "client.properties"
    assert login("b:1", None) is None
    assert login("b:1", tmp_path / "other.properties") == str(tmp_path / "other.properties")

"""TLS, login and ACLs at a real ZooKeeper that wants all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import uvloop
from kazoo.security import ACL

from highwater.broker.cluster.zookeeper import Children, Create, Created, Exists, Get, NodeData, ZooKeeperError
from highwater.broker.server.zookeeper import KazooZooKeeper, ZooKeeperSettings
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.broker.settings.store import MetadataError
from tests.broker.secure_zookeeper import PASSWORD, SecureZooKeeper, client_section, secure_zookeeper
from tests.broker.server.certificates import Authority
from tests.broker.zookeeper_clients import RealClient, ask

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    with secure_zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def settings_of(connect: str, properties: dict[str, str]) -> ZooKeeperSettings:
    # A ZooKeeper on a busy machine takes its time for the first connection with TLS; nothing else waits for that time.
    times = {"zookeeper.session.timeout.ms": "6000", "zookeeper.connection.timeout.ms": "60000"}
    named = {"zookeeper.connect": connect, **times, **properties}
    return ZooKeeperSettings.of(BrokerConfig(Setting("test", *item) for item in named.items()))


def client_of(secured: SecureZooKeeper, chroot: str, **more: str) -> RealClient:
    properties = {**secured.tls(), **secured.login(), "zookeeper.set.acl": "true", **more}
    return RealClient(secured.connect, chroot, settings=settings_of(secured.connect + chroot, properties))


def refusal_of(connect: str, properties: dict[str, str]) -> str:
    """What a start says that cannot be. It must not wait for the session's whole time."""
    loop = uvloop.new_event_loop()
    failures: list[str] = []
    zookeeper = KazooZooKeeper(loop, settings_of(connect, properties), failures.append)
    with pytest.raises(MetadataError) as caught:
        loop.run_until_complete(zookeeper.start())
    loop.run_until_complete(zookeeper.stop())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert failures == []
    assert "no session within" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_nodes_larger_than_a_record_of_tls_come_back(secured: SecureZooKeeper, protocol: str) -> None:
    client = client_of(secured, f"/{protocol}", **{"zookeeper.ssl.protocol": protocol})
    data = bytes(range(256)) * 2000
    results = ask(client, Create("/large", data), *(Get("/large") for _ in range(20)), Exists("/none"))
    assert isinstance(results[0], Created)
    assert all(isinstance(result, NodeData) and result.data == data for result in results[1:21])
    assert results[21] is ZooKeeperError.NO_NODE
    client.close()


def test_a_lost_connection_logs_in_again_in_the_same_session(secured: SecureZooKeeper) -> None:
    client = client_of(secured, "/again")
    session_id = client.zookeeper.session_id
    ask(client, Create("/config"), Create("/config/users"))
    client.lose_connection()
    client.wait(lambda: client.told.events[-2:] == ["disconnected", "connected"])
    assert client.zookeeper.session_id == session_id
    assert ask(client, Children("/config/users")) == [[]]
    client.close()


def test_nodes_have_kafkas_acls(secured: SecureZooKeeper) -> None:
    client = client_of(secured, "/acls")
    ask(client, *map(Create, ("/consumers", "/brokers", "/config", "/config/users", "/config/users/ann")))
    ids = {"x509:CN=broker,O=Tests", "sasl:kafka"}
    expected = {
        "/acls": (ids, True),
        "/acls/consumers": (set(), True),
        "/acls/brokers": (ids, True),
        "/acls/config/users": (ids, False),
        "/acls/config/users/ann": (ids, False),
    }
    kazoo = client.zookeeper._client
    assert kazoo is not None
    for path, (owners, is_readable) in expected.items():
        acls: list[ACL] = kazoo.get_acls(path)[0]
        found = {f"{acl.id.scheme}:{acl.id.id}" for acl in acls if acl.id.scheme != "world"}
        assert found == owners
        assert [acl.perms for acl in acls if acl.id.scheme == "world"] == ([31 if not owners else 1] * is_readable)
    client.close()


def test_without_the_setting_nodes_are_open(secured: SecureZooKeeper) -> None:
    client = client_of(secured, "/open", **{"zookeeper.set.acl": "false"})
    ask(client, Create("/config"), Create("/config/users"))
    kazoo = client.zookeeper._client
    assert kazoo is not None
    assert [(acl.perms, acl.id.scheme) for acl in kazoo.get_acls("/open/config/users")[0]] == [(31, "world")]
    client.close()


def test_another_user_reads_no_secrets(secured: SecureZooKeeper) -> None:
    client = client_of(secured, "/secrets")
    ask(client, *map(Create, ("/config", "/config/users", "/config/topics")))
    client.close()
    file = secured.authority.certify("other").write_pem(secured.directory / "other.pem")
    (secured.directory / "other.jaas").write_text(client_section("of another", "other"))
    other = client_of(
        secured,
        "/secrets",
        **{
            "zookeeper.ssl.keystore.location": str(file),
            "zookeeper.sasl.jaas.config.file": str(secured.directory / "other.jaas"),
        },
    )
    refused = ZooKeeperError.REFUSED
    names = ask(other, Children("/config"))[0]
    assert sorted(names) == ["topics", "users"]
    assert ask(other, Get("/config/users"), Children("/config/users"), Create("/config/a")) == [refused] * 3
    other.close()


def test_what_is_wrong_is_told_at_once(secured: SecureZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    tls, login, directory = secured.tls(), secured.login(), secured.directory
    (directory / "wrong.jaas").write_text(client_section("hush"))
    (directory / "stranger.pem").write_text(Authority().pem)
    wrong = {"zookeeper.sasl.jaas.config.file": str(directory / "wrong.jaas")}
    stranger = {"zookeeper.ssl.truststore.location": str(directory / "stranger.pem")}
    nobody = {name: text for name, text in tls.items() if "keystore" not in name}
    plain = secured.ensemble.connect
    by_name = f"localhost:{secured.secure_port}"
    with caplog.at_level(logging.DEBUG):
        for connect, properties, reason in (
            (
                secured.connect,
                tls | wrong,
                "it refuses the login of the user 'kafka': no such user, or another password",
            ),
            (secured.connect, tls, "ZooKeeper wants a login (zookeeper.sasl.jaas.config)"),
            (secured.connect, tls | login | stranger, "its certificate is refused"),
            (secured.connect, nobody | login, "it refuses the TLS handshake"),
            (secured.connect, nobody | login | {"zookeeper.ssl.protocol": "TLSv1.3"}, "it refuses the TLS handshake"),
            (secured.connect, login, "it speaks TLS there; set zookeeper.ssl.client.enable=true"),
            (plain, tls | login, "it speaks without TLS there; name its secureClientPort"),
            (by_name, tls | login, "(zookeeper.ssl.endpoint.identification.algorithm)"),
        ):
            told = refusal_of(connect + ("/wrong" if "wants a login" in reason else ""), properties)
            assert reason in told
            assert connect in told
    assert "hush" not in caplog.text
    assert PASSWORD not in caplog.text


def test_a_wrong_password_in_one_try_does_not_end_a_broker_that_ran(secured: SecureZooKeeper) -> None:
    client = client_of(secured, "/later")
    secured.restart("hush")
    client.wait(lambda: any("refuses the login" in each.reason for each in client.zookeeper._failures.values()))
    assert client.failures == []
    # The new password, without a restart of the broker.
    login = {"zookeeper.sasl.jaas.config": client_section("hush")}
    client.zookeeper.take_over(settings_of(secured.connect, secured.tls() | login).security)
    client.wait(lambda: client.told.events[-1] in ("connected", "began"))
    client.close()
    secured.restart(PASSWORD)

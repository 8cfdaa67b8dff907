"""The browser of ZooKeeper with TLS and a login, and what it says without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from highwater.broker.cluster.zookeeper import Create
from highwater.broker.server.zookeeper import ZooKeeperSettings
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.common.errors import UsageError
from highwater.kafka.client.zookeeper_security import security_of
from highwater.monitor.config import MonitorConfig
from highwater.monitor.sources import zookeeper_of
from highwater.monitor.zookeeper.address import address_of
from highwater.monitor.zookeeper.source import ZooKeeperSource
from highwater.monitor.zookeeper.znode import ZooKeeperError
from tests.broker.secure_zookeeper import client_section, secure_zookeeper
from tests.broker.zookeeper_clients import RealClient, ask
from tests.monitor.zookeeper.test_with_zookeeper import has_numbers
from tests.waiting import wait_until

WITH_ZOOKEEPER = MonitorConfig("127.0.0.1:9092", zookeeper=address_of("127.0.0.1:1/kafka"))


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"zookeeper.ssl.keystore.locatoin": "/k"}, "did you mean zookeeper.ssl.keystore.location"),
        ({"zookeeper.set.acl": "true"}, "zookeeper_client: zookeeper.set.acl is not one of its properties"),
        (
            {"zookeeper.sasl.jaas.config": 'M required password="s3cret'},
            "zookeeper_client: zookeeper.sasl.jaas.config: ",
        ),
    ],
)
def test_settings_that_cannot_be(properties: dict[str, str], reason: str) -> None:
    with ExitStack() as stack, pytest.raises(UsageError, match=reason) as caught:
        zookeeper_of(replace(WITH_ZOOKEEPER, zookeeper_client=properties), stack)
    assert "s3cret" not in str(caught.value)


@contextmanager
def running(connect: str, properties: dict[str, str]) -> Iterator[ZooKeeperSource]:
    source = ZooKeeperSource(address_of(connect), 0.2, security_of(properties.get))
    source.start()
    try:
        yield source
    finally:
        source.stop()


def says(source: ZooKeeperSource, reason: str) -> bool:
    return reason in source.take()[0].error


@pytest.mark.slow
def test_the_source_with_and_without_what_it_needs(tmp_path: Path) -> None:
    with secure_zookeeper(tmp_path, login_required=False) as secured:
        connect = f"{secured.connect}/kafka"
        properties = {**secured.tls(), **secured.login(), "zookeeper.set.acl": "true", "zookeeper.connect": connect}
        settings = ZooKeeperSettings.of(BrokerConfig(Setting("test", *item) for item in properties.items()))
        brokers = RealClient(connect, settings=settings)
        ask(brokers, *map(Create, ("/config", "/config/changes", "/brokers", "/brokers/ids", "/config/users")))
        ask(brokers, Create("/controller_epoch", b"7"), Create("/config/users/ann", b'{"version":1,"config":{}}'))
        with running(connect, secured.tls() | secured.login()) as source:
            wait_until(lambda: source.take()[0].controller_epoch == 7, "the epoch")
            assert source.read("/config/users/ann").path == "/config/users/ann"
            wait_until(lambda: has_numbers(source), "the numbers")
        (tmp_path / "other.jaas").write_text(client_section("of another", "other"))
        secured.authority.certify("other").write_pem(tmp_path / "other.pem")
        stranger = secured.tls() | {"zookeeper.ssl.keystore.location": str(tmp_path / "other.pem")}
        with running(connect, stranger) as source:
            wait_until(lambda: source.take()[0].controller_epoch == 7, "the epoch")
            with pytest.raises(ZooKeeperError, match="its ACL is for others"):
                source.read("/config/users/ann")
        (tmp_path / "wrong.jaas").write_text(client_section("s3cret"))
        login = {"zookeeper.sasl.jaas.config.file": str(tmp_path / "wrong.jaas")}
        for properties, reason in (
            (secured.tls() | login, "it refuses the login of the user 'kafka'"),
            ({}, "it speaks TLS there; set zookeeper.ssl.client.enable=true"),
        ):
            with running(connect, properties) as source:
                wait_until(partial(says, source, reason), reason)
        brokers.close()

"""Every template, as the example inventory would have it, judged by those who are to read it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from highwater.bench.workload.command_config import read_command_config
from highwater.broker.server.start_check import check
from highwater.broker.settings.config import BrokerConfig, Setting, read_properties_file
from highwater.common.java_properties import parse_properties
from highwater.common.listen_address import ListenAddress
from highwater.kafka.client.java_names import as_librdkafka_has_it
from highwater.kafka.client.security import Sasl
from highwater.kafka.client.zookeeper_security import security_of
from highwater.kafka.login.jaas import parse_login_text
from highwater.monitor.config import read_config
from highwater.monitor.sources import client_of
from tests.broker.server.certificates import Authority
from tests.playbooks import units
from tests.playbooks.modules import TREE
from tests.playbooks.playing import play, succeeded, unpack

HOST = "broker1.example.net"
# By the name of the unit; as much as each may, of 10 at the worst.
MOST_EXPOSED = {
    "zookeeper.service": 2.0,
    "highwater-broker@ssd.service": 2.0,
    "reference-kafka@ssd.service": 2.0,
    "spark-master.service": 2.5,
    "spark-worker.service": 2.5,
    "highwater-bench@smoke.service": 3.0,
    "highwater-sampler@.service": 4.0,
    "highwater-agent.service": 4.0,
    "highwater-pipeline@orders.service": 2.5,
    "highwater-monitor@hdd.service": 2.0,
}


# Hosts that have names alone, and roles that are told other things than the example has.
NAMED = {
    "all": {
        "vars": {"bench_run": "smoke", "storage_disks": [{"mount_point": "/data/ssd1"}]},
        "hosts": {
            "a.example.net": {"broker_id": 1, "zookeeper_id": 1},
            "b.example.net": {"broker_id": 2, "zookeeper_id": 2},
            "c.example.net": {"broker_id": 3, "zookeeper_id": 3, "zookeeper_address": "fd00::3"},
        },
        "children": {
            "zookeeper": {
                "hosts": dict.fromkeys(("a.example.net", "b.example.net", "c.example.net")),
                "vars": {"zookeeper_properties": {"ssl.quorum.keyStore.password": "hush"}},
            },
            "reference_kafka": {
                "hosts": {"a.example.net": None},
                "vars": {
                    "reference_kafka_instances": [{"name": "main", "port": 19092, "log_dirs": ["/data/ssd1/kafka"]}],
                    "reference_kafka_properties": {"ssl.keystore.password": "hush"},
                },
            },
            "brokers": {"hosts": {"a.example.net": None}},
            "spark_master": {
                "hosts": {"b.example.net": None},
                "vars": {
                    "spark_address": "10.0.0.2",
                    "spark_master_port": 7099,
                    "spark_authentication_secret": "of-all",
                },
            },
            "spark_workers": {"hosts": {"a.example.net": None}},
            "bench": {"hosts": {"a.example.net": None}},
        },
    }
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of one of the example's hosts."""
    return render(tmp_path_factory.mktemp("rendered"), "inventories/example", HOST)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the first host of NAMED."""
    directory = tmp_path_factory.mktemp("named")
    inventory = directory / "hosts.yml"
    inventory.write_text(yaml.safe_dump(NAMED), "utf-8")
    return render(directory, inventory, "a.example.net")


# With a password that every file has to quote.
HUSH = 'hush "hush" \\ é$'
SERVICES = ("broker", "verify", "monitor", "bench", "mirror", "spark")
SECURE = {
    "all": {
        "vars": {
            "cluster_security": "tls",
            "cluster_users": [{"name": "admin", "password": HUSH, "super_user": True}],
            "cluster_access": {
                **dict.fromkeys(("authority", "certificate", "key"), Authority().pem),
                "passwords": dict.fromkeys(SERVICES, HUSH),
            },
            "storage_disks": [{"mount_point": "/data/ssd1"}],
            "bench_run": "smoke",
        },
        "hosts": {
            f"node{number}": {"ansible_host": f"10.0.0.{number}", "broker_id": number, "zookeeper_id": number}
            for number in (1, 2, 3)
        },
        "children": {
            group: {"hosts": dict.fromkeys(("node1", "node2", "node3")[:count])}
            for group, count in (("zookeeper", 3), ("brokers", 3), ("spark_master", 1), ("bench", 1), ("monitor", 1))
        },
    }
}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the first host of SECURE."""
    directory = tmp_path_factory.mktemp("secure")
    inventory = directory / "hosts.yml"
    inventory.write_text(yaml.safe_dump(SECURE), "utf-8")
    return render(directory, inventory, "node1")


def render(directory: Path, inventory: str | Path, host: str) -> Path:
    tree = directory / "tree"
    # The directory of a playbook is that of its roles and filters.
    tree.mkdir()
    for path in TREE.iterdir():
        (tree / path.name).symlink_to(path)
    (tree / "rendering.yml").write_text(Path(__file__).with_name("rendering.yml").read_text("utf-8"), "utf-8")
    (directory / "bench").symlink_to(TREE.parent / "bench")
    options = ("-i", inventory, "--limit", host, "--tags", "render")
    succeeded(play(directory, *options, "rendering.yml", directory=tree, rendered=str(directory)))
    unpack(directory / f"{host}.json", directory / host)
    return directory / host


def test_every_template_is_rendered() -> None:
    told = (Path(__file__).with_name("rendering.yml")).read_text("utf-8")
    templates = {path.name.removesuffix(".j2") for path in TREE.glob("roles/*/templates/**/*.j2")}
    # The workload has tests of its own (test_bench_workload.py).
    assert {name for name in templates if name not in told} == {"workload.yaml"}


@pytest.mark.slow
def test_every_service_is_judged(rendered: Path) -> None:
    judged = {re.sub("@.*[.]", "@.", unit) for unit in MOST_EXPOSED}
    assert {path.name for path in rendered.glob("*.service")} == judged


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    found = {name: value for name, _, value in (line.partition("=") for line in lines)}
    assert len(found) == len(lines), f"{path.name} says something twice"
    return found


def test_nothing_is_left_to_fill_in(rendered: Path) -> None:
    for path in rendered.iterdir():
        text = path.read_text("utf-8")
        assert [word for word in ("{{", "{%", "None", "Undefined", "omit_place_holder") if word in text] == [], (
            path.name
        )


def test_our_brokers_take_their_properties(rendered: Path) -> None:
    for name, port in (("ssd", 9092), ("hdd", 9093)):
        config = BrokerConfig(read_properties_file(rendered / f"highwater-{name}-broker.properties"))
        check(config)
        assert config.warnings == []
        assert config.integer("default.replication.factor") == 3
        assert config.string("listeners") == f"PLAINTEXT://192.0.2.11:{port}"
        nodes = ",".join(f"192.0.2.1{number}:2181" for number in (1, 2, 3))
        assert config.string("zookeeper.connect") == f"{nodes}/highwater/{name}"


def test_apache_kafka_is_told_who_it_is_and_where(rendered: Path) -> None:
    told = properties(rendered / "reference-hdd-server.properties")
    assert told["broker.id"] == "1"
    assert told["log.dirs"] == "/data/hdd1/reference-kafka,/data/hdd2/reference-kafka"
    assert told["listeners"].endswith(":19093")
    assert told["zookeeper.connect"].endswith("/reference/hdd")
    assert (told["default.replication.factor"], told["min.insync.replicas"]) == ("3", "2")
    assert [name for name, value in told.items() if not value] == []


def test_a_monitor_takes_its_file(rendered: Path, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"broker{number}.example.net.token").write_text("a token of the agent's")
    (tmp_path / "agents.pem").write_text(Authority().pem)
    file = shutil.copy(rendered / "monitor.yaml", tmp_path)
    config = read_config(Path(file), yaml, {})
    assert config.bootstrap_servers == ",".join(f"192.0.2.1{number}:9093" for number in (1, 2, 3))
    assert config.zookeeper is not None
    assert config.zookeeper.chroot == "/highwater/hdd"
    assert config.web.listen == ListenAddress("192.0.2.11", 9644)
    assert config.web.host_names == (HOST, "192.0.2.11")
    assert [(each.name, each.address, each.port) for each in config.hosts] == [
        (f"broker{number}.example.net", f"192.0.2.1{number}", 9646) for number in (1, 2, 3)
    ]
    assert all(each.tls and each.token for each in config.hosts)


def test_units_have_no_secret_and_name_the_files_that_have(rendered: Path) -> None:
    agent = (rendered / "highwater-agent.service").read_text("utf-8")
    assert "--listen 192.0.2.11:9646" in agent
    assert "LoadCredential=token:/etc/highwater-agent/token\n" in agent
    # A list of what is allowed has no cachestat(2) where systemd is older than that.
    filters = [line for line in agent.splitlines() if line.startswith("SystemCallFilter=")]
    assert [line for line in filters if not line.startswith("SystemCallFilter=~")] == []
    monitor = (rendered / "highwater-monitor@.service").read_text("utf-8")
    assert "EnvironmentFile=/etc/highwater/monitor/%i/environment\n" in monitor


@pytest.mark.slow
def test_on_a_host_with_a_name_alone_nothing_listens_where_that_name_leads_to(named: Path, tmp_path: Path) -> None:
    """Debian's installer has it at 127.0.1.1."""
    told = BrokerConfig(read_properties_file(named / "highwater-main-broker.properties"))
    check(told)
    assert told.string("listeners") == "PLAINTEXT://:9092"
    assert properties(named / "zoo.cfg")["quorumListenOnAllIPs"] == "true"
    assert "spark.driver.bindAddress 0.0.0.0" in (named / "bench-spark-defaults.conf").read_text("utf-8")
    socket = named / "highwater-sampler.socket"
    assert "ListenStream=9180\n" in socket.read_text("utf-8")
    units.lay_out(tmp_path, {path.name: path for path in (socket, named / "highwater-sampler@.service")})
    assert units.complaints(tmp_path, socket.name) == ""


def test_files_with_secrets_are_known(rendered: Path, named: Path) -> None:
    for folder, has_secrets in ((rendered, False), (named, True)):
        told = json.loads((folder / "secrets.json").read_text("utf-8"))
        assert told == {"zoo.cfg": has_secrets, "server.properties": has_secrets, "broker.properties": False}


def test_an_ipv6_address_has_brackets_before_its_port(named: Path) -> None:
    assert properties(named / "zoo.cfg")["server.3"] == "[fd00::3]:2888:3888"
    told = BrokerConfig(read_properties_file(named / "highwater-main-broker.properties"))
    check(told)
    assert (told.string("zookeeper.connect") or "").endswith(",[fd00::3]:2181/highwater/main")


def test_the_bench_finds_spark_where_the_masters_host_says(named: Path) -> None:
    assert "--master spark://10.0.0.2:7099 " in (named / "highwater-bench@.service").read_text("utf-8")
    assert "spark.authenticate.secret of-all" in (named / "bench-spark-defaults.conf").read_text("utf-8")


def test_the_ensemble_has_its_members_and_its_words(rendered: Path) -> None:
    told = properties(rendered / "zoo.cfg")
    members = {name: value for name, value in told.items() if name.startswith("server.")}
    assert members == {f"server.{number}": f"192.0.2.1{number}:2888:3888" for number in (1, 2, 3)}, (
        "who is in the ensemble"
    )
    assert "mntr" in told["4lw.commands.whitelist"].split(",")
    assert "quorumListenOnAllIPs" not in told, "an address is listened on"
    assert int(told["autopurge.purgeInterval"]) > 0


def written(path: Path) -> dict[str, str]:
    return {each.name: each.value for each in parse_properties(path.read_text("utf-8"))}


@pytest.mark.slow
def test_brokers_with_tls_take_their_properties(secure: Path, tmp_path: Path) -> None:
    """The check of a start reads the stores: those of the host are others."""
    told = written(secure / "highwater-main-broker.properties")
    authority = Authority()
    authority.certify("broker").write_pem(tmp_path / "broker.pem")
    (tmp_path / "authority.pem").write_text(authority.pem)
    for name in ("ssl.keystore.location", "ssl.truststore.location", "zookeeper.ssl.truststore.location"):
        assert Path(told[name]).parent == Path("/etc/highwater/security")
        told[name] = str(tmp_path / Path(told[name]).name)
    config = BrokerConfig([Setting("file", name, value) for name, value in told.items()])
    check(config)
    assert config.warnings == []
    assert config.string("listeners") == "CLIENTS://10.0.0.1:9092,BROKERS://10.0.0.1:10092"
    assert config.string("inter.broker.listener.name") == "BROKERS"
    assert config.string("super.users") == "User:highwater-broker;User:admin"
    entry = parse_login_text(told["listener.name.brokers.plain.sasl.jaas.config"], "KafkaServer")
    assert entry.options["password"] == entry.options["user_highwater-broker"] == HUSH
    login = security_of(told.get).login
    assert login is not None
    assert (login.user, login.password) == ("broker", HUSH)


def test_an_ensemble_with_tls_has_no_port_without(secure: Path) -> None:
    told = properties(secure / "zoo.cfg")
    assert (told["secureClientPort"], "clientPort" in told) == ("2181", False)
    assert told["4lw.commands.whitelist"] == "ruok,srvr,mntr", "they are answered without a login"
    assert (told["enforce.auth.enabled"], told["enforce.auth.schemes"], told["sslQuorum"]) == ("true", "sasl", "true")
    unit = (secure / "zookeeper.service").read_text("utf-8")
    assert "netty-codec.jar" in unit
    entry = parse_login_text((secure / "jaas.conf").read_text("utf-8"), "Server")
    assert entry.options == {f"user_{name}": HUSH for name in ("broker", "monitor", "verify")}
    for file in json.loads((secure / "watched.json").read_text("utf-8")):
        assert f" {file}" in unit, "the record of a start has all that a start depends on"


def test_a_monitor_with_tls_takes_its_file_and_finds_secrets_in_its_environment(secure: Path, tmp_path: Path) -> None:
    text = (secure / "monitor.yaml").read_text("utf-8")
    assert "hush" not in text
    for name in ("cluster.pem", "agents.pem"):
        (tmp_path / name).write_text(Authority().pem)
    for number in (1, 2, 3):
        (tmp_path / f"node{number}.token").write_text("a token of the agent's")
    (tmp_path / "monitor.yaml").write_text(text.replace("/etc/highwater/monitor/main", str(tmp_path)))
    lines = (secure / "environment").read_text("utf-8").splitlines()
    environment = {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) for name, _, value in (one.partition("=") for one in lines)
    }
    config = read_config(tmp_path / "monitor.yaml", yaml, environment)
    sasl = client_of(config).sasl
    assert isinstance(sasl, Sasl)
    assert (sasl.user, sasl.password) == ("highwater-monitor", HUSH)
    login = security_of(config.zookeeper_client.get).login
    assert login is not None
    assert (login.user, login.password) == ("monitor", HUSH)


def test_the_bench_and_the_commands_know_how_to_log_in(secure: Path) -> None:
    found = read_command_config(secure / "client.properties")
    assert (found["sasl.username"], found["sasl.password"]) == ("highwater-bench", HUSH)
    assert "BEGIN CERTIFICATE" in found["ssl.ca.pem"]
    told = as_librdkafka_has_it(written(secure / "admin.properties"))
    assert (told["sasl.username"], told["sasl.password"]) == ("highwater-broker", HUSH)
    assert json.loads((secure / "secrets.json").read_text("utf-8"))["broker.properties"] is True


def test_spark_encrypts_what_has_the_password_of_the_load(secure: Path, rendered: Path) -> None:
    bench, daemons = (
        dict(line.split(" ", 1) for line in file.read_text("utf-8").splitlines() if line.startswith("spark."))
        for file in (secure / "bench-spark-defaults.conf", secure / "spark-defaults.conf")
    )
    for told in (bench, daemons):
        assert (told["spark.authenticate"], told["spark.network.crypto.enabled"]) == ("true", "true")
        assert told["spark.authenticate.secret"] == HUSH
    assert bench["spark.io.encryption.enabled"] == "true"
    assert "spark.authenticate" not in (rendered / "spark-defaults.conf").read_text("utf-8")


@pytest.fixture(scope="module")
def root(rendered: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("root")
    drop_ins = {
        "highwater-broker@ssd.service.d/10-instance.conf": rendered / "highwater-ssd-10-instance.conf",
        "reference-kafka@ssd.service.d/10-instance.conf": rendered / "reference-ssd-instance.conf",
    }
    services = [*rendered.glob("*.service"), *rendered.glob("*.socket")]
    units.lay_out(directory, {**{path.name: path for path in services}, **drop_ins})
    return directory


@pytest.mark.parametrize("unit", [*MOST_EXPOSED, "highwater-sampler.socket"])
def test_systemd_has_nothing_to_say_against_a_unit(root: Path, unit: str) -> None:
    assert units.complaints(root, unit.replace("sampler@.", "sampler@1.")) == ""


@pytest.mark.parametrize("unit", MOST_EXPOSED)
def test_a_unit_may_do_little(root: Path, unit: str) -> None:
    assert units.exposure(root, unit) <= MOST_EXPOSED[unit]

"""What each process of a host is started with, and what a start with several processes refuses."""

from __future__ import annotations

import os

import pytest

from highwater.broker.server.process_plan import ProcessPlan
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting


def plan_of(**properties: str) -> ProcessPlan:
    named = {"log_dirs": "/a,/b", "highwater_processes": "3", **properties}
    return ProcessPlan.of([Setting("test", name.replace("_", "."), value) for name, value in named.items()])


def config_of(plan: ProcessPlan, index: int) -> BrokerConfig:
    return BrokerConfig(plan.settings_of(index, tree="@00f1e"))


def test_each_process_has_an_id_ports_and_directories_of_its_own() -> None:
    plan = plan_of(
        broker_id="7",
        listeners="PLAINTEXT://:9092,OTHER://[::1]:19092",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        advertised_listeners="PLAINTEXT://broker.example:29092",
        metrics_listener="HTTP://127.0.0.1:9404",
        message_max_bytes="1000",
    )
    config = config_of(plan, 2)
    assert config.integer("broker.id") == 9
    assert config.string("listeners") == "PLAINTEXT://:9095,OTHER://[::1]:19095"
    assert config.string("advertised.listeners") == "PLAINTEXT://broker.example:29095"
    assert config.string("log.dirs") == "/a/process-2,/b/process-2"
    assert config.string("zookeeper.connect") == "@00f1e"
    assert config.string("metrics.listener") == "HTTP://127.0.0.1:9404", "clients are told where the parent has them"
    assert (config.string("highwater.processes"), config.string("highwater.process")) == ("3", "2")
    assert config.integer("message.max.bytes") == 1000
    assert config.warnings == []


def test_one_copy_is_the_default_and_what_is_set_counts() -> None:
    config = config_of(plan_of(), 0)
    assert config.integer("offsets.topic.replication.factor") == 1
    assert config.integer("transaction.state.log.replication.factor") == 1
    assert config.string("broker.rack") == os.uname().nodename
    config = config_of(plan_of(offsets_topic_replication_factor="2", broker_rack="r"), 0)
    assert (config.integer("offsets.topic.replication.factor"), config.string("broker.rack")) == (2, "r")


def test_a_free_port_is_free_for_every_process() -> None:
    assert config_of(plan_of(listeners="PLAINTEXT://127.0.0.1:0"), 1).string("listeners") == "PLAINTEXT://127.0.0.1:0"


def test_auto_is_one_for_each_core_and_never_fewer_than_there_were() -> None:
    plan, cores = plan_of(highwater_processes="auto"), len(os.sched_getaffinity(0))
    assert plan.counted(0).process_count == cores
    assert plan.counted(cores + 2).process_count == cores + 2


def test_more_processes_than_cores_are_told(caplog: pytest.LogCaptureFixture) -> None:
    cores = len(os.sched_getaffinity(0))
    assert plan_of(highwater_processes=str(cores + 1)).counted(0).process_count == cores + 1
    (line,) = caplog.messages
    assert line == f"{cores + 1} processes share {cores} cores; --processes auto starts one for each"


def test_settings_of_zookeeper_are_told_to_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    plan = plan_of(zookeeper_session_timeout_ms="1")
    assert config_of(plan, 0).integer("zookeeper.session.timeout.ms") == 18_000
    assert caplog.messages == ["test: zookeeper.session.timeout.ms has no effect: the metadata is kept by this host"]


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        ({"highwater_processes": "0"}, "highwater.processes=0: write a number from 1 to 256, or auto"),
        ({"highwater_processes": "257"}, "highwater.processes=257: write a number from 1 to 256, or auto"),
        ({"highwater_processes": "two"}, "highwater.processes=two: write a number from 1 to 256, or auto"),
        ({"highwater_processes": ""}, "highwater.processes=: write a number from 1 to 256, or auto"),
        (
            {"zookeeper_connect": "127.0.0.1:2181"},
            (
                "highwater.processes is for a host alone: with zookeeper.connect, start one broker for each core, with "
                "a broker.id, port and log directory of its own"
            ),
        ),
        (
            {"broker_id": "998"},
            "highwater.processes=3: the last process would have broker.id=1000, above reserved.broker.max.id=999",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:65533"},
            "highwater.processes=3: PLAINTEXT needs the ports 65533 to 65536, and the last port is 65535",
        ),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.1:9095",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            },
            (
                "highwater.processes=3: PLAINTEXT and OTHER both need port 9095; each listener needs 4 ports, its own "
                "and one for each process"
            ),
        ),
        (
            {"metrics_listener": "HTTP://127.0.0.1:9094"},
            (
                "highwater.processes=3: port 9094 of metrics.listener is one of those that PLAINTEXT needs; each "
                "listener needs 4 ports"
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(properties: dict[str, str], refusal: str) -> None:
    if "broker_id" in properties:
        properties = {**properties, "reserved_broker_max_id": "999"}
    with pytest.raises(ConfigError) as error:
        plan_of(**properties)
    assert str(error.value) == refusal

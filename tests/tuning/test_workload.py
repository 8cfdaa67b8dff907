"""What a person may say about the workload."""

from __future__ import annotations

import pytest

from highwater.tuning.errors import TuningError
from highwater.tuning.workload import Workload, parse_properties, parse_workload


def test_what_is_not_said_keeps_its_default() -> None:
    workload = parse_workload({"partitions": 5000, "rtt": "30ms", "data_dirs": ["/d1", "/d2"], "link": None})
    assert workload == Workload(partitions=5000, rtt_ms=30.0, data_dirs=("/d1", "/d2"))


def test_derived_figures() -> None:
    assert Workload().bandwidth_delay_bytes == 1_250_000
    assert Workload(partitions=10, partition_bytes=1, segment_bytes=2**30).segments == 10
    assert Workload(partitions=10, partition_bytes=2**30 + 1, segment_bytes=2**30).segments == 20


def test_what_a_broker_does_and_how_it_is_set_up() -> None:
    workload = parse_workload(
        {
            "write_rate": "250MB/s",
            "lag": "5m",
            "retention": "2d",
            "broker": "apache-kafka",
            "broker_memory": "300MiB",
            "heap": "8GiB",
            "units": ["kafka.service"],
            "broker_config": {"socket.listen.backlog.size": 200},
        }
    )
    assert workload == Workload(
        write_bytes_per_s=250_000_000,
        lag_window_s=300.0,
        retention_s=172_800.0,
        broker="apache-kafka",
        broker_rss_bytes=300 * 2**20,
        heap_bytes=8 * 2**30,
        units=("kafka.service",),
        broker_config={"socket.listen.backlog.size": "200"},
    )


def test_properties_of_a_broker_are_read_as_java_reads_them() -> None:
    text = """
# a comment
! another
socket.listen.backlog.size=128
  socket.send.buffer.bytes : -1
log.dirs = /data/a, \\
           /data/b
socket.listen.backlog.size = 256
empty =
just a key with words
"""
    assert parse_properties(text) == {
        "socket.listen.backlog.size": "256",
        "socket.send.buffer.bytes": "-1",
        "log.dirs": "/data/a, /data/b",
        "empty": "",
        "just": "a key with words",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"broker": "kafka"}, "broker: 'kafka' is not a broker; did you mean apache-kafka? (known: highwater, apache"),
        ({"lag": "-3s"}, "lag: '-3s' is not a duration"),
        ({"units": ["../evil.service"]}, "'../evil.service' is not the name of a service unit"),
        ({"units": "kafka.service"}, "units must be a list of service units"),
        ({"broker_config": "a=b"}, "broker_config must map properties of the broker to values"),
        ({"partition": "5"}, "unknown workload input 'partition'; did you mean partitions?"),
        ({"rtt": "3"}, "rtt: '3' is not a duration"),
        ({"data_dirs": "/data"}, "data_dirs must be a list"),
        ({"data_dirs": []}, "data_dirs must be a list"),
        ({"data_dirs": ["data"]}, "data directory 'data' must be an absolute path"),
    ],
)
def test_bad_input_names_the_thing(given: dict[str, object], message: str) -> None:
    with pytest.raises(TuningError) as caught:
        parse_workload(given)
    assert message in str(caught.value)

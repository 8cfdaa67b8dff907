"""The hosts of a cluster, heard through samplers that are there, that are silent, and that break off."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from highwater.bench.host import cluster_sampler
from highwater.bench.host.cluster_sampler import ClusterSampler, check_samplers
from highwater.bench.host.sampling_service import serve
from highwater.bench.workload.clusters import Cluster
from highwater.common.errors import UsageError
from tests.bench.host.samplers import listening, tell_of_this_process


def nothing_runs(connection: socket.socket) -> None:
    serve(connection.fileno(), connection.fileno(), lambda units: [0] * len(units))


def hear_everything(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def say(data: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(data)

    return answer


def cluster(**addresses: str) -> Cluster:
    hosts = {name: {"sampler": {"address": at, "brokers": ["broker.service"]}} for name, at in addresses.items()}
    return Cluster.model_validate({"bootstrap_servers": "127.0.0.1:9092", "hosts": hosts})


def test_what_the_hosts_used_is_what_the_system_used() -> None:
    with listening(tell_of_this_process) as one, listening(tell_of_this_process) as other:
        with ClusterSampler(cluster(one=one, other=other)) as sampler:
            sum(range(200_000))
        used_s = [host.system_cpu_s() for host in sampler.hosts.values()]
    assert [host.problem for host in sampler.hosts.values()] == [None, None]
    assert all(used is not None and used > 0 for used in used_s)
    assert sampler.system_cpu_s() == pytest.approx(sum(used for used in used_s if used is not None))


def test_one_host_that_does_not_tell_leaves_the_sum_unknown() -> None:
    with (
        listening(tell_of_this_process) as one,
        listening(nothing_runs) as other,
        ClusterSampler(cluster(one=one, other=other)) as sampler,
    ):
        pass
    assert sampler.hosts["other"].problem == "broker.service did not run there"
    assert sampler.hosts["one"].system_cpu_s() is not None
    assert sampler.system_cpu_s() is None


def test_a_host_without_a_sampler_has_no_samples() -> None:
    described = Cluster.model_validate({"bootstrap_servers": "h:1", "hosts": {"h": {"cpus": 4}}})
    with ClusterSampler(described) as sampler:
        pass
    assert sampler.hosts["h"].samples(0.0) == []
    assert sampler.system_cpu_s() is None
    check_samplers("c", described)


def test_a_cluster_that_is_not_described_and_a_system_of_our_own_have_no_hosts() -> None:
    for described in (None, Cluster(bootstrap_servers="h:1")):
        with ClusterSampler(described) as sampler:
            pass
        assert sampler.hosts == {}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "its sampler said nothing"),
        (b"hello\n", "its sampler broke off: "),
        (b'{"reading": null, "missing": [], "problem": "no"}\n', "its sampler does not sample: no"),
    ],
)
def test_what_a_sampler_does_not_tell_is_said_and_ends_nothing(said: bytes, problem: str) -> None:
    with listening(say(said)) as address:
        with ClusterSampler(cluster(one=address)) as sampler:
            pass
        assert (sampler.hosts["one"].problem or "").startswith(problem)
        with pytest.raises(UsageError, match=r"system\.clusters\.c\.hosts\.one: its sampler .*start it there"):
            check_samplers("c", cluster(one=address))


def test_a_host_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UsageError, match="does not answer: Connection refused"):
        check_samplers("c", cluster(one=free))
    monkeypatch.setattr(cluster_sampler, "_FIRST_READING_WITHIN_S", 0.1)
    monkeypatch.setattr(cluster_sampler, "_SILENCE_S", 0.5)
    with (
        listening(hear_everything) as silent,
        pytest.raises(UsageError, match=r"reported nothing within 0\.1 s"),
    ):
        check_samplers("c", cluster(one=silent))

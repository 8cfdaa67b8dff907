"""Masters that are none, and masters that do not answer."""

from __future__ import annotations

import socket

import pytest

from highwater.common.spark_master import master_fault


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2,3]", "local-cluster[1,2,512]", "yarn", "k8s://https://a:6443"]
)
def test_masters_that_are_not_asked(master: str) -> None:
    assert master_fault(master) is None


@pytest.mark.parametrize("master", ["locale", "spark://a", "spark:a:1", "", "yarn-client", "k8s://"])
def test_what_is_no_master(master: str) -> None:
    assert str(master_fault(master)).startswith(f"{master!r} is not a Spark master: use local[N]")


def test_a_host_name_that_cannot_be() -> None:
    assert str(master_fault("spark://a..b:7077")).startswith("the Spark master spark://a..b:7077 does not answer: ")


def test_one_address_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        gone_port, there_port = gone.getsockname()[1], there.getsockname()[1]
        gone.close()
        gone_master = f"spark://127.0.0.1:{gone_port}"
        assert master_fault(gone_master) == f"the Spark master {gone_master} does not answer: Connection refused"
        assert master_fault(f"{gone_master},127.0.0.1:{there_port}") is None

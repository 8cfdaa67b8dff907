"""Addresses as zookeeper.connect has them, and paths that must not leave the chroot."""

from __future__ import annotations

import pytest

from highwater.common.errors import UsageError
from highwater.common.znode_path import path_problem
from highwater.monitor.zookeeper.address import address_of, child_path, parents_of


def test_an_address_is_that_of_zookeeper_connect() -> None:
    found = address_of("zk1:2181,zk2,[::1]:2183/kafka/main/")
    assert found.servers == (("zk1", 2181), ("zk2", 2181), ("::1", 2183))
    assert (found.hosts, found.chroot) == ("zk1:2181,zk2:2181,[::1]:2183", "/kafka/main")
    assert address_of("localhost:2181/").chroot == ""


@pytest.mark.parametrize(
    "text", ["", "/kafka", "a:b", "a:0", "a:70000", "a:1:2", "a b:1", "a:1,,b:2", "a:1/x//y", "a:1/../b", "u:p@h:1"]
)
def test_what_is_no_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not HOST:PORT|is not a path") as error:
        address_of(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "", "brokers", "/brokers/", "//brokers", "/a//b", "/..", "/../other", "/a/../../b", "/.", "/a/./b", "/a\0b",
        "/a\nb", "/\x7f", "/\ud800", "/" + "x" * 3000,
    ],
)  # fmt: skip
def test_a_path_that_zookeeper_would_refuse_or_that_goes_up_has_a_problem(path: str) -> None:
    assert path_problem(path)


@pytest.mark.parametrize("path", ["/", "/brokers/ids", "/a/...", "/config/users/ann%20a", "/<b>", "/\u202eabc", "/ü"])
def test_other_paths_have_none(path: str) -> None:
    assert path_problem(path) == ""


def test_a_trail_leads_from_the_root_to_a_path() -> None:
    assert parents_of("/") == [("/", "/")]
    assert parents_of("/a/b") == [("/", "/"), ("/a", "a"), ("/a/b", "b")]
    assert child_path("/", "a") == "/a"
    assert child_path("/a", "b") == "/a/b"

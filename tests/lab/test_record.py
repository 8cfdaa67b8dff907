"""Names, addresses and records of labs; nothing here makes one."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from tests.lab.record import LoopSettings, Record, Store, free_network, held


def a_record(name: str = "lab", network: int = 0, hosts: int = 3) -> Record:
    return Record(name=name, network=network, hosts=hosts, boot_id="b")


def test_a_lab_is_named_so_that_its_interfaces_can_be() -> None:
    record = a_record("abcdef", network=254, hosts=9)
    assert record.bridge == "hw-abcdef"
    assert [node.address for node in record.nodes][::8] == ["10.87.254.11", "10.87.254.19"]
    assert record.gateway == "10.87.254.1"
    # nspawn puts three characters before a machine's name and cuts what is longer than 15.
    assert all(len(f"vb-{node.machine}") <= 15 for node in record.nodes)
    assert len({node.machine for node in record.nodes}) == 9


@pytest.mark.parametrize("name", ["", "Lab", "1a", "seven77", "../x", "a-b", "_image"])
def test_a_bad_name_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name for a lab"):
        Store.of(name)


def test_the_default_lab_has_the_network_of_its_committed_inventory() -> None:
    assert free_network("lab", [a_record("a", network=1)], ["192.0.2.0/24"]) == 0


def test_another_lab_takes_the_first_free_network() -> None:
    assert free_network("b", [a_record("lab", 0), a_record("a", 1)], ["10.87.2.0/24", "10.0.0.0/8", "default"]) == 3


def test_a_network_of_somebody_else_is_not_taken() -> None:
    with pytest.raises(UsageError, match=r"10\.87\.0\.0/24 is in use"):
        free_network("lab", [], ["10.87.0.0/24"])


def test_a_record_is_read_as_it_was_written_and_forgotten_whole(tmp_path: Path) -> None:
    store = Store("a", tmp_path)
    assert store.read() is None
    record = a_record("a", 1).model_copy(
        update={"loops": {"/x.img": LoopSettings(device_number="7:1", queue={"rotational": "0"})}}
    )
    store.write(record)
    (store.directory / "hosts/node1").mkdir(parents=True)
    (store.directory / "link").symlink_to(tmp_path)
    assert store.read() == record
    store.forget()
    assert not store.directory.exists()
    assert store.read() is None
    assert tmp_path.exists()


def test_a_damaged_record_is_one_line_that_names_it(tmp_path: Path) -> None:
    store = Store("a", tmp_path)
    store.directory.mkdir()
    (store.directory / "lab.json").write_text("{")
    with pytest.raises(UsageError, match=r"lab\.json is not a readable record of a lab .*; move it away$"):
        store.read()


def test_other_labs_are_known_by_their_records(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Store(name, tmp_path).write(a_record(name))
    (tmp_path / "_image").mkdir()
    (tmp_path / "c").mkdir()
    assert [record.name for record in Store("a", tmp_path).others()] == ["b"]


def test_two_commands_do_not_work_on_one_lab(tmp_path: Path) -> None:
    store = Store("a", tmp_path)
    with store.locked(), pytest.raises(UsageError, match="another command works on the lab a"), store.locked():
        pass
    with held(tmp_path / "_a.lock", wait=False) as is_ours:
        assert is_ours

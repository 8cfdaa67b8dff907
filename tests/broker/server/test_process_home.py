"""The log directories of a host's processes: whose they are, another number, what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from highwater.broker.cluster.znodes import reassignment_value
from highwater.broker.cluster.zookeeper import Create
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import write_file
from highwater.broker.server.process_home import ProcessHome
from highwater.broker.server.process_marker import refuse_directories_of_processes
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.store import MetadataError
from highwater.broker.tree.changes import Change, encode_change
from highwater.kafka.login.scram import Credentials, ScramMechanism, credential_of_salted_password
from tests.broker.log.simulated_files import SimulatedFiles

HOME = Path("/d")
MARKER = HOME / "processes.json"
_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def lived(files: SimulatedFiles, count: int, *, paths: Sequence[Path] = (HOME,), base_id: int = 0) -> None:
    home = ProcessHome(files, paths, base_id)
    try:
        home.open_journal(count).close()
    finally:
        home.close()


def with_topics(files: SimulatedFiles, **topics: dict[str, list[int]]) -> None:
    """Topics with the replicas of each partition."""
    values = {
        f"/brokers/topics/{name}": {"version": 3, "topic_id": _TOPIC_ID, "partitions": partitions}
        for name, partitions in topics.items()
    }
    with_nodes(files, values)


def with_nodes(files: SimulatedFiles, values: Mapping[str, object]) -> None:
    """Nodes with these values, and their parents."""
    home = ProcessHome(files, [HOME], 0)
    journal = home.open_journal(3)
    changes: list[Change] = []
    journal.tree.recorded = changes.append
    for path, value in values.items():
        for parent in reversed(Path(path).parents):
            journal.tree.execute(0, Create(str(parent)), 1)
        journal.tree.execute(0, Create(path, json.dumps(value).encode()), 1)
    journal.append(b"".join(map(encode_change, changes)))
    journal.close()
    home.close()


def salted_credential(mechanism: ScramMechanism) -> Credentials:
    return {mechanism: credential_of_salted_password(mechanism, b"salt", bytes(32), 4096)}


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


def refusal(files: SimulatedFiles, count: int, **options: int) -> str:
    """What a start says, which leaves nothing open and the marker as it was."""
    before = files.read(MARKER) if files.exists(MARKER) else b""
    with pytest.raises((LogDirectoryError, MetadataError)) as error:
        lived(files, count, **options)  # type: ignore[arg-type]
    assert (files.read(MARKER) if files.exists(MARKER) else b"") == before
    assert "\n" not in str(error.value)
    return str(error.value)


def test_it_is_made_and_found_again(files: SimulatedFiles) -> None:
    other = Path("/e")
    lived(files, 3, paths=[HOME, other])
    assert json.loads(files.read(other / "processes.json")) == {"version": 1, "processes": 3, "broker_id": 0}
    home = ProcessHome(files, [other, HOME], 0)
    assert home.count_before == 3
    home.open_journal(4)
    assert not files.exists(other / "metadata")
    home.journal.close()
    home.close()
    assert files.open_descriptors == 0


def test_it_is_one_parents(files: SimulatedFiles) -> None:
    home = ProcessHome(files, [HOME], 0)
    with pytest.raises(LogDirectoryError, match=r"^log directory /d is in use by another broker; "):
        ProcessHome(files, [HOME], 0)
    home.close()
    assert files.open_descriptors == 0


def test_a_broker_of_one_process_and_one_of_several_refuse_each_others_directories(files: SimulatedFiles) -> None:
    lived(files, 3)
    with pytest.raises(LogDirectoryError) as error:
        refuse_directories_of_processes(files, [HOME])
    assert str(error.value) == (
        "/d belongs to a broker of 3 processes (processes.json): start it with --processes 3, or choose another "
        "directory"
    )
    files = SimulatedFiles()
    files.make_directory(HOME)
    write_file(files, HOME / "meta.properties", b"version=0\n")
    refuse_directories_of_processes(files, [HOME, Path("/new")])
    assert refusal(files, 3) == (
        "/d was used by a broker that is one process (meta.properties), and cannot be divided: choose an empty "
        "directory, and copy the topics with `highwater broker mirror`"
    )
    assert files.open_descriptors == 0


def test_fewer_processes_are_refused_while_replicas_would_be_left_behind(files: SimulatedFiles) -> None:
    with_topics(files, a={"0": [0], "1": [1]}, b={"0": [2], "1": [0, 2], "2": [2], "3": [1, 2]})
    assert refusal(files, 2) == (
        "2 processes are too few: those that would go have, or are to get, replicas of b-0, b-1, b-2, … (4 in all); "
        "start 3 again and move them with `highwater broker reassign --balance --without-broker 2`"
    )
    assert refusal(files, 1).endswith("--without-broker 1 --without-broker 2`")
    lived(files, 4)
    assert files.open_descriptors == 0


def test_fewer_processes_are_refused_while_tools_of_old_move_replicas_to_those_that_would_go(
    files: SimulatedFiles,
) -> None:
    with_topics(files, a={"0": [0], "1": [1]})
    with_nodes(files, {"/admin/reassign_partitions": reassignment_value({("a", 1): [2]})})
    assert refusal(files, 2) == (
        "2 processes are too few: those that would go have, or are to get, replicas of a-1; start 3 again and move "
        "them with `highwater broker reassign --balance --without-broker 2`"
    )
    lived(files, 3)
    files = SimulatedFiles()
    with_topics(files, a={"0": [0], "1": [1]})
    with_nodes(files, {"/admin/reassign_partitions": "nonsense"})
    lived(files, 2)


def test_fewer_processes_start_when_nothing_is_left_behind(files: SimulatedFiles) -> None:
    with_topics(files, a={"0": [0], "1": [1]})
    lived(files, 2)
    assert json.loads(files.read(MARKER))["processes"] == 2


def test_processes_that_cannot_log_in_to_each_other_are_refused(files: SimulatedFiles) -> None:
    login = ScramMechanism.SCRAM_SHA_512, "node"

    def refused(expected: str) -> None:
        home = ProcessHome(files, [HOME], 0)
        with pytest.raises(MetadataError, match=expected):
            home.open_journal(2, login)
        home.close()
        assert files.open_descriptors == 0

    refused("log in to each other as User:node with SCRAM-SHA-512, and there is no such user yet")
    assert not files.exists(HOME / "metadata")
    credential = salted_credential(ScramMechanism.SCRAM_SHA_256)
    with_nodes(files, {"/config/users/node": metadata_tree.config_value(metadata_tree.scram_config(credential))})
    refused("with SCRAM-SHA-512, and there is no such user yet")
    login = ScramMechanism.SCRAM_SHA_256, "node"
    home = ProcessHome(files, [HOME], 0)
    home.open_journal(2, login).close()
    home.close()


def test_other_broker_ids_are_refused(files: SimulatedFiles) -> None:
    lived(files, 3)
    assert refusal(files, 3, base_id=5) == (
        "/d belongs to processes whose first broker.id is 0, not 5: set broker.id=0, or choose another directory"
    )


def test_metadata_that_is_gone_is_told(files: SimulatedFiles) -> None:
    lived(files, 3)
    for entry in files.list(HOME / "metadata"):
        files.remove(HOME / "metadata" / entry.name)
    files.remove_directory(HOME / "metadata")
    assert refusal(files, 3) == (
        "none of the log directories has metadata/, the metadata of the 3 processes: name all of them in log.dirs, or "
        "restore it from a copy"
    )


def test_a_marker_that_cannot_be_understood_is_told(files: SimulatedFiles) -> None:
    lived(files, 3)
    for content in (b"", b"{}", b'{"version": 2}', b"[]"):
        files.overwrite(MARKER, content)
        assert refusal(files, 3).startswith("/d/processes.json cannot be understood: ")

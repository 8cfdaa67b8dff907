"""A log directory: whose it is, what is in it, what is written at its end; on the real file system."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path
from unittest.mock import patch

import pytest

from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import RealFiles
from highwater.broker.log.flush import FlushTicket
from highwater.broker.log.log_directory import LogDirectory
from tests.broker.log.building import NOW_MS, SMALL, TOPIC_ID, append, batch, open_directory, read_all
from tests.broker.manual_clock import ManualClock


def opened(path: Path, broker_id: int = 1, cluster_id: str | None = None) -> LogDirectory:
    return LogDirectory(RealFiles(), path, SMALL, broker_id=broker_id, cluster_id=cluster_id, clock=ManualClock(NOW_MS))


def refusal(path: Path, **identity: int | str) -> str:
    with pytest.raises(LogDirectoryError) as caught:
        opened(path, **identity).load()  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_many_logs_are_closed_together(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    for partition in range(300):
        append(directory.create_partition("many", partition, TOPIC_ID), batch(b"%d" % partition))
    directory.close()
    directory = opened(tmp_path)
    directory.load()
    assert {log.recovery_point for log in directory.logs.values()} == {1}
    assert all(read_all(log) == [(0, b"%d" % partition)] for (_, partition), log in directory.logs.items())
    directory.close()


def test_of_many_logs_one_that_cannot_be_closed_keeps_the_mark_of_a_clean_stop_away(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    for partition in range(100):
        append(directory.create_partition("many", partition, TOPIC_ID), batch(b"%d" % partition))
    sync = FlushTicket.sync

    def fail(ticket: FlushTicket) -> None:
        if ticket.directory.name == "many-77":
            raise OSError(errno.EIO, "Input/output error")
        sync(ticket)

    with patch.object(FlushTicket, "sync", fail), pytest.raises(OSError, match="Input/output error"):
        directory.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_everything_is_there_after_a_clean_stop(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    for partition in range(3):
        log = directory.create_partition("a.topic-1", partition, TOPIC_ID)
        for i in range(20):
            append(log, batch(b"%d of %d" % (i, partition)))
    directory.logs["a.topic-1", 1].advance_log_start_offset(7)
    directory.close(high_watermarks={("a.topic-1", 2): 19})
    assert (tmp_path / ".kafka_cleanshutdown").read_text().startswith('{"version":0,"brokerEpoch":-1,')
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == (
        "0\n3\na.topic-1 0 20\na.topic-1 1 20\na.topic-1 2 20\n"
    )
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na.topic-1 1 7\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\na.topic-1 2 19\n"
    assert (
        tmp_path / "a.topic-1-0" / "partition.metadata"
    ).read_text() == "version: 0\ntopic_id: f5575UMwREG5L7-pXl1tBA"

    seen: list[tuple[int, int]] = []
    directory = opened(tmp_path)
    directory.load(progress=lambda done, total: seen.append((done, total)))
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert directory.high_watermarks == {("a.topic-1", 2): 19}
    for (_, partition), log in directory.logs.items():
        first = 7 if partition == 1 else 0
        assert read_all(log) == [(i, b"%d of %d" % (i, partition)) for i in range(first, 20)]
        assert log.topic_id == TOPIC_ID
    directory.close()


def test_a_running_brokers_index_files_catch_up_at_a_checkpoint(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    log = directory.create_partition("t", 0, TOPIC_ID)
    for i in range(5):
        append(log, batch(bytes(60), timestamp_ms=NOW_MS + i))
    directory.checkpoint()
    index = tmp_path / "t-0" / "00000000000000000000.index"
    size = index.stat().st_size
    assert size > 0
    for i in range(5, 7):
        append(log, batch(bytes(60), timestamp_ms=NOW_MS + i))
    directory.checkpoint()
    assert index.stat().st_size > size
    directory.close()


def test_topics_have_their_own_configuration(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    directory.create_partition("t", 0, TOPIC_ID)
    directory.create_partition("u", 0, TOPIC_ID, LogConfig(segment_bytes=5))
    assert directory.logs["u", 0].config.segment_bytes == 5
    directory.close()
    directory = opened(tmp_path)
    directory.load(config_of={"t": SMALL, "u": LogConfig(segment_bytes=6)}.__getitem__)
    assert directory.logs["u", 0].config.segment_bytes == 6
    directory.close()


def test_a_new_directory_gets_an_identity_and_keeps_it(tmp_path: Path) -> None:
    directory = opened(tmp_path / "new")
    cluster_id = directory.cluster_id
    directory.close()
    assert f"broker.id=1\ncluster.id={cluster_id}\nversion=0\n" in (tmp_path / "new" / "meta.properties").read_text()
    again = opened(tmp_path / "new")
    assert again.cluster_id == cluster_id
    again.close()


def test_another_brokers_directory_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, cluster_id="home").close()
    meta = tmp_path / "meta.properties"
    assert refusal(tmp_path, broker_id=2).startswith(f"{meta}: broker.id is 1, but this broker's is 2; choose")
    assert refusal(tmp_path, cluster_id="away").startswith(f"{meta}: cluster.id is home, but this broker's is away")
    meta.write_text("version=1\nnode.id=1\ncluster.id=home\n")
    assert "version is 1, but this broker's is 0" in refusal(tmp_path)
    meta.write_text("version=0\nbroker.id=1\n")
    assert "lacks cluster.id" in refusal(tmp_path)
    meta.write_bytes(b"\x00\x01")
    assert str(meta) in refusal(tmp_path)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = opened(tmp_path)
    assert "in use by another broker" in refusal(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_directories_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert refusal(file) == f"log directory {file} cannot be used: Not a directory"
    missing = tmp_path / "no" / "where"
    assert refusal(missing) == f"log directory {missing} cannot be used: No such file or directory"


def test_an_unwritable_directory_is_refused(tmp_path: Path) -> None:
    # Root may write everywhere, so what the system would say is put in its mouth.
    with patch("os.open", side_effect=PermissionError(errno.EACCES, "Permission denied")):
        assert refusal(tmp_path) == f"log directory {tmp_path} cannot be used: Permission denied"


def test_a_partition_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    directory.create_partition("t", 0, TOPIC_ID)
    directory.close()
    path = tmp_path / "t-0" / "partition.metadata"
    path.unlink()
    path.mkdir()
    assert refusal(tmp_path) == f"{path} cannot be used: Is a directory; mend that and start again"


def test_somebodys_other_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "Documents").mkdir()
    before = sorted(tmp_path.iterdir())
    assert "'Documents'" in refusal(tmp_path)
    assert sorted(path for path in tmp_path.iterdir() if path.name != ".lock") == before


def test_what_is_no_partition_is_named(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "lost+found").mkdir()
    aside = tmp_path / f"t-0.{uuid.uuid4().hex}-stray"
    aside.mkdir()
    opened(tmp_path).close()
    for name in ("holiday photos", "t-07"):
        (tmp_path / name).mkdir()
        assert f"{name} is not a partition's folder" in refusal(tmp_path)
        (tmp_path / name).rmdir()
    assert aside.exists()


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
def test_checkpoints(tmp_path: Path, name: str) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    append(directory.create_partition("t", 0, TOPIC_ID), batch(b"x"))
    directory.close(clean=False)
    checkpoint = tmp_path / f"{name}-offset-checkpoint"
    checkpoint.write_text("0\n5\nnonsense\n")
    again = opened(tmp_path)
    again.load()
    assert read_all(again.logs["t", 0]) == [(0, b"x")]
    again.close()
    checkpoint.write_text("1\n0\n")
    assert f"{checkpoint}: its version is 1, and this broker knows 0; start the newer broker" in refusal(tmp_path)


def test_newer_or_malformed_files_of_a_partition_are_refused(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    append(directory.create_partition("t", 0, TOPIC_ID), batch(b"x"))
    directory.close()
    for name, text in [("partition.metadata", "version: 1\n"), ("leader-epoch-checkpoint", "1\n0\n")]:
        path = tmp_path / "t-0" / name
        before = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        path.write_text(text)
        assert str(path) in refusal(tmp_path)
        path.write_bytes(before)


def test_torn_metadata_of_a_log_in_which_nothing_was_flushed_is_written_anew(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    directory.create_partition("t", 0, TOPIC_ID)
    directory.close()
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntop")
    again = open_directory(RealFiles(), tmp_path)
    assert again.logs["t", 0].topic_id is None
    again.close()
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 1\ntopic_id: 1")
    assert "partition.metadata: its version is 1" in refusal(tmp_path)


def test_a_folder_without_metadata_has_no_topic_id(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    directory.create_partition("t", 0, TOPIC_ID)
    directory.close()
    (tmp_path / "t-0" / "partition.metadata").unlink()
    again = open_directory(RealFiles(), tmp_path)
    log = again.logs["t", 0]
    assert log.topic_id is None
    log.topic_id = TOPIC_ID
    log.write_metadata()
    again.close()
    assert (tmp_path / "t-0" / "partition.metadata").exists()


class CountingFiles(RealFiles):
    """Counts how often it was asked whether something is there."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = 0

    def exists(self, path: Path) -> bool:
        self.asked += 1
        return super().exists(path)


def test_the_end_of_a_deletion_does_not_look_at_each_folder_again(tmp_path: Path) -> None:
    files = CountingFiles()
    directory = LogDirectory(files, tmp_path, SMALL, broker_id=1, cluster_id="c", clock=ManualClock(NOW_MS))
    for partition in range(3):
        directory.create_partition("t", partition, TOPIC_ID)
    for partition in range(3):
        directory.begin_to_delete("t", partition)
    files.asked = 0
    directory.set_aside_unfinished("t")
    assert files.asked == 0
    assert directory.logs == {}
    directory.close()


def test_deletion_renames_first_and_is_finished_at_the_next_start(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path)
    topic = "long." * 49 + "name"
    log = directory.create_partition(topic, 0, TOPIC_ID)
    append(log, batch(b"x"))
    directory.delete_partition(topic, 0)
    (renamed,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert renamed.name.endswith("-delete")
    assert len(renamed.name) <= 255
    recreated = directory.create_partition(topic, 0, uuid.uuid4())
    assert recreated.log_end_offset == 0
    with pytest.raises(ValueError, match="is there already"):
        directory.create_partition(topic, 0, TOPIC_ID)
    directory.close()
    directory = open_directory(RealFiles(), tmp_path)
    assert not renamed.exists()
    assert list(directory.logs) == [(topic, 0)]
    directory.delete_partition(topic, 0)
    directory.purge_deleted()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    directory.close()


def test_producers_that_were_idle_too_long_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    directory = LogDirectory(RealFiles(), tmp_path, SMALL, broker_id=1, clock=clock, producer_expiration_ms=1000)
    directory.load()
    log = directory.create_partition("t", 0, TOPIC_ID)
    append(log, batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0))
    clock.advance_ms(999)
    directory.expire_producers()
    assert len(log.producer_states) == 1
    directory.close()
    clock.advance_ms(1)
    directory = LogDirectory(RealFiles(), tmp_path, SMALL, broker_id=1, clock=clock, producer_expiration_ms=1000)
    directory.load()
    assert len(directory.logs["t", 0].producer_states) == 1, "its time begins anew"
    clock.advance_ms(1000)
    directory.expire_producers()
    assert len(directory.logs["t", 0].producer_states) == 0
    directory.close()


def test_preallocation_reserves_blocks_and_gives_them_back(tmp_path: Path) -> None:
    directory = open_directory(RealFiles(), tmp_path, LogConfig(segment_bytes=1 << 20, preallocate=True))
    log = directory.create_partition("t", 0, TOPIC_ID)
    records = batch(b"x")
    append(log, records)
    file = tmp_path / "t-0" / "00000000000000000000.log"
    assert file.stat().st_size == len(records)
    reserved = file.stat().st_blocks
    directory.close()
    assert file.stat().st_size == len(records)
    assert file.stat().st_blocks <= reserved

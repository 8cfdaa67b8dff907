"""Files and answers in this product's own formats as decoders: what comes back may have been damaged meanwhile."""

from __future__ import annotations

import functools
import json
import struct
import uuid
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from crc32c import crc32c

from highwater.broker.log import checkpoint, clean_stop
from highwater.broker.log.errors import CorruptSnapshot
from highwater.broker.log.producer_state import ProducerStates
from highwater.common.ceilings import DISK_WRITE, PRODUCE, Ceiling, Ceilings, HostClass
from highwater.common.host_answer import BrokerProcess, Cpu, Disk, HostAnswer, LogDirectory, Memory, Network
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder as AnswerDecoder
from highwater.kafka.records.batch import BatchHeader, CorruptBatch
from highwater.kafka.records.record import uncompressed_records
from highwater.kafka.records.record_times import first_record_from, largest_timestamp_ms
from highwater.kafka.requests.metadata import decode_metadata
from highwater.tuning.boot_files import fstab
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.journal import APPLIED, ApplyRun, Journal, JournaledChange, Owner
from highwater.tuning.steps import FileStep, RemountStep, SettingStep

# -- The broker's files ---------------------------------------------------------------------------------------------

CHECKPOINTS: Final = (
    checkpoint.encode_offsets({("orders", 0): 5, ("orders", 12): 1 << 40}),
    checkpoint.encode_epochs([(0, 0), (3, 700)]),
    checkpoint.encode_partition_metadata(uuid.UUID(int=7)),
    checkpoint.encode_properties({"broker.id": "1", "cluster.id": "a\\b", "version": "0"}),
    clean_stop.encode_mark({"t-0": clean_stop.WholeLog([0, 9, 70, 8], "id", [(0, 70)], 1, [(0, 0)], True)}),
)
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")


def read_checkpoint(data: bytes) -> None:
    for decode in (
        checkpoint.decode_offsets,
        checkpoint.decode_epochs,
        checkpoint.decode_partition_metadata,
        checkpoint.decode_properties,
        clean_stop.decode_mark,
    ):
        try:
            decode(data)
        except checkpoint.MalformedFile:
            continue


def snapshots() -> tuple[bytes, ...]:
    entries = [(7, 0, 41, 900, 4, 1_795_000_000_000, -1, -1), (8, 3, 0, 905, 0, 1_795_000_000_001, 2, 905)]
    return tuple(_snapshot(entries[:count]) for count in range(3))


def _snapshot(entries: Sequence[tuple[int, ...]]) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(_SNAPSHOT_ENTRY.pack(*each) for each in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def read_snapshot(data: bytes) -> None:
    """As found, and with a right CRC."""
    for each in (data, data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]):
        try:
            states = ProducerStates.decode(each)
        except CorruptSnapshot:
            continue
        assert ProducerStates.decode(states.encode()).encode() == states.encode()


def read_times(header: BatchHeader, batch: bytes, limit_bytes: int) -> None:
    """The searches by time in a batch that the broker took."""
    try:
        body = uncompressed_records(batch, header, limit_bytes=limit_bytes)
        largest_timestamp_ms(body, header)
        for timestamp_ms in (0, 1_795_000_000_005, (1 << 63) - 1):
            first_record_from(body, header, timestamp_ms, header.base_offset)
    except CorruptBatch:
        return


# -- Answers --------------------------------------------------------------------------------------------------------

_METADATA_VERSIONS: Final = range(9, 13)


def metadata_answers() -> tuple[bytes, ...]:
    partition = {"partition_index": 1, "leader_id": 2, "leader_epoch": 5, "replica_nodes": (2, 3), "isr_nodes": (2,)}
    fields = {
        "brokers": [{"node_id": 2, "host": "h", "port": 9092, "rack": "r"}],
        "cluster_id": "c",
        "controller_id": 2,
        "topics": [{"name": "t", "is_internal": False, "partitions": [partition] * 3}],
    }
    return tuple(bytes([each]) + cold.encode_response("metadata", each, fields) for each in _METADATA_VERSIONS)


def read_metadata_answer(data: bytes) -> None:
    """The first byte chooses the version."""
    version = _METADATA_VERSIONS[(data or b"\0")[0] % len(_METADATA_VERSIONS)]
    decode_metadata(AnswerDecoder(memoryview(data)[1:], flexible=True), version)


HOST_ANSWERS: Final = (
    HostAnswer(
        host="h3",
        boot_id="b",
        at_ms=1_000,
        monotonic_ms=5,
        kernel="6.1.0",
        version="0.2.0",
        cpu=Cpu(2, 1.5, 0.0, 10.0),
        memory=Memory(100, 50, 40, 1, 2, 0, None, 20),
        network=Network(1, 2, 3),
        pressure_s={"io_some": 0.5},
        disks=(Disk("sda", "hdd", 1, 2, 3, 4, 5),),
        directories=(LogDirectory("/var/lib/a", 1, "c", ("sda",), "xfs", 10, 5, 3, 2, 1),),
        brokers=(BrokerProcess(1, "c", 7, 1, 2.0, 3, 4, 5, {"x_total": 1.0}),),
        tuning=None,
    )
    .as_json()
    .encode(),
)
CEILINGS: Final = (
    Ceilings(
        HostClass("A processor", 2, 1 << 34, "6.1", "f" * 64, "KVM"),
        (
            Ceiling(PRODUCE, 1e8, True, 1.1e8, "p99", 65_536, "lz4", "all", "ssd", "ext4", "highwater 0.2.0", "run"),
            Ceiling(DISK_WRITE, 2e8, False),
        ),
        "2026-11-26T00:00:00Z",
    )
    .as_json()
    .encode(),
)

# -- The tuner's files ----------------------------------------------------------------------------------------------

FSTABS: Final = (
    b"# caf\xe9\nUUID=a /data ext4 defaults,noatime 0 2\n/dev/vdb\t/a\\040b xfs\nx /data/ none bind,x-y 0 0 # z\n",
)
SYSCTLS: Final = (b"# a\nvm.swappiness = 1\n-net/ipv4/ip_forward=0\n-kernel.*\n; b\nvm.dirty_ratio=\t 5  6\r\n",)
_CHANGES: Final = (
    SettingStep("vm.swappiness", "", "/proc/sys/vm/swappiness", "60", "1"),
    FileStep("/etc/sysctl.d/90-highwater.conf", None, "vm.swappiness = 1\n"),
    RemountStep("/data", ("rw", "relatime"), ("rw", "noatime"), "mount"),
)


def read_fstab(data: bytes) -> None:
    """With bytes that are no UTF-8 kept, as the tuner reads it."""
    text = data.decode("utf-8", "surrogateescape")
    lines = text.splitlines(keepends=True)
    for each in fstab.parse(text):
        assert 0 <= each.line <= len(lines)


@functools.cache
def _journal(folder: Path) -> tuple[Journal, Path]:
    path = folder / APPLIED[1:]
    path.parent.mkdir(parents=True)
    return Journal(HostFiles(folder), APPLIED), path


def journal_lines(folder: Path) -> bytes:
    """A whole run, one that was cut short, and a rollback that has begun."""
    journal, path = _journal(folder)
    changes = tuple(JournaledChange(each, each.states[0], each.states[1]) for each in _CHANGES)
    run = ApplyRun(Owner("highwater tune apply", 999_999, "12345"), "b", "2026-11-26T00:00:00Z", "6.1", changes)
    for is_whole in (True, False):
        journal.begin(run)
        journal.done(0)
        journal.done(1, {"text": "x", "mode": "644", "owner": "0:0"})
        if is_whole:
            journal.end()
    journal.returning({"value": "60"})
    journal.restored(_CHANGES[0].resource)
    return path.read_bytes()


def reads_journal(folder: Path) -> Callable[[bytes], object]:
    """As found, and with right checksums."""

    def read(data: bytes) -> None:
        journal, path = _journal(folder)
        path.write_bytes(data)
        journal.read()

    return read


def with_checksums(data: bytes) -> bytes:
    """The lines of a journal that have an entry, each with the checksum of its entry."""
    found = []
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)["entry"]
        except (ValueError, KeyError, TypeError, RecursionError):
            found.append(line)
            continue
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        found.append(f'{{"crc32":"{zlib.crc32(text.encode()):08x}","entry":{text}}}'.encode())
    return b"\n".join(found)

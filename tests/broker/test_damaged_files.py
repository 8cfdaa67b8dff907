"""Any file of a log directory damaged in any way: the broker starts, or says in one line what cannot be understood."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.partition_log import Appended
from highwater.broker.settings.store import MetadataError
from tests.broker.log.building import batch
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.manual_clock import ManualClock
from tests.broker.one_life import ROOT, Broker, Life

METADATA = ROOT / "embedded-metadata.json"
# What JSON may hold instead of what is expected.
OTHER_VALUES: tuple[Any, ...] = (None, True, -1, 2**70, 1.5, "", "x", "\ud800", [], [[]], {}, {"": {}}, {"version": 99})


def lived(at: int | None) -> SimulatedFiles:
    """The disk after a life: whole, or up to a kill."""
    files = SimulatedFiles()
    files.kill_at = at
    with suppress(Killed):
        Life(files).live()
    return files.restarted()


def files_below(files: SimulatedFiles, path: Path = ROOT) -> list[Path]:
    found = []
    for entry in sorted(files.list(path)):
        place = path / entry.name
        found += files_below(files, place) if entry.is_directory else [place]
    return found


def started(files: SimulatedFiles) -> tuple[Broker | None, str]:
    try:
        return Broker(files, ManualClock()), ""
    except (LogDirectoryError, MetadataError) as refusal:
        return None, str(refusal)


def start_and_use(files: SimulatedFiles, what: str) -> bool:
    """Whether the broker starts; what it says if not is one line, and what it serves if so are answers."""
    broker, refusal = started(files)
    if broker is None:
        assert "\n" not in refusal, what
        assert str(ROOT) in refusal or "the metadata of topic" in refusal, what
        assert files.open_descriptors == 0, what
        return False
    for partition in list(broker.node.partitions.live()):
        log = partition.log
        offset = log.log_start_offset
        assert offset <= log.log_end_offset, what
        for at in {offset, (offset + log.log_end_offset) // 2, log.log_end_offset}:
            assert isinstance(log.read(at, 1000, end_offset=log.log_end_offset), bytes | ErrorCode), what
        if not log.config.compacts:
            assert isinstance(partition.append(memoryview(batch(b"more")), 1, 0), Appended), what
    broker.directory.close()
    return True


def damages(content: bytes, rng: random.Random) -> dict[str, bytes]:
    at = rng.randrange(len(content) + 1)
    flipped = bytearray(content or b"\0")
    flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return {
        "empty": b"",
        "cut off": content[:at],
        "followed by garbage": content + rng.randbytes(60),
        "followed by zeros": content + bytes(60),
        "zeros": bytes(len(content)),
        "garbage": rng.randbytes(len(content) + 1),
        "bytes lacking": content[:at] + content[at + rng.randrange(1, 20) :],
        "one bit": bytes(flipped),
    }


@pytest.mark.parametrize("at", [150, 330, 430, None], ids=lambda at: f"killed at {at}" if at else "stopped")
def test_a_damaged_file(at: int | None) -> None:
    disk = lived(at)
    rng = random.Random(at or 0)
    outlived = 0
    paths = files_below(disk)
    for path in paths:
        for what, content in damages(disk.read(path), rng).items():
            files = deepcopy(disk)
            files.overwrite(path, content)
            outlived += start_and_use(files, f"{path}: {what}")
    assert outlived > len(paths), "most damage is outlived"


def test_a_log_of_another_format_is_refused_and_let_go() -> None:
    """Byte 16 of a batch tells its format: of the active segment it is looked at before anything else is done."""
    disk = lived(None)
    path = max(path for path in files_below(disk) if path.suffix == ".log" and path.parent.name == "t-0")
    content = bytearray(disk.read(path))
    content[16] = 3
    disk.overwrite(path, bytes(content))
    assert not start_and_use(disk, str(path))


def test_a_missing_file() -> None:
    disk = lived(430)
    for path in files_below(disk):
        files = deepcopy(disk)
        files.remove(path)
        start_and_use(files, f"{path} is missing")


def remove_folder(files: SimulatedFiles, path: Path) -> None:
    for entry in files.list(path):
        files.remove(path / entry.name)
    files.remove_directory(path)


@pytest.mark.parametrize("leaves_others", [False, True], ids=["folder", "segments"])
def test_a_partition_whose_segments_are_gone(leaves_others: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The broker does not start: an empty log would take the place of the records, and their offsets."""
    disk = lived(None)
    before, _ = started(deepcopy(disk))
    assert before is not None
    for (topic, index), log in before.directory.logs.items():
        files = deepcopy(disk)
        folder = ROOT / f"{topic}-{index}"
        for entry in files.list(folder):
            if not leaves_others or entry.name.endswith(".log"):
                files.remove(folder / entry.name)
        if not leaves_others:
            files.remove_directory(folder)
        broker, refusal = started(files)
        if log.log_end_offset == 0:
            assert broker is not None
            continue
        assert broker is None
        assert refusal == (
            f"the segments of {folder} are gone, and with them the records up to offset {log.log_end_offset - 1}: put "
            f"them back. To go on without these records, leave the folder there, empty (mkdir {folder})"
        )
        assert files.open_descriptors == 0
        if leaves_others:
            remove_folder(files, folder)
        files.make_directory(folder)
        caplog.clear()
        broker, refusal = started(files)
        assert broker is not None, refusal
        found = broker.directory.logs[topic, index]
        assert (found.log_start_offset, found.log_end_offset) == (log.log_end_offset, log.log_end_offset)
        lost = f"{folder}: the records of offsets {log.log_start_offset} to {log.log_end_offset - 1} were on the disk"
        assert any(message.startswith(lost) for message in caplog.messages) or log.log_start_offset > 0
        broker.directory.close()
        assert start_and_use(files, "the next start knows nothing of what was lost")


def test_a_segment_that_is_gone_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    disk = lived(None)
    before, _ = started(disk)
    assert before is not None
    before.directory.close()
    checked = 0
    for (topic, index), log in before.directory.logs.items():
        bases = log.segment_base_offsets
        ends = (*bases[1:], log.log_end_offset)
        for base, end in zip(bases, ends, strict=True):
            if len(bases) == 1 or base == end:
                continue
            files = deepcopy(disk)
            files.remove(ROOT / f"{topic}-{index}" / f"{base:020d}.log")
            caplog.clear()
            assert start_and_use(files, f"{topic}-{index} without {base}")
            lost = f"{ROOT}/{topic}-{index}: the records of offsets {base} to {end - 1} were on the disk and are gone"
            assert lost in caplog.messages
            checked += 1
    assert checked > 2


def test_metadata_that_says_something_else() -> None:
    disk = lived(None)
    tree = json.loads(disk.read(METADATA))
    for path in tree:
        for other in OTHER_VALUES:
            check_metadata(disk, tree | {path: other}, f"{path}: {other!r}")
        if isinstance(tree[path], dict):
            for key in tree[path]:
                for other in OTHER_VALUES:
                    check_metadata(disk, tree | {path: tree[path] | {key: other}}, f"{path} {key}: {other!r}")
                lacking = {name: value for name, value in tree[path].items() if name != key}
                check_metadata(disk, tree | {path: lacking}, f"{path} without {key}")
        check_metadata(disk, {name: value for name, value in tree.items() if name != path}, f"without {path}")
    config = "/config/topics/t"
    for overrides in ({"segment.bytes": "many"}, {"segment.bytes": "1"}, {"segment.byte": "1000"}, {"": ""}):
        check_metadata(disk, tree | {config: {"version": 1, "config": overrides}}, f"{overrides}")


def test_metadata_of_a_newer_broker_is_left_alone() -> None:
    disk = lived(None)
    tree = json.loads(disk.read(METADATA))
    for newer, place in (
        ({"/something/newer": 1}, "/something/newer"),
        ({"/brokers/topics/t": tree["/brokers/topics/t"] | {"version": 4}}, "/brokers/topics/t"),
    ):
        content = json.dumps(tree | newer).encode()
        files = deepcopy(disk)
        files.overwrite(METADATA, content)
        _, refusal = started(files)
        assert refusal.startswith(f"{METADATA}: {place}: ")
        assert refusal.endswith("; start the newer broker that wrote it")
        assert files.read(METADATA) == content


def check_metadata(disk: SimulatedFiles, tree: Any, what: str) -> None:
    files = deepcopy(disk)
    files.overwrite(METADATA, json.dumps(tree).encode())
    start_and_use(files, what)

"""A small matrix over a fake host and trials that are none: for tests of its runs, its command and its page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from highwater.bench.matrix.disks import Places
from highwater.bench.matrix.running import Here, begun_matrix
from highwater.bench.matrix.stored import Matrix
from highwater.bench.matrix.study import Study
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts
from tests.bench.prove.test_proving import Runner
from tests.tuning.host_tree import Disk, make_host

STUDY = Study.model_validate(
    {
        "schema": "bench.matrix/1",
        "settings": [
            "vm.dirty_expire_centisecs=3000:500",
            "vm.swappiness=60:1",
            "mount.commit=commit=5:commit=30",
            "filesystem.type=ext4:xfs",
            "cpu.governor=powersave:performance",
        ],
        "loads": {"prove-cpu": ["produce.p99"], "prove-writes": ["produce.p99"]},
        "disks": {"host": None, "hdd": {"bandwidth": "120MiB/s", "iops": 120}},
        "confirming_pairs": 8,
    }
)


@dataclass
class FakeDisks:
    """Remembers which disks were made and taken away."""

    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, name: str) -> Iterator[Places]:
        self.opened.append(name)
        try:
            ours = name != "host"
            yield Places(Path("/data"), f"ext4 on {name}", ours, Path("/data/other") if ours else None)
        finally:
            self.closed.append(name)


def fake_facts(root: Path) -> Facts:
    return collect(make_host(root, disks=[Disk("sda", "/data")]) if not root.exists() else root)


def here(root: Path, runner: Runner, disks: FakeDisks | None = None) -> Here:
    return Here(runner, (disks or FakeDisks()).open, lambda: fake_facts(root))


def begun(out: Path, root: Path, *, quick: bool = False, study: Study = STUDY) -> Matrix:
    return begun_matrix(out, study, Path("/data"), fake_facts(root), quick=quick, seed=1)

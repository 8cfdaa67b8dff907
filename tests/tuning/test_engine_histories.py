"""Whatever happens to a host in whatever order, a rollback leaves it as if we had never come.

Beside the host goes its shadow: the same host, to which only others do what they do.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.tuning import engine
from highwater.tuning.journal import FOLDER, Owner
from highwater.tuning.steps import FileStep, SettingStep, Step, TuningPlan
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, KilledError, reboot, whole_tree
from tests.tuning.host_tree import make_host, sysctl_path, write

SINGLE = tuple(sysctl_path(key) for key in ("vm.swappiness", "vm.max_map_count", "net.core.somaxconn"))
PAIR = (sysctl_path("vm.dirty_bytes"), sysctl_path("vm.dirty_ratio"))
FSTAB = "/etc/fstab"
FSTAB_TEXT = "# the root\nUUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 defaults 0 2\n# the end\n"
OURS = "/etc/sysctl.d/90-highwater.conf"
OWNER = Owner("highwater tune apply", 999999, "12345")

actions = st.one_of(
    st.tuples(st.just("apply"), st.sets(st.sampled_from(range(5)), min_size=1), st.none() | st.integers(1, 25)),
    st.tuples(st.just("set"), st.sampled_from((*SINGLE, *PAIR))),
    st.tuples(st.just("edit"), st.sampled_from((FSTAB, OURS)), st.sampled_from(("first", "last"))),
    st.tuples(st.just("boot")),
    st.tuples(st.just("rollback killed"), st.integers(1, 25)),
)


class World:
    """The host, its shadow, and values of which no two are the same."""

    def __init__(self, folder: Path) -> None:
        self.host, self.shadow = FakeKernel(_host(folder / "host")), FakeKernel(_host(folder / "shadow"))
        self.boot = whole_tree(self.host.root)
        self.numbers = itertools.count(10_000_001, 2)
        self.edited_in_place: set[str] = set()

    def step(self, which: int) -> Step | None:
        number = str(next(self.numbers) + 1)
        if which < len(SINGLE):
            path = SINGLE[which]
            return SettingStep("", "", path, self.host.read(path).text or "", number)
        if which == len(SINGLE):
            before, twin = (self.host.read(path).text or "" for path in PAIR)
            return SettingStep("", "", PAIR[0], before, number, PAIR[1], twin)
        path = OURS if int(number) % 4 else FSTAB
        text = self.host.read_verbatim(path)
        return FileStep(path, text, _with_our_change(text, number))

    def apply(self, chosen: set[int], die_at: int | None) -> None:
        steps = [step for which in sorted(chosen) if (step := self.step(which)) is not None]
        self.host.operations.clear()
        self.host.die_at = die_at
        with suppress(KilledError):
            engine.apply(self.host, FakeRunner(self.host), TuningPlan(tuple(steps)), OWNER)
        self.host = FakeKernel(self.host.root)

    def set(self, path: str) -> None:
        number = str(next(self.numbers))
        for kernel in (self.host, self.shadow):
            kernel.write_setting(path, number)

    def edit(self, path: str, where: str) -> None:
        line = f"# {next(self.numbers)}\n"
        for kernel in (self.host, self.shadow):
            text = kernel.read_verbatim(path) or ""
            write(kernel.root, path, line + text if where == "first" else text + line)

    def reboot(self) -> None:
        for kernel in (self.host, self.shadow):
            reboot(kernel.root, self.boot)

    def roll_back(self, die_at: int | None = None) -> engine.Rollback | None:
        self.host.operations.clear()
        self.host.die_at = die_at
        try:
            return engine.rollback(self.host, FakeRunner(self.host))
        except KilledError:
            return None
        finally:
            self.host = FakeKernel(self.host.root)


def _host(root: Path) -> Path:
    make_host(root)
    write(root, FSTAB, FSTAB_TEXT)
    (root / "var/lib").mkdir(parents=True)
    return root


def _with_our_change(text: str | None, number: str) -> str:
    """A line of ours, in the middle of fstab or of a file that others write to as well, made or made anew."""
    lines = (text or "").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("ours")]
    place = next((place for place, line in enumerate(lines) if line.startswith("ours")), min(len(kept), 2))
    return "".join([*kept[:place], f"ours {number}\n", *kept[place:]])


def _lines_of_others(kernel: FakeKernel, path: str) -> Iterator[str]:
    return (line for line in (kernel.read_verbatim(path) or "").splitlines() if not line.startswith("ours"))


@pytest.mark.slow
@settings(max_examples=80)
@given(st.lists(actions, max_size=7))
def test_a_rollback_leaves_the_host_as_if_we_had_never_come(history: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for action in history:
            match action:
                case ("apply", set(chosen), die_at):
                    world.apply(chosen, die_at)  # type: ignore[arg-type]
                case ("set", str(path)):
                    world.set(path)
                case ("edit", str(path), str(where)):
                    world.edit(path, where)
                case ("boot",):
                    world.reboot()
                case ("rollback killed", int(die_at)):
                    world.roll_back(die_at)
        back = world.roll_back()
        assert back is not None
        assert back.problems == ()
        kept = {name for held in back.kept for name in held.resource.names}
        for path in (*SINGLE, *PAIR):
            assert world.host.read(path) == world.shadow.read(path), path
        for path in (FSTAB, OURS):
            assert list(_lines_of_others(world.host, path)) == list(_lines_of_others(world.shadow, path))
            if path not in kept:
                assert world.host.read_verbatim(path) == world.shadow.read_verbatim(path), path
        assert world.host.exists(FOLDER) == bool(back.kept)

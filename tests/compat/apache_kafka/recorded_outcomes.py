"""Runs cases of Kafka's tests on Kafka 3.9 and on our broker, and compares both with what was recorded on Kafka.

A table has a line for each case: what its client got, and what the case left behind as the administrator sees it.
Kafka wrote the table (`--record`), and a later run of Kafka has to show it again. A case whose client never came to ask
is therefore seen, although it would show the same on both.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.compat.apache_kafka.authorizer_world import Check, Way, World

TABLES: Final = Path(__file__).with_name("recorded")
_UNFINISHED: Final = "did not come to its end"
_OPTIONS: Final = ("--record", "--ours")
Outcomes = Mapping[str, str]
Runner = Callable[[Path, Sequence[str]], Outcomes]


class Suite(NamedTuple):
    table: Path
    cases: Sequence[str]
    on_kafka: Runner
    """What Kafka 3.9 shows of the named cases; its files are below the directory."""
    on_ours: Runner

    def recorded(self) -> Outcomes:
        lines = self.table.read_text("utf-8").splitlines() if self.table.exists() else []
        return {name: outcome for line in lines for name, _, outcome in [line.partition(": ")]}

    def record(self, outcomes: Outcomes) -> None:
        told = {**self.recorded(), **outcomes}
        self.table.write_text("".join(f"{name}: {told[name]}\n" for name in self.cases if name in told), "utf-8")


def outcomes(way: Way, cases: Mapping[str, Check], names: Sequence[str]) -> Outcomes:
    """What each case shows, and what it leaves."""
    found: dict[str, str] = {}
    for name in names:
        world = World(way, name)
        try:
            world.settle()
            shown = cases[name](world)
            found[name] = f"{shown} leaves {world.left()}"
        except (AssertionError, TimeoutError) as error:
            found[name] = f"{_UNFINISHED}: {' '.join(str(error).split())}"
        finally:
            world.close()
    return found


def differences(suite: Suite, directory: Path, names: Sequence[str], *, kafka: bool = True) -> list[str]:
    """A line for each case in which Kafka, or our broker, shows another outcome than the table has; prints them all."""
    recorded, different = suite.recorded(), []
    for who, run in (("Kafka", suite.on_kafka), ("ours", suite.on_ours))[0 if kafka else 1 :]:
        folder = directory / who
        folder.mkdir()
        for name, outcome in run(folder, names).items():
            wrong = outcome != recorded.get(name)
            sys.stdout.write(f"{'DIFFERENT' if wrong else 'as recorded'}, {who}: {name}: {outcome}\n")
            if wrong:
                different.append(f"{name}: {who} {outcome}, recorded {recorded.get(name)}")
    return different


def main_of(suite: Suite, arguments: Sequence[str]) -> int:
    """`[--record | --ours] [CASE ...]`. Exit status 1 if an outcome differs, 2 for a case that is unknown."""
    options = [word for word in arguments if word.startswith("--")]
    names = [word for word in arguments if word not in options] or list(suite.cases)
    if unknown := [word for word in (*options, *names) if word not in (*_OPTIONS, *suite.cases)]:
        known = f"{', '.join(_OPTIONS)}, and the cases that {suite.table} names"
        sys.stderr.write(f"no such option or case: {', '.join(unknown)}; there are {known}\n")
        return 2
    with tempfile.TemporaryDirectory() as name:
        if "--record" in options:
            found = suite.on_kafka(Path(name), names)
            suite.record({case: told for case, told in found.items() if not told.startswith(_UNFINISHED)})
            unfinished = [f"{case}: {told}\n" for case, told in found.items() if told.startswith(_UNFINISHED)]
            sys.stdout.writelines(unfinished)
            return 1 if unfinished else 0
        different = differences(suite, Path(name), names, kafka="--ours" not in options)
    sys.stdout.write(f"{len(names)} cases, {len(different)} differences\n")
    return 1 if different else 0

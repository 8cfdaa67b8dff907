"""The folder of a drill's results: a line for each round, so that a stopped drill can go on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from highwater.common.atomic_files import write_atomically
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.model import RoundResult
from highwater.pipeline.drill.verdict import Verdict, table

ROUNDS: Final = "rounds.jsonl"
ASKED: Final = "asked.json"
VERDICT: Final = "verdict.json"
TABLE: Final = "verdict.md"


class Results:
    def __init__(self, folder: Path, asked: dict[str, str]) -> None:
        """asked: what has to be the same when a drill goes on. Raises DrillSetupError if it is not."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        before = folder / ASKED
        if before.exists() and (found := json.loads(before.read_text("utf-8"))) != asked:
            changed = ", ".join(sorted(name for name in {*found, *asked} if found.get(name) != asked.get(name)))
            raise DrillSetupError(f"{folder} has the results of another drill ({changed} differ); choose another --out")
        write_atomically(before, json.dumps(asked, indent=1) + "\n")
        rounds = folder / ROUNDS
        text = rounds.read_text("utf-8") if rounds.exists() else ""
        whole, _, cut_off = text.rpartition("\n")
        if cut_off:
            write_atomically(rounds, whole and f"{whole}\n")
        self.rounds = [RoundResult(**json.loads(line)) for line in whole.splitlines()]

    def add(self, result: RoundResult) -> None:
        self.rounds.append(result)
        with (self.folder / ROUNDS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def conclude(self, verdict: Verdict) -> None:
        asked = json.loads((self.folder / ASKED).read_text("utf-8"))
        whole = {"verdict": verdict.sentence, "exit_status": verdict.exit_status, **asdict(verdict), "asked": asked}
        write_atomically(self.folder / VERDICT, json.dumps(whole, indent=1) + "\n")
        write_atomically(self.folder / TABLE, f"{verdict.sentence}\n\n{table(self.rounds, verdict)}")

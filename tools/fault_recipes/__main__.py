"""Runs clients under the scripts of examples/faults/, and counts the records in the log afterwards.

    python -m tools.fault_recipes [--client NAME] [--recipe NN] [--page docs/faults.md] [--at-once 3]

Each cell of docs/faults.md is one run: a broker of its own with one topic, one process of the client, and the script,
which is set once the topic is there. A producer sends ten records; `dump-log`'s reader then counts them in the files of
the stopped broker, as no client could do without its own errors. A consumer reads ten records, each a batch of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from highwater.bench.user_cache import cached, need, run_step
from highwater.broker.commands.log_files import Options, inspect
from highwater.common.errors import UsageError
from highwater.common.units import significant
from highwater.testing.brokers import Brokers
from tests.compat.apache_kafka.tools import jars_4
from tests.npm_packages import npm_packages

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
RECIPES: Final = {path.name[:2]: path for path in sorted((ROOT / "examples/faults").glob("*.yaml"))}
CONSUMED: Final = ("10", "11", "12", "13")
TRANSACTION: Final = "14"
DELETED: Final = "11"
"""All records go, and ten others follow, which the consumer has to find."""
SENT: Final = tuple(f"record-{number}" for number in range(10))
PRODUCE_S: Final = 70.0
CONSUME_S: Final = 25.0
_OVERTIME_S: Final = {"produce": 180.0, "transact": 180.0, "consume": 50.0}
"""A process that goes on for so long after its time is ended, and its output up to then shown."""
_TIMES: Final = ("**lost**", "once", "**twice**")
_SHOWN_FAULTS: Final = 6


def _python(name: str, *settings: str) -> Callable[[], tuple[list[str], list[str]]]:
    return lambda: ([sys.executable, str(HERE / f"{name}_client.py")], list(settings))


def _java() -> tuple[list[str], list[str]]:
    return [need("java", "openjdk-17-jdk", "runs kafka-clients"), "-cp", f"{jars_4()}/*", str(HERE / "Recipe.java")], []


def _franz_go() -> tuple[list[str], list[str]]:
    go, module = need("go", "golang", "builds with franz-go"), ROOT / "tests/compat/franz_go"
    source = HERE / "franz_go_client.go"

    def build(folder: Path) -> None:
        run_step([go, "build", "-o", folder / "client", source], module)

    digest = hashlib.sha256(source.read_bytes() + (module / "go.sum").read_bytes()).hexdigest()[:12]
    return [str(cached(f"fault-recipes-{digest}", "a client with franz-go: built", build) / "client")], []


def _kafkajs() -> tuple[list[str], list[str]]:
    node = need("node", "nodejs", "runs kafkajs")
    return [node, str(HERE / "kafkajs_client.mjs"), str(npm_packages(HERE, "kafkajs"))], []


CLIENTS: Final[Mapping[str, Callable[[], tuple[list[str], list[str]]]]] = {
    "librdkafka": _python("librdkafka"),
    "librdkafka-safe": _python("librdkafka", "safe"),
    "kafka-python": _python("kafka_python"),
    "java": _java,
    "franz-go": _franz_go,
    "kafkajs": _kafkajs,
}
"""What starts each: a command before the role, the broker and the seconds, and arguments after them."""


def run_cell(brokers: Brokers, recipe: str, command: tuple[list[str], list[str]]) -> tuple[str, list[str]]:
    """Return the cell of the page, and what else was seen: faults, and the version or the last words of the client."""
    role = "consume" if recipe in CONSUMED else "transact" if recipe == TRANSACTION else "produce"
    limit_s = CONSUME_S if role == "consume" else PRODUCE_S
    with tempfile.TemporaryDirectory(prefix="highwater-recipes-") as folder:
        broker = brokers.start({"log.dirs": folder}, faults=True)
        try:
            broker.create_topic("t")
            if role == "consume":
                _write(broker.bootstrap_servers)
            broker.faults.set(RECIPES[recipe].read_text("utf-8"))
            process = subprocess.Popen(
                [*command[0], role, broker.bootstrap_servers, f"{limit_s:g}", *command[1]],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                if recipe == DELETED:
                    time.sleep(CONSUME_S / 2)
                    _write(broker.bootstrap_servers)
                output, said = process.communicate(timeout=limit_s + _OVERTIME_S[role])
            except subprocess.TimeoutExpired:
                process.kill()
                output, said = process.communicate()
            history = broker.faults.history()
            broker.stop()
            in_log = Counter(_values(Path(folder).glob("t-0/*.log")))
        finally:
            broker.close()
    hung = process.returncode < 0  # as it was killed above
    hits: dict[str, list[str]] = {}
    for hit in history:
        text = f"{hit['kind']} hits {hit['api']} v{hit['version']} of client {hit['client_id']!r}"
        hits.setdefault(text, []).append(f"{hit['after_ms'] / 1000:.1f}")
    seen = [f"{text}, after {', '.join(times[:_SHOWN_FAULTS])} s" for text, times in hits.items()]
    if process.returncode != 0:
        end = f"had not ended after {limit_s + _OVERTIME_S[role]:.0f} s" if hung else "ended with an error"
        return f"**{end}**", seen + said.splitlines()[-40:]
    found = json.loads(output.splitlines()[-1])
    cell = read_cell(found) if role == "consume" else written_cell(found, in_log, role == "transact")
    return cell, [*seen, found["version"]]


def _write(server: str) -> None:
    """Write the ten records, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": server})
    for value in SENT:
        producer.produce("t", value.encode())
        if producer.flush(30):
            raise UsageError("the broker took no record for 30 s: its log is in the folder of temporary files")


def _values(files: Iterable[Path]) -> list[str]:
    rows = (row for file in files for row in inspect(file, Options(records=True)))
    return [(row.fields["value"] or b"").decode(errors="replace") for row in rows if row.kind == "record"]


def written_cell(found: Mapping[str, Any], in_log: Counter[str], is_transaction: bool) -> str:
    """What a producer saw and the log has."""
    if is_transaction:
        return _errors(found["errors"]) or "**committed**"
    after = f"{significant(found['seconds'], 2)} s"
    counts = Counter(in_log[value] for value in SENT)
    texts = {count: _TIMES[count] if count < len(_TIMES) else f"**{count} times**" for count in counts}
    log = (
        "none"
        if counts == {0: len(SENT)} and not found["delivered"]
        else ", ".join(text if len(counts) == 1 else f"{counts[count]} {text}" for count, text in texts.items())
    )
    undecided = len(SENT) - found["delivered"] - found["failed"]
    if not undecided and not found["failed"]:
        return f"{log}, {after}"
    fates = [f"**{found['failed']} failed** ({_errors(found['errors'])})"] if found["failed"] else []
    fates += [f"**{undecided} undecided**"] if undecided else []
    return f"{', '.join(fates)} after {after}; in the log: {log}"


def read_cell(found: Mapping[str, Any]) -> str:
    """What a consumer got."""
    read = Counter(found["values"])
    times = Counter(read[value] for value in SENT if read[value])
    words = [f"{count} records" + (f", each {number} times" if number > 1 else "") for number, count in times.items()]
    damaged = sum(count for value, count in read.items() if value not in SENT)
    words += [f"**{damaged} damaged**"] if damaged else []
    first = "" if found["first"] is None else f", the first after {significant(found['first'], 2)} s"
    errors = _errors(found["errors"])
    return ("; ".join(words) or "**no record**") + first + (f"; {errors}" if errors else "")


def _errors(errors: list[str]) -> str:
    texts = Counter(text.replace("|", "/") for text in errors)
    return ", ".join(f"{count} × `{text}`" if count > 1 else f"`{text}`" for text, count in texts.items())


def fill(page: str, cells: Mapping[tuple[str, str], str]) -> str:
    """The page with cells by (recipe, client): rows begin with `| [NN `, and a heading names the clients."""
    lines, columns = [], []
    for line in page.splitlines(keepends=True):
        parts = line.split(" | ")
        if line.startswith("| recipe |"):
            columns = [part.strip(" |\n").lower() for part in parts]
        if line.startswith("| [") and columns:
            found = {place: cells.get((line[3:5], client)) for place, client in enumerate(columns)}
            parts = [found.get(place) or part.removesuffix(" |\n") for place, part in enumerate(parts)]
            line = " | ".join(parts) + " |\n"
        lines.append(line)
    return "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fault_recipes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one; may be repeated")
    parser.add_argument("--recipe", action="append", choices=RECIPES, help="only this one; may be repeated")
    parser.add_argument("--page", type=Path, help="write the cells into the tables of this page")
    parser.add_argument("--at-once", type=int, default=1, help="runs beside each other")
    options = parser.parse_args()
    commands = {}
    for client in options.client or CLIENTS:
        try:
            commands[client] = CLIENTS[client]()
        except UsageError as error:
            sys.stderr.write(f"{client} does not run here: {error}\n")
    cells: dict[tuple[str, str], str] = {}
    with Brokers() as brokers, ThreadPoolExecutor(options.at_once) as pool:

        def run(pair: tuple[str, str]) -> None:
            cells[pair], seen = run_cell(brokers, pair[0], commands[pair[1]])
            sys.stdout.write("\n    ".join([f"{' '.join(pair)}: {cells[pair]}", *seen]) + "\n")
            sys.stdout.flush()

        list(pool.map(run, product(options.recipe or RECIPES, commands)))
    if options.page is not None:
        options.page.write_text(fill(options.page.read_text("utf-8"), cells), "utf-8")
    return 0 if len(commands) == len(options.client or CLIENTS) else 2


if __name__ == "__main__":
    sys.exit(main())

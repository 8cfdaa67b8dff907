"""How much a command imports before it does its work: modules are counted, as times depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import typer
from typer.core import TyperGroup

from highwater.cli import app

# typer has 100 modules, and rich, for the help, 200.
_MOST_FOR_HELP: Final = 355
_MOST_TO_LISTEN: Final = 464
_NOT_TO_LISTEN: Final = {
    "confluent_kafka",
    "cryptography",
    "encodings.idna",
    "highwater.broker.handlers.create_topics",
    "highwater.broker.member",
    "highwater.broker.security.sasl",
    "highwater.kafka.protocol.cluster_schemas",
    "hypothesis.core",
    "importlib.metadata",
    "kazoo",
    "kio.serial",
    "logging.handlers",
    "psutil",
    "pydantic",
    "rich",
}
_HEAVY: Final = {
    "cryptography",
    "duckdb",
    "google",
    "hdrh",
    "jinja2",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "scipy",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "uvloop",
    "yaml",
}
_EVERY_COMMAND: Final = """
import json, sys
import typer
from typer.core import TyperGroup
from highwater.cli import app

def look(command, path):
    before = set(sys.modules)
    context = typer.Context(command)
    command.get_usage(context)
    for name in command.list_commands(context) if isinstance(command, TyperGroup) else ():
        below = command.get_command(context, name)
        print(json.dumps([f"{path} {name}", sorted({each.partition(".")[0] for each in set(sys.modules) - before})]))
        before = set(sys.modules)
        look(below, f"{path} {name}")
        before = set(sys.modules)

look(typer.main.get_command(app), "highwater")
"""
_HELP: Final = """
import sys
from highwater.cli import main
try:
    main()
finally:
    print(len(sys.modules), file=sys.stderr, flush=True)
"""


# It ends when it is ready, as the line that says so is written.
_BROKER: Final = """
import io, json, os, signal, sys
from highwater.cli import main

class Output(io.StringIO):
    def write(self, text):
        if text.startswith("ready:"):
            print(json.dumps(sorted(sys.modules)), file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
        return len(text)

sys.stdout = Output()
main()
"""


def groups(group: TyperGroup) -> list[TyperGroup]:
    """`group` and every group below it."""
    below = (group.get_command(typer.Context(group), name) for name in group.list_commands(typer.Context(group)))
    return [group, *(each for command in below if isinstance(command, TyperGroup) for each in groups(command))]


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=60
    )


def root() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def test_no_command_imports_what_it_works_with_before_it_is_called() -> None:
    """All are imported in one process: a package is reported for the first command that imports it."""
    answers = [json.loads(line) for line in run(_EVERY_COMMAND).stdout.splitlines()]
    assert len(answers) > 100
    assert [(path, heavy) for path, packages in answers if (heavy := sorted(_HEAVY.intersection(packages)))] == []


@pytest.mark.parametrize("command", ["", "bench", "bench run", "broker", "broker start", "monitor", "pipeline", "tune"])
def test_help_needs_few_modules(command: str) -> None:
    done = run(_HELP, *command.split(), "--help")
    assert int(done.stderr.splitlines()[-1]) <= _MOST_FOR_HELP


def test_a_broker_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    done = run(_BROKER, "broker", "start", "--log-dir", str(tmp_path), "--port", "0")
    modules = set(json.loads(next(line for line in done.stderr.splitlines() if line.startswith("["))))
    assert len(modules) <= _MOST_TO_LISTEN
    assert modules.isdisjoint(_NOT_TO_LISTEN)


@pytest.mark.parametrize("group", groups(root()), ids=lambda group: str(group.name))
def test_a_list_of_commands_says_what_their_own_help_begins_with(group: TyperGroup) -> None:
    for name, listed in group.commands.items():
        command = group.get_command(typer.Context(group), name)
        assert command is not None
        said, own = (listed.help or "").split(), (command.help or "").split()
        assert said
        assert own[: len(said)] == said, name


@pytest.mark.parametrize(
    ("module", "packages"),
    [
        ("serve_command", {"confluent_kafka", "kazoo"}),
        ("top_command", {"confluent_kafka", "kazoo", "sqlalchemy", "uvicorn"}),
    ],
)
def test_the_monitor_loads_no_library_that_it_may_never_use(module: str, packages: set[str]) -> None:
    done = run(f"import sys, highwater.monitor.{module}; print(*sys.modules)")
    assert packages.isdisjoint(name.partition(".")[0] for name in done.stdout.split())

"""docs/broker.md against the code it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from highwater.broker.cli import app
from highwater.kafka.protocol.apis import APIS, CLUSTER_APIS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "broker.md").read_text("utf-8")
GROUP = typer.main.get_group(app)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
SHOWN = re.findall(r"highwater broker ([a-z-]+)(.*)", "\n".join(text for language, text in BLOCKS if not language))


def test_the_tables_of_apis_are_the_brokers() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)–(\d+)(?: \(told from (\d+)\))? \|$", TEXT, re.MULTILINE)
    assert [(int(key), name, int(low), int(high), int(told or low)) for key, name, low, high, told in rows] == [
        (
            api.key,
            "".join(word.capitalize() for word in api.name.split("_")),
            max(api.min_version, api.served_from),
            api.max_version,
            api.min_version,
        )
        for apis in (APIS, CLUSTER_APIS)
        for api in sorted(apis.values())
    ]


def test_the_page_for_a_new_api_names_each_table_of_all_apis() -> None:
    _, _, after = (ROOT / "docs" / "extending.md").read_text("utf-8").partition("## Add an API")
    section, _, _ = after.partition("\n## ")
    names = {api.name for api in (*APIS.values(), *CLUSTER_APIS.values())}
    tables = [
        str(path.relative_to(ROOT))
        for room in ("broker", "highwater/kafka")
        for path in (ROOT / room).rglob("*.py")
        if names <= set(re.findall(r'"(\w+)"', path.read_text("utf-8")))
    ]
    assert len(tables) >= 2
    assert [table for table in tables if f"`{table}`" not in section] == []


def test_every_command_is_shown() -> None:
    assert {name for name, _ in SHOWN} == set(GROUP.commands)


@pytest.mark.parametrize("name", GROUP.commands)
def test_every_option_shown_is_one(name: str) -> None:
    command = GROUP.get_command(typer.Context(GROUP), name)
    assert command is not None
    for arguments in (arguments for shown, arguments in SHOWN if shown == name):
        asked = [command]
        if isinstance(command, TyperGroup):
            asked += [command.commands[word] for word in arguments.split() if word in command.commands]
        options = {option for part in asked for parameter in part.params for option in parameter.opts}
        assert options.issuperset(re.findall(r"--[a-z.-]+", arguments)), f"highwater broker {name} {arguments}"

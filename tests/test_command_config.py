"""Each command that connects to a cluster takes a file with TLS and a login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
import typer

from highwater.cli import app

_FILE_OF: Final = {
    "--bootstrap-server": "--command-config",
    "--bootstrap-servers": "--command-config",
    "--source": "--source-config",
    "--target": "--target-config",
    "--control": "--control-config",
    "--telemetry": "--telemetry-config",
}
"""The file of each option that names a cluster."""
_NO_BROKERS: Final = {"--zookeeper", "--listen", "--faults-listen", "--metrics", "--broker-metrics"}
_FIND_A_FOLDER: Final = {
    "monitor export", "monitor attach", "monitor user add", "monitor user list", "monitor user remove",
}  # fmt: skip
"""With these, -b says which monitor's folder on this host is meant; they connect to nothing."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[click.Parameter]]]:
    """Each command, and each group with options of its own, with its parameters."""
    yield " ".join(path), command.params
    if hasattr(command, "list_commands"):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


def test_each_command_that_names_a_cluster_takes_a_file_of_client_properties() -> None:
    found = {
        path: {name for parameter in parameters for name in parameter.opts}
        for path, parameters in commands(typer.main.get_command(app))
    }
    connecting = {path: options & _FILE_OF.keys() for path, options in found.items() if options & _FILE_OF.keys()}
    assert {"broker acls", "broker mirror", "broker transactions", "bench run", "monitor serve", "top"} <= set(
        connecting
    )
    missing = {
        path: option
        for path, options in connecting.items()
        for option in options
        if path not in _FIND_A_FOLDER and _FILE_OF[option] not in found[path]
    }
    assert not missing


def test_no_option_names_a_cluster_by_another_name() -> None:
    others = {
        (path, *parameter.opts)
        for path, parameters in commands(typer.main.get_command(app))
        for parameter in parameters
        if "HOST:PORT" in str(parameter.metavar) and not set(parameter.opts) & (_FILE_OF.keys() | _NO_BROKERS)
    }
    assert not others

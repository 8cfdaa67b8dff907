"""`highwater broker check-config`: checks whether a broker would start with a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.broker.commands.terminal import UsageError, reporting
from highwater.broker.server.start_check import SETUP_ERRORS, check
from highwater.broker.settings.config import BrokerConfig, read_properties_file


def check_config(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="A server.properties file.")],
) -> None:
    """Say whether a broker would start with this configuration, as far as that tells by itself.

    Names, values, addresses and the key stores that it names are looked at; log directories, ports and ZooKeeper are
    not, and nothing is written. Exit code: 0 it can be used, 2 it cannot.
    """
    with reporting():
        try:
            settings = BrokerConfig(read_properties_file(config))
            check(settings)
        except SETUP_ERRORS as error:
            raise UsageError(str(error)) from None
        for warning in settings.warnings:
            typer.echo(f"warning: {warning}", err=True)

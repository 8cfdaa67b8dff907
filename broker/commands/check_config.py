"""`highwater broker check-config`: checks whether a broker would start with a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.admin.terminal import UsageError, reporting
from highwater.broker.server.process_plan import ProcessPlan
from highwater.broker.server.start_check import SETUP_ERRORS, check
from highwater.broker.settings.config import BrokerConfig, read_properties_file
from highwater.kafka.client.host_processes import PROCESSES


def check_config(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="A server.properties file.")],
) -> None:
    """Check whether a broker would start with this configuration.

    Checks the names, the values, the addresses and the key stores. Does not check log directories, ports or ZooKeeper,
    and writes nothing. Exit code: 0 the configuration is valid, 2 it is not.
    """
    with reporting():
        try:
            lines = read_properties_file(config)
            settings = BrokerConfig(lines)
            if settings.is_set(PROCESSES):
                ProcessPlan.of(lines)
            else:
                check(settings)
        except SETUP_ERRORS as error:
            raise UsageError(str(error)) from None
        for warning in settings.warnings:
            typer.echo(f"warning: {warning}", err=True)

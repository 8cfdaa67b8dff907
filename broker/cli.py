"""The commands `highwater broker …`. What they need is imported when they run, so that help comes at once."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.common.late_commands import Late, late_app

_ANY_CLUSTER: Final = "highwater.admin"
_HERE: Final = "highwater.broker.commands"

app = late_app(
    {
        "topics": Late(f"{_ANY_CLUSTER}.topics:topics", "Create, list, describe, alter or delete topics."),
        "produce": Late(
            f"{_ANY_CLUSTER}.produce:produce", "Write each line of standard input to a topic as one record, in order."
        ),
        "consume": Late(
            f"{_ANY_CLUSTER}.consume:consume",
            "Print the records of a topic, one per line, until interrupted or until a limit is reached.",
        ),
        "groups": Late(f"{_ANY_CLUSTER}.groups:groups", "List, describe, reset or delete groups, or offsets."),
        "transactions": Late(f"{_ANY_CLUSTER}.transactions:transactions", "Show transactions and abort hanging ones."),
        "configs": Late(
            f"{_ANY_CLUSTER}.configs:configs",
            "Show or change settings of topics, brokers, groups, users and clients, and what metrics clients push.",
        ),
        "acls": Late(
            f"{_ANY_CLUSTER}.acls:acls", "List, add or remove ACLs of a cluster whose brokers have an authorizer."
        ),
        "users": Late(
            f"{_ANY_CLUSTER}.users:users",
            "List, create, change or delete SCRAM users. The password is asked for, or read from a file.",
        ),
        "cluster": Late(
            f"{_HERE}.cluster:cluster",
            "Show the id, the brokers and the controller of a cluster; or run a cluster on this host.",
        ),
        "monitoring": Late(
            f"{_HERE}.monitoring:monitoring",
            "Write a Prometheus configuration, alert rules and a Grafana dashboard for a cluster.",
        ),
        "elect": Late(f"{_ANY_CLUSTER}.elect:elect", "Elect leaders."),
        "reassign": Late(
            f"{_ANY_CLUSTER}.reassign:reassign",
            "Move replicas between brokers that keep running. A plan is a file in the format of Kafka's tool, or "
            "- for stdin.",
        ),
        "mirror": Late(
            f"{_ANY_CLUSTER}.mirror:mirror",
            "Copy topics with their partitions, order, timestamps, headers and keys, and keep copying until stopped.",
        ),
        "log-dirs": Late(
            f"{_ANY_CLUSTER}.log_dirs:log_dirs", "Show the size of every partition, by broker and log directory."
        ),
        "check-config": Late(
            f"{_HERE}.check_config:check_config", "Check whether a broker would start with this configuration."
        ),
        "dump-log": Late(
            f"{_HERE}.dump_log:dump_log",
            "Print and check log files; needs no broker, never writes, and can read the files of a running broker.",
        ),
    },
    help="A log broker that speaks Kafka's protocol and needs no JVM.",
)


@app.command()
def start(
    log_dir: Annotated[
        Path | None, typer.Option("--log-dir", help="Directory of the log; created if missing. Also: log.dirs.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="Port to listen on; 0 takes a free one.",
            show_default="9092; 0 with --ephemeral",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address to listen on and to advertise to clients.", show_default="127.0.0.1"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A server.properties file with Kafka's property names.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="Property to set; may be repeated.")
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            "--processes",
            metavar="N|auto",
            help="Number of processes; auto: one for each core.",
            show_default="one",
        ),
    ] = None,
    ephemeral: Annotated[
        bool,
        typer.Option(
            "--ephemeral",
            help="For a test: use a temporary log directory that is removed at the end; end when the parent does.",
        ),
    ] = False,
    ready_fd: Annotated[
        int | None,
        typer.Option(
            "--ready-fd",
            min=1,
            metavar="N",
            help="When it accepts connections, write HOST:PORT and a newline to this descriptor, and close it; 1 is "
            "standard output, which then has no ready line.",
        ),
    ] = None,
    faults: Annotated[
        Path | None, typer.Option("--faults", help="A script of faults for the broker, to test clients.")
    ] = None,
    faults_listen: Annotated[
        str | None,
        typer.Option(
            "--faults-listen",
            metavar="HOST:PORT",
            help="Address to set, read and clear faults over HTTP, for tests of clients; port 0 takes a free one.",
        ),
    ] = None,
    faults_from_network: Annotated[
        bool, typer.Option("--faults-from-network", help="Allow --faults-listen an address that other hosts can reach.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Start a broker and run it until SIGTERM or SIGINT.

    A second signal, at least one second later, stops it immediately.

    When it accepts connections it prints one line, "ready: listening on HOST:PORT (…)", on standard output. Its log
    goes to standard error. Options override --property, which overrides --config.
    Exit codes: 0 stopped cleanly, 1 failed while running, 2 could not start.
    """
    import logging
    from contextlib import ExitStack

    from highwater.broker.commands.ephemeral import FOR_TESTS, check_ready_fd, guarded_folder
    from highwater.common.command_errors import fail
    from highwater.common.errors import UsageError

    ending = ExitStack()
    try:
        if ready_fd is not None:
            check_ready_fd(ready_fd)
        # Before anything else is imported, which takes most of a start: the parent may end meanwhile.
        folder = ending.enter_context(guarded_folder()) if ephemeral else None
    except UsageError as error:
        fail(error)

    gc.disable()  # what is imported now stays: to look at it again and again takes a start 7 ms
    ending.callback(gc.enable)
    from highwater.broker.server import broker
    from highwater.broker.server.start_check import SETUP_ERRORS
    from highwater.broker.settings.config import (
        BrokerConfig,
        ConfigError,
        Setting,
        parse_property_option,
        read_properties_file,
    )
    from highwater.common.exit_codes import EXIT_NO
    from highwater.common.log_lines import log_to_standard_error

    log_to_standard_error(level=logging.DEBUG if verbose else logging.INFO)
    try:
        settings = read_properties_file(config) if config is not None else []
        settings += [parse_property_option(text) for text in properties or ()]
        if log_dir is not None:
            settings.append(Setting("--log-dir", "log.dirs", str(log_dir)))
        if folder is not None:
            if twice := next((each for each in settings if each.name in ("log.dir", "log.dirs")), None):
                raise ConfigError(f"{twice.place}: --ephemeral makes a log directory of its own: leave one of them out")
            settings[:0] = [Setting("--ephemeral", name, text) for name, text in FOR_TESTS.items()]
            settings.append(Setting("--ephemeral", "log.dirs", str(folder / "log")))
            if port is None and (host is not None or all(each.name != "listeners" for each in settings)):
                port = 0
        if port is not None or host is not None:
            address = host or "127.0.0.1"
            bracketed = f"[{address}]" if ":" in address else address
            listener = f"PLAINTEXT://{bracketed}:{9092 if port is None else port}"
            settings.append(Setting("--host and --port", "listeners", listener))
        if processes is not None:
            settings.append(Setting("--processes", "highwater.processes", processes))
        fails_on_command = faults is not None or faults_listen is not None or faults_from_network
        if fails_on_command:
            from highwater.broker.server.faults import FOR_FAULTS, plane_of  # only a broker that is to fail has it

            settings[:0] = [Setting("--faults", name, text) for name, text in FOR_FAULTS.items()]
        checked = BrokerConfig(settings)
        if fails_on_command:
            fault_plane = plane_of(checked, faults, faults_listen, anywhere=faults_from_network)
            exit_code = broker.run(checked, ready_fd=ready_fd, faults=fault_plane)
        elif checked.is_set("highwater.processes"):
            from highwater.broker.server import parent  # only who starts several pays for it

            gc.enable()
            exit_code = parent.run(settings, ready_fd)
        else:
            exit_code = broker.run(checked, ready_fd=ready_fd)
    except (*SETUP_ERRORS, UsageError) as error:
        fail(error)
    except BrokenPipeError:
        fail("nobody reads that the broker is ready any more", EXIT_NO)
    except KeyboardInterrupt:
        typer.echo("interrupted before it was ready", err=True)
        raise typer.Exit(EXIT_NO) from None
    finally:
        ending.close()
    raise typer.Exit(exit_code)

"""`highwater broker users`: lists, creates, changes and deletes users who log in with SCRAM."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    only_action,
    refuse_options,
)
from highwater.admin.client_configs import (
    ITERATIONS,
    MECHANISMS,
    Password,
    alter_credentials,
    credentials,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    confirmed,
    print_json,
    print_table,
    printable,
    reporting,
    require_terminal,
    say,
)
from highwater.common.nearest import did_you_mean

_STANDARD_INPUT: Final = Path("-")
_DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"


def users(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    list_: Annotated[bool, typer.Option("--list", help="List users with their mechanisms, without secrets.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Create a user who is not there yet.")] = False,
    change: Annotated[bool, typer.Option("--change", help="Change the password of a user who is there.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete a user; with --mechanism, only the credential of that mechanism.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="The user's name, as it is in User:NAME of an ACL.")
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism", help=f"{' or '.join(MECHANISMS)}.", show_default=f"{_DEFAULT_MECHANISM}, or the user's"
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", min=4096, help="Number of key-derivation iterations.", show_default=str(ITERATIONS)
        ),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="The password is its first line; - is standard input."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Delete without asking.")] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List, create, change or delete SCRAM users. The password is asked for, or read from a file.

    The cluster gets keys that are made from the password here, never the password. Exit code: 0 done, 1 the cluster
    refused it, or the answer to the question was no, 2 usage error.
    """
    with reporting():
        action = only_action({"--list": list_, "--create": create, "--change": change, "--delete": delete})
        writes = create or change
        refuse_options(
            action,
            {
                "--mechanism": mechanism is not None and list_,
                "--iterations": iterations is not None and not writes,
                "--password-file": password_file is not None and not writes,
                "--force": force and not delete,
            },
        )
        if mechanism is not None and mechanism.upper() not in MECHANISMS:
            raise UsageError(
                f"--mechanism {printable(mechanism)}: {' or '.join(MECHANISMS)}{did_you_mean(mechanism, MECHANISMS)}"
            )
        mechanism = None if mechanism is None else mechanism.upper()
        if not list_:
            _check_name(action, user)
        if list_:
            _list(Cluster(bootstrap_server, command_config), user, as_json=as_json)
            return
        assert user is not None
        if writes:
            # Read before the cluster is asked: what is wrong with it changes nothing.
            text = _password(password_file)
        elif not force:
            require_terminal()
        cluster = Cluster(bootstrap_server, command_config)
        known = credentials(cluster)
        mechanisms = known.get(user, {})
        if create:
            names = [mechanism or _DEFAULT_MECHANISM]
            if names[0] in mechanisms:
                raise CommandError(f"user {printable(user)} has a login with {names[0]}: --change changes it")
        else:
            names = sorted(mechanisms) if mechanism is None else [mechanism]
            if not mechanisms:
                raise CommandError(f"there is no user {printable(user)}{did_you_mean(user, map(printable, known))}")
            if names[0] not in mechanisms:
                raise CommandError(f"user {printable(user)} has no login with {names[0]}, but {', '.join(mechanisms)}")
        if delete:
            if not force and not confirmed(f"Delete {', '.join(names)} of user {printable(user)}?"):
                raise CommandError("nothing is deleted")
            alter_credentials(cluster, user, [(name, None) for name in names])
        else:
            alter_credentials(
                cluster,
                user,
                [(name, Password(iterations or mechanisms.get(name, ITERATIONS), text)) for name in names],
            )
        done = {"--create": "Created", "--change": "Changed", "--delete": "Deleted"}[action]
        if as_json:
            print_json({"user": user, "done": done.lower(), "mechanisms": names})
        else:
            say(f"{done} user {printable(user)}: {', '.join(names)}.")


def _check_name(action: str, user: str | None) -> None:
    if not user:
        raise UsageError(f"{action} needs --user NAME")
    if user.startswith("User:"):
        raise UsageError(f"--user {printable(user)}: the name alone, {printable(user.removeprefix('User:'))}")


def _list(cluster: Cluster, user: str | None, *, as_json: bool) -> None:
    found = credentials(cluster, user)
    rows = [(name, mechanism, found[name][mechanism]) for name in sorted(found) for mechanism in sorted(found[name])]
    if as_json:
        print_json([{"user": name, "mechanism": each, "iterations": number} for name, each, number in rows])
    elif rows:
        print_table(("User", "Mechanism", "Iterations"), [(printable(name), *rest) for name, *rest in rows])
    else:
        say("There are no users with SCRAM." if user is None else f"There is no user {printable(user)} with SCRAM.")


def _password(file: Path | None) -> str:
    """The new password. Raises UsageError, which shows nothing of it."""
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to ask for the password: give --password-file FILE, or - for input")
        text = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        try:
            data = sys.stdin.buffer.readline() if file == _STANDARD_INPUT else file.read_bytes()
            text = data.decode().partition("\n")[0].removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot read the password: {getattr(error, 'strerror', 'no UTF-8')}") from None
    if not text:
        raise UsageError("the password is empty")
    return text

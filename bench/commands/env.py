"""`bench env show` and `bench env diff`: the conditions of a result.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, one_line_errors

if TYPE_CHECKING:
    from highwater.results.environment_key import EnvironmentKey

app = typer.Typer(
    no_args_is_help=True, help="The environments of results: their facts, and the key computed from these."
)

_Storage = typer.Option("--storage", metavar="DIR", help="Directory of the broker's log; default: the temporary one.")


@app.command()
def show(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A result directory; default: this host.")
    ] = None,
    storage: Annotated[Path | None, _Storage] = None,
    as_json: AsJson = False,
) -> None:
    """Show an environment key and its facts."""
    with one_line_errors():
        from highwater.results.environment_key import human_name

        key = _key(directory, storage)
        if as_json:
            typer.echo(json.dumps({"key": key.name, "facts": key.facts}, indent=2))
            return
        typer.echo(f"environment {key.name}")
        names = {human_name(fact): value for fact, value in key.facts.items()}
        width = max(map(len, names))
        for name, value in names.items():
            typer.echo(f"  {name:{width}}  {'not known' if value is None else value}")


@app.command()
def diff(
    base: Annotated[Path, typer.Argument(metavar="DIR", help="A result directory.")],
    head: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory to compare with it.")],
    as_json: AsJson = False,
) -> None:
    """Show the differences between two environments. Exit code 5 when the results are not comparable."""
    with one_line_errors():
        from highwater.common.exit_codes import EXIT_ENVIRONMENT
        from highwater.results.environment_key import difference_text, differences
        from highwater.results.reader import RunResult

        found = differences(RunResult(base), RunResult(head))
        if as_json:
            typer.echo(json.dumps([difference.model_dump() for difference in found], indent=2))
        else:
            for difference in found:
                typer.echo(f"{'decides' if difference.decides else 'shown  '}  {difference_text(difference)}")
            if not any(difference.decides for difference in found):
                typer.echo("comparable: nothing that affects figures differs")
        if any(difference.decides for difference in found):
            raise typer.Exit(EXIT_ENVIRONMENT)


def _key(directory: Path | None, storage: Path | None) -> EnvironmentKey:
    import tempfile

    from highwater.bench.environment import describe_environment
    from highwater.bench.storage.targets import describe_target
    from highwater.common.errors import UsageError
    from highwater.results.environment_key import environment_key, key_of
    from highwater.results.reader import RunResult
    from highwater.tuning.facts import collect

    if directory is not None:
        if storage is not None:
            raise UsageError("--storage is for this host; a result directory knows where its log was")
        return key_of(RunResult(directory))
    facts = collect()
    path = storage or Path(tempfile.gettempdir())
    if not path.is_dir():
        raise UsageError(f"--storage: {path} is not a directory")
    target = describe_target("temporary", path, facts)
    return environment_key(describe_environment(facts, {}, [path]), [target])

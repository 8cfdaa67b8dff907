"""Completion in bash, zsh and fish: scripts for the shells, and what the program answers them.

All shells send the words up to the cursor, each with a newline after it, and get lines: a word, a tab, its help.
typer's own scripts find no file where a path has begun, and its script for zsh answers the first TAB with nothing.
This module needs typer, which is there for commands alone.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from typer._click import shell_completion

_VARIABLE: Final = "_HIGHWATER_COMPLETE"  # typer's, of a program with the name highwater
_WORDS: Final = "_HIGHWATER_WORDS"
_ASK: Final = f"{_VARIABLE}=complete_lines {_WORDS}="


class Shell(StrEnum):
    """The shells with a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# Each runs the program that was typed, which need not be on PATH. No answer: the shell completes files.
SCRIPTS: Final = {
    Shell.BASH: rf"""# bash completion of highwater
_highwater() {{
    local IFS=$'\n'
    local words="${{COMP_WORDS[*]:1:COMP_CWORD}}"
    COMPREPLY=($({_ASK}"$words"$'\n' "${{1/#\~\//$HOME/}}" 2>/dev/null | cut -f1))
}}
complete -o default -F _highwater highwater highwater-kafka
""",
    Shell.ZSH: rf"""#compdef highwater highwater-kafka
# zsh completion of highwater
_highwater() {{
    local line
    local -a found
    for line in "${{(@f)$({_ASK}"${{(pj:\n:)words[2,CURRENT]}}"$'\n' ${{~words[1]}} 2>/dev/null)}}"; do
        [[ -n $line ]] && found+=("${{${{line%%$'\t'*}}//:/\\:}}:${{line#*$'\t'}}")
    done
    if (( $#found )); then _describe -V answer found; else _files; fi
}}
if [[ ${{zsh_eval_context[-1]}} == loadautofunc ]]; then
    _highwater "$@"
else
    compdef _highwater highwater highwater-kafka
fi
""",
    Shell.FISH: rf"""# fish completion of highwater
function __highwater_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program (string replace -r '^~/' $HOME/ -- $words[1])
    set -l found (env {_ASK}(string join \n -- $words[2..] | string collect --no-trim-newlines) $program 2>/dev/null)
    if test -n "$found"
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command highwater --command highwater-kafka --no-files --keep-order --arguments '(__highwater_complete)'
""",
}


def completion(shell: Annotated[Shell, typer.Argument(help="Shell that the script is for.")]) -> None:
    """Print the script that completes commands, options and values in a shell.

    For bash, in ~/.bashrc: source <(highwater completion bash)

    For zsh, into a folder of $fpath: highwater completion zsh > FOLDER/_highwater

    For fish: highwater completion fish > ~/.config/fish/completions/highwater.fish
    """
    typer.echo(SCRIPTS[shell], nl=False)


def answer_shells() -> None:
    """Let this process answer the shell that asks."""
    shell_completion.add_completion_class(_Lines, "lines")


class _Lines(shell_completion.ShellComplete):
    name = "lines"
    source_template = ""

    _kept: str = ""
    """The option and its =, which zsh and fish take for a part of the word; bash makes words of them."""

    def source_vars(self) -> dict[str, Any]:
        return {}

    def get_completion_args(self) -> tuple[list[str], str]:
        *before, last = os.environ.get(_WORDS, "").split("\n")[:-1] or [""]
        option, equals, value = last.partition("=")
        if equals and not option:
            return before, value
        if equals and option.startswith("-"):
            self._kept = f"{option}="
            return [*before, option], value
        return [word for word in before if word != "="], last

    def format_completion(self, item: shell_completion.CompletionItem) -> str:
        return f"{self._kept}{item.value}\t{' '.join((item.help or '').split())}"

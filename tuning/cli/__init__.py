"""The command group `highwater tune`: one module for each verb, imported when it is called."""

from __future__ import annotations

from typing import Final

from ...common.late_commands import Late, late_app

_EXIT_CODES: Final = (
    "Exit codes: 0 done, or as recommended; 1 something differs; 2 usage error, or refused with nothing changed; "
    "3 failed part-way; run `highwater tune rollback` to restore the previous state; 130 interrupted."
)

app = late_app(
    {
        "list": Late(
            f"{__name__}.listing:list_knobs",
            "List the knobs, whether each can be set on this host, and if not, why; changes nothing.",
        ),
        "facts": Late(
            f"{__name__}.facts:facts",
            "Describe this host: processors, memory, disks, file systems, network, limits, and other programs "
            "that tune it.",
        ),
        "check": Late(f"{__name__}.check:check", "Compare this host with the recommendations; changes nothing."),
        "plan": Late(f"{__name__}.plan:plan", "Show what apply would change, now and in which files; changes nothing."),
        "apply": Late(
            f"{__name__}.apply:apply",
            "Apply the planned changes. They are journaled, written and read back; either all take effect or none do.",
        ),
        "verify": Late(
            f"{__name__}.verify:verify",
            "Verify that what was applied is in effect, and not only in files: in processes, in the kernel, at "
            "the next boot.",
        ),
        "status": Late(
            f"{__name__}.status:status",
            "Show which changes by Highwater are in force, which somebody else changed since, and interrupted runs.",
        ),
        "rollback": Late(
            f"{__name__}.rollback:rollback",
            "Restore what was here before apply, and before a benchmark that was killed with a profile in force.",
        ),
        "explain": Late(
            f"{__name__}.explain:explain",
            "Explain a knob: what it does, its recommended value on this host with formula and sources, obstacles "
            "to a change, which file wins at boot, and what was measured here.",
        ),
        "profiles": Late(
            f"{__name__}.profiles:profiles",
            "List the profiles for --profile of plan and apply, and for host.profile of a workload file.",
        ),
        "sizing": Late(
            f"{__name__}.sizing:sizing",
            "Calculate the page cache that this host has left, with Highwater's broker and with Apache Kafka and "
            "its heap.",
        ),
        "waits": Late(
            f"{__name__}.waits:waits",
            "Watch what the kernel makes a broker wait for: the journal, write-back, dirty pages, cold reads, locks.",
        ),
        "schema": Late(f"{__name__}.schema:schema", "Print the JSON Schema (draft 2020-12) of a verb's --json output."),
    },
    help=f"Inspect, check, change, verify and roll back the settings of a broker's host.\n\n{_EXIT_CODES}",
)

"""The page of an advice: the decision first, then why, then what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from highwater.common.units import NONE, change_span_text, change_text, plural
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Column,
    Facts,
    Field,
    Headline,
    Section,
    Statements,
    Tone,
    table,
)
from highwater.reports.evidence import evidence_blocks
from highwater.reports.moments import minute_text
from highwater.reports.page import Document
from highwater.results.advice import (
    ADVISED,
    Advice,
    AdviceOutcome,
    AdvisedOption,
    Change,
    SettingWorth,
    own_name,
    read_advice,
)
from highwater.results.analysis.advised import advice_evidence, advice_headline
from highwater.results.analysis.statement import command_of
from highwater.results.bounds import bound_text
from highwater.results.gate import SideEstimate
from highwater.results.metrics import METRICS, value_text

_TONES: Final[dict[AdviceOutcome, Tone]] = {"better": "good", "nothing_better": "none", "nothing_usable": "bad"}
_VERDICTS: Final = {
    "better": "better",
    "worse": "worse",
    "no_change": "none seen",
    "undecided": "undecided",
    "differs": "differs",
}


def advice_document(directory: Path) -> Document:
    """Raises ResultDirectoryError when advice.json is damaged."""
    advice = read_advice(directory)
    meta = f"{plural(advice.search.trials, 'trial')} of search, {plural(advice.confirmation_blocks, 'block')} confirmed"
    return Document(
        advice.name,
        advice.purpose,
        f"{meta}, {minute_text(advice.created_utc)}",
        [*_settings(advice), *_evidence(advice), _would_change(advice), _searched(advice)],
        [_decision(advice)],
        kind="advice",
    )


def _decision(advice: Advice) -> Section:
    """The first screen: what to do, and what it changes."""
    tone = _TONES[advice.outcome]
    items: list[tuple[str, Tone]] = [(advice.sentence, tone), *((line, "none") for line in advice.notes)]
    blocks: list[Block] = [
        Headline(advice_headline(advice), tone),
        *evidence_blocks(advice_evidence(advice)),
        Statements(items, advice.next_step, command_of(advice.next_step), "The answer in full"),
    ]
    return Section("answer", "Decision", blocks, nav="Decision")


def _settings(advice: Advice) -> Iterator[Section]:
    """The settings to set."""
    for option in advice.options:
        if option.better:
            rows: list[list[str | Field]] = [
                [_setting(item.key), item.in_use, item.advised]
                for item in option.settings
                if item.in_use != item.advised
            ]
            header = [Column(name, text=True) for name in ("setting", "in use", "advised")]
            title = "Advised settings" if option.name == ADVISED else f"Settings of {option.name}"
            yield Section(f"settings-{option.name}", title, [table(header, rows, title)], nav="Settings")


def _evidence(advice: Advice) -> list[Section]:
    found = [Section("why", "Why", [Facts("", [("Asked", advice.question)]), _bullets(advice.why)], nav="Why")]
    found += [
        Section(f"figures-{option.name}", f"Figures of {option.title}", _figures(option), nav=option.title)
        for option in advice.options
    ]
    return found


def _figures(option: AdvisedOption) -> list[Block]:
    beside_defaults = any(figure.defaults is not None for figure in option.figures)
    rows: list[list[str | Field]] = [
        [
            METRICS[figure.metric].title or figure.metric,
            *(_side(side, figure.unit) for side in (figure.advised, figure.in_use)),
            _change(figure.against_in_use),
            *([_side(figure.defaults, figure.unit), _change(figure.against_defaults)] if beside_defaults else []),
        ]
        for figure in option.figures
    ]
    header = ["figure", option.title, "in use", "against in use"]
    header += ["defaults", "against the defaults"] if beside_defaults else []
    blocks: list[Block] = [
        table(header, rows, f"Figures of {option.title}", "Medians and 95 % intervals of fresh trials.")
    ]
    if option.bounds:
        bounds = [
            [
                METRICS[one.metric].title or one.metric,
                bound_text(one.bound),
                _value(one.value, one.unit),
                one.state.replace("_", " "),
            ]
            for one in option.bounds
        ]
        blocks.append(table(["bound", "at most or least", "measured", "state"], bounds, "Bounds"))
    if option.worth:
        worth: list[list[str | Field]] = [[_setting(item.key), _worth(item)] for item in option.worth]
        note = f"{METRICS[option.worth[0].metric].title}: the advised settings without this change, against with it."
        blocks.append(table(["setting", "without it"], worth, "What each change was worth", note))
    return blocks


def _would_change(advice: Advice) -> Section:
    return Section("change", "What would change it", [_bullets(advice.would_change)], nav="What would change it")


def _searched(advice: Advice) -> Section:
    search = advice.search
    facts = [
        ("Candidates measured", f"{search.candidates} of {search.combinations}"),
        ("Trials", f"{search.trials} in {plural(search.blocks, 'block')}, {search.unusable_trials} not usable"),
        *[("Look closer", command) for command in advice.commands],
    ]
    return Section("search", "The search", [Facts("", facts)], nav="Search")


def _bullets(lines: Sequence[str]) -> Bullets:
    return Bullets([Bullet(line) for line in lines])


def _worth(item: SettingWorth) -> Field:
    if item.change is None:
        return Field(
            "not carried", f"{item.without.usable} of {plural(item.without.trials, 'trial')} usable", tone="bad"
        )
    return _change(item.change)


def _setting(key: str) -> Field:
    """The property's own name, which fits a narrow screen, above whose it is."""
    name = own_name(key)
    return Field(name, key.removesuffix(name).split(".")[0])


def _side(side: SideEstimate | None, unit: str) -> Field:
    if side is None:
        return Field(NONE)
    interval = " to ".join(value_text(end, unit) for end in side.ci95) if side.ci95 else ""
    return Field(value_text(side.value, unit), interval)


def _change(change: Change | None) -> Field:
    if change is None:
        return Field(NONE)
    interval = change_span_text(*change.ci95) if change.ci95 else NONE
    tone: Tone = "good" if change.verdict == "better" else "bad" if change.verdict == "worse" else ""
    return Field(change_text(change.ratio), f"{interval}; {_VERDICTS[change.verdict]}", tone=tone)


def _value(value: float | None, unit: str) -> str:
    return NONE if value is None else value_text(value, unit)

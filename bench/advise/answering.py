"""The answer of an advice in words: the decision, why, and what would change it. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Final

from highwater.bench.advise.concluding import option_of, settings_text, short, title, trials_of
from highwater.bench.advise.confirming import IN_USE, Confirmation, cell_name
from highwater.bench.advise.question import Asked
from highwater.bench.advise.search import Standing
from highwater.bench.advise.space import Candidate, spell
from highwater.bench.results import TrialSummary
from highwater.bench.results.advice import (
    CONFIRMATION,
    SEARCH,
    Advice,
    AdviceOutcome,
    AdvisedOption,
    AdvisedSetting,
    SearchAccount,
    SettingWorth,
)
from highwater.common.units import change_span_text, change_text, percent_text, plural

_CONFIRMED: Final = (
    "The answer rests on fresh trials alone: {blocks} in random order, each with the settings in use, the defaults and "
    "the candidates. A difference counts if its 95 % interval lies beyond the noise of A/A pairs and a permutation "
    "test agrees at 5 %, corrected for the number of comparisons."
)


def question_text(asked: Asked) -> str:
    """`least Produce latency p99, with Broker memory <400MiB`"""
    question = asked.question
    aims = " and ".join(f"{'least' if aim.least else 'most'} {title(aim.metric)}" for aim in question.objective)
    bounds = ", ".join(f"{title(name)} {bound}" for name, bound in asked.bounds.items())
    return f"{aims}, with {bounds}" if bounds else aims


def _aims_text(asked: Asked) -> str:
    return " and ".join(title(name) for name in asked.metrics)


def concluded(
    asked: Asked,
    confirmation: Confirmation,
    summaries: Sequence[TrialSummary],
    account: SearchAccount,
    out: str,
    created_utc: str,
) -> Advice:
    """The answer from the trials of the confirmation, A/A twins included. out: the directory that is named in it."""
    trials = trials_of(summaries, confirmation.plan.seed)
    names = list(confirmation.options)
    options = [
        option_of(
            trials, name, candidate, asked.space, asked.in_use, asked.metrics, asked.bounds, names, confirmation.without
        )
        for name, candidate in confirmation.options.items()
        if trials.by_variant.get(name)
    ]
    better = [option for option in options if option.better]
    outcome: AdviceOutcome
    if not options or not trials.by_variant.get(IN_USE):
        sentence = "No answer: no fresh trial of the best candidate, or of the settings in use, is a valid measurement."
        outcome = "nothing_usable"
    elif better:
        outcome = "better"
        lead = "Set" if len(better) == 1 else "Choose between"
        sentence = f"{lead} {' or '.join(option.sentence for option in better)}."
    else:
        outcome = "nothing_better"
        sentence = (
            f"Keep the settings in use: nothing was found that is surely better in {_aims_text(asked)}. "
            f"The best candidate, {options[0].sentence}."
        )
    return Advice(
        name=asked.question.name,
        purpose=asked.question.purpose,
        question=question_text(asked),
        outcome=outcome,
        sentence=sentence,
        why=_why(asked, account, confirmation.blocks, options),
        would_change=_would_change(asked, options, account),
        options=options,
        search=account,
        confirmation_blocks=confirmation.blocks,
        created_utc=created_utc,
        commands=_commands(out, confirmation),
    )


def _why(asked: Asked, account: SearchAccount, blocks: int, options: Sequence[AdvisedOption]) -> list[str]:
    unusable = f", {account.unusable_trials} of which could not be used" if account.unusable_trials else ""
    searched = (
        f"The search measured {plural(account.candidates, 'candidate')} of {account.combinations} in "
        f"{plural(account.trials, 'trial')} of {plural(account.blocks, 'block')}{unusable}."
    )
    lines = [searched, *([_CONFIRMED.format(blocks=plural(blocks, "block"))] if blocks else [])]
    if account.noise_ratio is not None:
        scatter = percent_text(account.noise_ratio)
        lines.append(f"From trial to trial {title(asked.metrics[0])} scattered by {scatter} in the search.")
    for option in options:
        lines += [_worth_text(worth) for worth in option.worth]
        unchanged = [short(item.key) for item in option.settings if item.in_use == item.advised]
        if unchanged:
            lines.append(f"Not worth touching: {', '.join(unchanged)} (the value in use was not beaten).")
    return lines


def _worth_text(worth: SettingWorth) -> str:
    """The change is that of the advised settings without this one."""
    change = worth.change
    interval = f" (95 % interval {change_span_text(*change.ci95)})" if change.ci95 else ""
    told = change.verdict in ("better", "worse", "differs")
    end = "" if told else "; not told apart from nothing, so it is not worth touching"
    return f"Without {short(worth.key)}: {title(worth.metric)} {change_text(change.ratio)}{interval}{end}."


def _would_change(asked: Asked, options: Sequence[AdvisedOption], account: SearchAccount) -> list[str]:
    lines = ["Another load, host, disk or version of the broker: the answer holds for what was measured."]
    for option in options:
        for figure in option.figures:
            change = figure.against_in_use
            if figure.is_aim and change is not None and change.verdict in ("undecided", "no_change"):
                lines.append(
                    f"More time: {title(figure.metric)} of {option.name} is not told apart from the settings in use "
                    f"with {plural(figure.advised.n_trials, 'trial')}."
                )
        lines += [
            f"A looser bound: {title(one.metric)} {one.bound} is {'in doubt' if one.state == 'in_doubt' else 'broken'}."
            for one in option.bounds
            if one.state != "kept"
        ]
    if account.candidates < account.combinations:
        lines.append(
            f"A longer budget: {plural(account.combinations - account.candidates, 'combination')} of the values under "
            "touch were not measured."
        )
    guarded = [loss for loss, demand in asked.question.durability.demands().items() if demand != "may_lose"]
    if guarded:
        lines.append(f"Durability: no setting that may lose more was touched (durability: {', '.join(guarded)}).")
    return lines


def _commands(out: str, confirmation: Confirmation) -> list[str]:
    directory = shlex.quote(f"{out}/{CONFIRMATION}")
    first = next(iter(confirmation.options))
    return [
        f"highwater report {shlex.quote(out)}",
        f"highwater bench compare {directory}:{cell_name(IN_USE)} {directory}:{cell_name(first)}",
    ]


def nothing_found(asked: Asked, found: Standing, account: SearchAccount, out: str, created_utc: str) -> Advice:
    """The answer of a search without a finalist."""
    others = [candidate for candidate in found.scores if candidate != asked.in_use]
    able = [candidate for candidate in others if found.keeps_bounds(candidate)]
    outcome: AdviceOutcome
    if not found.scores:
        outcome = "nothing_usable"
        sentence = "No answer: no trial of the search is a valid measurement."
    elif not able:
        outcome = "nothing_better"
        sentence = f"No candidate kept the bounds: {question_text(asked)} cannot be had with these values."
    else:
        outcome = "nothing_better"
        best = min(able, key=lambda candidate: found.scores[candidate][0])
        by = change_text(math.exp(found.scores[best][0]))
        sentence = (
            f"Keep the settings in use: every other candidate was surely worse in {_aims_text(asked)}. "
            f"The best of them, {_candidate_text(asked, best)}, cost {by} in the search."
        )
    return Advice(
        name=asked.question.name,
        purpose=asked.question.purpose,
        question=question_text(asked),
        outcome=outcome,
        sentence=sentence,
        why=_why(asked, account, 0, []),
        would_change=_would_change(asked, [], account),
        options=[],
        search=account,
        confirmation_blocks=0,
        created_utc=created_utc,
        commands=[f"highwater report {shlex.quote(out)}", f"highwater report {shlex.quote(f'{out}/{SEARCH}')}"],
    )


def _candidate_text(asked: Asked, candidate: Candidate) -> str:
    return settings_text(
        [
            AdvisedSetting(key=key, in_use=spell(present), advised=spell(value))
            for key, present, value in zip(asked.space.keys, asked.in_use, candidate, strict=True)
        ]
    )

"""The answer of an advice in words: the decision, why, and what would change it. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Final

from highwater.common.units import change_span_text, change_text, percent_text, plural, wait_text
from highwater.results.advice import (
    CONFIRMATION,
    SEARCH,
    SETTINGS,
    Advice,
    AdviceOutcome,
    AdvisedOption,
    AdvisedSetting,
    Change,
    SearchAccount,
    SettingWorth,
    Usability,
    own_name,
)
from highwater.results.bounds import bound_text
from highwater.results.metrics import value_text
from highwater.results.models import TrialSummary
from highwater.studies.advise.carrying import mostly_usable
from highwater.studies.advise.concluding import (
    beats_defaults,
    is_open,
    not_carried_text,
    option_of,
    settings_text,
    short_names,
    title,
    trials_of,
    usable_text,
)
from highwater.studies.advise.confirming import DEFAULTS, IN_USE, Confirmation, cell_name
from highwater.studies.advise.question import Asked
from highwater.studies.advise.search import Standing
from highwater.studies.advise.space import Candidate, spell

_CONFIRMED: Final = (
    "The answer rests on fresh trials alone: {blocks} in random order, each with the settings in use, the defaults and "
    "the candidates. A ratio is the median of those of the blocks. A difference counts if its 95 % interval lies "
    "beyond the noise of A/A pairs and a permutation test agrees at 5 %, corrected for the number of comparisons. "
    "Settings whose trials can be used in more blocks are decided by a sign test at 5 %, corrected as well."
)


def question_text(asked: Asked) -> str:
    """`least Produce latency p99, with Broker memory <400MiB`"""
    question = asked.question
    aims = " and ".join(f"{'least' if aim.least else 'most'} {title(aim.metric)}" for aim in question.objective)
    bounds = ", ".join(f"{title(name)} {bound_text(bound)}" for name, bound in asked.bounds.items())
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
    trials = trials_of(summaries, confirmation.blocks, confirmation.plan.seed)
    measured = {
        name: option_of(
            trials,
            name,
            candidate,
            asked,
            list(confirmation.options),
            {} if name == DEFAULTS else confirmation.without,
        )
        for name, candidate in confirmation.candidates.items()
        if trials.by_variant.get(name)
    }
    defaults = measured.pop(DEFAULTS, None)
    options = list(measured.values())
    better = [option for option in options if option.better]
    reasons = [] if defaults is None else [f"The defaults, {defaults.sentence}."]
    more_time: list[str] = []
    outcome: AdviceOutcome = "better"
    if defaults is not None and _defaults_do(asked, confirmation, defaults, better):
        sentence = f"Go back to the defaults, {defaults.sentence}."
        reasons = [_candidate_beside_defaults(option) for option in options[:1]]
        more_time = [_more_time(option) for option in options[:1] if _is_open_beside_defaults(option)]
        options = [defaults, *(option.model_copy(update={"better": False, "worth": []}) for option in options)]
        better = [defaults]
    elif better:
        lead = "Set" if len(better) == 1 else "Choose between"
        sentence = f"{lead} {' or '.join(option.sentence for option in better)}."
    elif not options:
        outcome = "nothing_usable"
        sentence = "No answer: no fresh trial of the best candidate can be used."
    elif not mostly_usable(options[0].usability_in_use):
        outcome = "nothing_better"
        sentence = (
            f"Nothing to advise: {usable_text(options[0].usability_in_use)} with the settings in use, and nothing was "
            f"found that is surely better. The best candidate, {options[0].sentence}."
        )
    else:
        outcome = "nothing_better"
        sentence = (
            f"Keep the settings in use: nothing was found that is surely better in {_aims_text(asked)}. "
            f"The best candidate, {options[0].sentence}."
        )
    if defaults not in better:
        reasons += _kept_from_defaults(asked, confirmation)
    return Advice(
        name=asked.question.name,
        purpose=asked.question.purpose,
        question=question_text(asked),
        outcome=outcome,
        sentence=sentence,
        notes=[line for option in better for line in (*_price(asked, option), *_worth(option))],
        why=[*reasons, *_why(asked, account, confirmation.blocks, options)],
        would_change=[*more_time, *_would_change(asked, better or options, account)],
        next_step=_next_step(asked, better, options, out),
        options=options,
        search=account,
        confirmation_blocks=confirmation.blocks,
        created_utc=created_utc,
        commands=_commands(out, (better or options)[0].name if options else next(iter(confirmation.options))),
    )


def _worth(option: AdvisedOption) -> list[str]:
    """Which changes make the difference, the largest first, and which may be left out."""
    names = short_names(item.key for item in option.settings)
    ordered = _by_size(option.worth)
    found: dict[str, list[str]] = {"worth most": [], "better left as now": [], "not worth changing, each by itself": []}
    needed, harmful, idle = found.values()
    for worth in ordered:
        is_better_without = worth.change is not None and worth.change.verdict == "better"
        kind = harmful if is_better_without else needed if _is_told(worth) else idle
        kind.append(names[worth.key])
    parts = [f"{what}: {', '.join(keys)}" for what, keys in found.items() if keys]
    return [f"Of the changes, {'; '.join(parts)}."] if parts else []


def _by_size(worth: Sequence[SettingWorth]) -> list[SettingWorth]:
    """What matters most to leave out comes first."""
    return sorted(worth, key=lambda each: _size(each.change), reverse=True)


def _size(change: Change | None) -> float:
    """How far from no change; without an end if nothing can be compared, as the load is not carried then."""
    return math.inf if change is None or change.ratio <= 0 else abs(math.log(change.ratio))


def _is_told(worth: SettingWorth) -> bool:
    return worth.change is None or worth.change.verdict in ("better", "worse", "differs")


def _price(asked: Asked, option: AdvisedOption) -> list[str]:
    """What is surely worse than now, and neither an aim nor bounded: the largest change first."""
    worse: list[tuple[float, str]] = []
    for figure in option.figures:
        change, in_use = figure.against_in_use, figure.in_use
        if figure.metric in (*asked.metrics, *asked.bounds) or change is None or in_use is None:
            continue
        if change.verdict == "worse":
            values = [value_text(side.value, figure.unit) for side in (figure.advised, in_use)]
            worse.append((_size(change), f"{title(figure.metric)} {' instead of '.join(values)}"))
    if not worse:
        return []
    told = ", ".join(text for _, text in sorted(worse, key=lambda item: -item[0]))
    return [f"The price of {option.title}, which the question does not bound: {told}."]


def _candidate_beside_defaults(option: AdvisedOption) -> str:
    state = "not surely better than the defaults" if option.better else "not advised"
    return f"The best candidate is {state}: {option.sentence}."


def _is_open_beside_defaults(option: AdvisedOption) -> bool:
    return any(figure.is_aim and is_open(figure.against_defaults) for figure in option.figures)


def _more_time(option: AdvisedOption) -> str:
    return (
        "More time: the best candidate cannot be distinguished from the defaults with "
        f"{plural(option.usability.trials, 'trial')}."
    )


def _defaults_do(
    asked: Asked, confirmation: Confirmation, defaults: AdvisedOption, better: Sequence[AdvisedOption]
) -> bool:
    """Whether the defaults are better than the settings in use, and no candidate is surely better than the defaults."""
    return defaults.better and not _kept_from_defaults(asked, confirmation) and not any(map(beats_defaults, better))


def _kept_from_defaults(asked: Asked, confirmation: Confirmation) -> list[str]:
    """Why the defaults are not advised, whatever their figures: what they would trade of durability."""
    if confirmation.defaults is None or asked.allows(confirmation.defaults):
        return []
    trades = [
        f"{own_name(trade.key)} by default weakens durability: {trade.cost}"
        for trade in asked.weakened_by_defaults(confirmation.defaults)
    ]
    return [f"The defaults are not advised: {'; '.join(trades) or 'they do not meet the required durability'}."]


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
    lines += [_failed_text(option.usability_in_use) for option in options[:1] if option.usability_in_use.check]
    advised = [option for option in options if option.better] or options
    for option in advised:
        names = short_names(item.key for item in option.settings)
        lines += [_worth_text(worth, names[worth.key]) for worth in _by_size(option.worth)]
        unchanged = [names[item.key] for item in option.settings if item.in_use == item.advised]
        if unchanged and option.name != DEFAULTS:
            lines.append(f"Not worth changing: {', '.join(unchanged)} (the value in use was not beaten).")
    return lines


def _failed_text(in_use: Usability) -> str:
    return (
        f"Of the settings in use: {usable_text(in_use)}. Most of the others failed the check {in_use.check}: "
        f"{in_use.text}."
    )


def _worth_text(worth: SettingWorth, name: str) -> str:
    """The change is that of the advised settings without this one."""
    change = worth.change
    if change is None:
        return f"Without {name}: {not_carried_text(worth.without)}."
    interval = f" (95 % interval {change_span_text(*change.ci95)})" if change.ci95 else ""
    end = "" if _is_told(worth) else "; no effect can be distinguished, so it is not worth changing"
    return f"Without {name}: {title(worth.metric)} {change_text(change.ratio)}{interval}{end}."


def _would_change(asked: Asked, options: Sequence[AdvisedOption], account: SearchAccount) -> list[str]:
    lines = ["Another load, host, disk or version of the broker: the answer holds for what was measured."]
    for option in options:
        lines += [
            f"More time: {title(figure.metric)} of {option.name} cannot be distinguished from the settings in use with "
            f"{plural(figure.advised.n_trials, 'trial')}."
            for figure in option.figures
            if figure.is_aim and not option.carries and is_open(figure.against_in_use)
        ]
        lines += [
            f"A looser bound: {title(one.metric)} {bound_text(one.bound)} is "
            f"{'in doubt' if one.state == 'in_doubt' else 'broken'}."
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


def _next_step(asked: Asked, better: Sequence[AdvisedOption], options: Sequence[AdvisedOption], out: str) -> str:
    """Set what is advised; or which measurement decides most of what is open, and how long it takes."""
    if better:
        return f"Set what the files in {shlex.quote(f'{out}/{SETTINGS}')} say, on a host and with a load like these."
    time_text = wait_text(2 * asked.question.budget_s)
    twice = f"Ask again with twice the time (budget: {2 * asked.question.budget_s:g}s), which takes {time_text}"
    if any(figure.is_aim and is_open(figure.against_in_use) for option in options for figure in option.figures):
        return f"{twice} and narrows the intervals by about a third."
    if options and mostly_usable(options[0].usability_in_use):
        return f"{twice} and tries more of the values."
    return f"Read why trials were not usable, or missed the bounds: highwater report {shlex.quote(f'{out}/{SEARCH}')}"


def _commands(out: str, first: str) -> list[str]:
    """first: the variant that the answer is about."""
    directory = shlex.quote(f"{out}/{CONFIRMATION}")
    return [
        f"highwater report {shlex.quote(out)}",
        f"highwater bench compare {directory}:{cell_name(IN_USE)} {directory}:{cell_name(first)}",
    ]


def nothing_found(asked: Asked, found: Standing, account: SearchAccount, out: str, created_utc: str) -> Advice:
    """The answer of a search without a finalist."""
    others = [candidate for candidate in found.scores if candidate != asked.in_use and asked.allows(candidate)]
    able = [candidate for candidate in others if found.keeps_bounds(candidate)]
    outcome: AdviceOutcome
    if not found.scores:
        outcome = "nothing_usable"
        sentence = "No answer: no trial of the search is a valid measurement."
    elif not others:
        outcome = "nothing_usable"
        sentence = "No answer: no trial of a candidate that may be advised is a valid measurement."
    elif not able:
        outcome = "nothing_better"
        sentence = f"No candidate met the bounds: {question_text(asked)} cannot be reached with these values."
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
        next_step=_next_step(asked, [], [], out),
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

"""The first screen of an advice: what to set and what it changes, or that nothing is surely better."""

from __future__ import annotations

from highwater.results.advice import (
    Advice,
    AdvisedFigure,
    AdvisedOption,
    AdvisedSetting,
    BoundOutcome,
    Change,
    SearchAccount,
    Usability,
)
from highwater.results.analysis.advised import advice_evidence, advice_headline
from highwater.results.analysis_file import ComparisonVerdict
from highwater.results.gate import SideEstimate

SIDE = SideEstimate(value=1e6, ci95=None, n_trials=7)


def figure(metric: str, ratio: float, verdict: ComparisonVerdict, *, is_aim: bool = False) -> AdvisedFigure:
    change = Change(ratio=ratio, ci95=(ratio - 0.05, ratio + 0.05), delta_ratio=0.01, verdict=verdict)
    return AdvisedFigure(
        metric=metric,
        unit="ns",
        better="lower",
        is_aim=is_aim,
        advised=SIDE,
        in_use=SideEstimate(value=SIDE.value / ratio, ci95=None, n_trials=7),
        defaults=None,
        against_in_use=change,
        against_defaults=None,
    )


FIGURES = [
    figure("produce.p50", 0.9, "better"),
    figure("system.cpu_s_per_gib", 1.2, "worse"),
    figure("produce.p99", 0.7, "better", is_aim=True),
    figure("e2e.p99", 1.0, "no_change"),
]


def option(
    *, better: bool = True, n_settings: int = 1, advised: str = "0", carries: bool = False, is_kept: bool = True
) -> AdvisedOption:
    bound = BoundOutcome(metric="errors", unit="", bound="==0", value=0, state="kept" if is_kept else "in_doubt")
    usability = Usability(trials=7, usable=7)
    return AdvisedOption(
        name="advised",
        settings=[
            AdvisedSetting(key=f"producers.client.linger{number}.ms", in_use="5", advised=advised)
            for number in range(n_settings)
        ],
        figures=FIGURES,
        bounds=[bound],
        usability=usability,
        usability_in_use=usability,
        carries=carries,
        carries_beside_defaults=False,
        better=better,
        sentence="linger.ms 5 → 0: Produce latency p99 15.8 ms instead of 22.8 ms",
    )


def advice(*options: AdvisedOption, sentence: str = "Set it.") -> Advice:
    return Advice(
        name="quick",
        purpose="",
        question="least Produce latency p99",
        outcome="better" if any(one.better for one in options) else "nothing_better",
        sentence=sentence,
        why=[],
        would_change=[],
        options=list(options),
        search=SearchAccount(candidates=1, trials=1, unusable_trials=0, blocks=1, combinations=1, noise_ratio=None),
        confirmation_blocks=7,
        created_utc="2026-01-01T00:00:00Z",
        commands=[],
    )


def test_what_to_set_what_it_gains_and_that_it_has_a_price() -> None:
    assert advice_headline(advice(option())) == (
        "Set “linger0.ms 0”; produce latency p99 from 1.43 ms to 1 ms (−30 %); some figures get worse."
    )
    assert advice_headline(advice(option(n_settings=2))).startswith("Set “linger0.ms 0” and “linger1.ms 0”; ")
    assert advice_headline(advice(option(n_settings=9))).startswith("Set 9 settings; ")
    assert advice_headline(advice(option(advised="default"))).startswith(
        "Go back to the defaults; produce latency p99 "
    )
    assert "; in doubt: a bound is not surely kept; " in advice_headline(advice(option(is_kept=False)))


def test_settings_that_carry_the_load_alone() -> None:
    said = advice_headline(advice(option(carries=True)))
    assert "its trials are usable, and those of the settings in use are not" in said


def test_nothing_better_says_so_without_the_figures_of_a_candidate() -> None:
    sentence = "Keep the settings in use: nothing was found that is surely better. The best candidate, linger.ms 5 → 0."
    found = advice(option(better=False), sentence=sentence)
    assert advice_headline(found) == "Keep the settings in use: nothing was found that is surely better."
    assert advice_headline(advice(option(), option())).startswith("Choose between 2 sets of settings")


def test_the_picture_has_the_aim_then_the_price_and_leaves_out_what_did_not_change() -> None:
    found = advice_evidence(advice(option()))
    assert found is not None
    assert [(row.label, row.state) for row in found.rows] == [
        ("Produce latency p99", "best"),
        ("Broker CPU per GiB", "bad"),
        ("Produce latency p50", "best"),
    ]
    assert found.left_out == 1
    assert advice_evidence(advice(sentence="No answer.")) is None

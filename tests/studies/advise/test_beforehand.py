"""The first answer of `advise`, before anything is measured: what rules say, and what they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.studies.advise.beforehand import FirstAnswer, first_answers, lines_of
from highwater.studies.advise.space import Setting
from highwater.studies.commands.ceilings_sources import reference_for_this_host
from highwater.tuning.check import KnobReport, evaluate
from highwater.tuning.facts import collect
from tests.studies.advise.questions import QUESTION, write_question

BATCH = Setting("producers.client.batch.size", ("1KiB", "16KiB", "1MiB"), ordered=True)
SWAPPINESS = Setting("host.settings.vm.swappiness", (1, 60), ordered=True)


def rules() -> list[KnobReport]:
    return evaluate(collect())


def advise(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["advise", *map(str, words)])


def test_without_out_the_answer_says_that_nothing_was_measured_and_what_measures_it(tmp_path: Path) -> None:
    file = write_question(tmp_path)
    done = advise(file)
    assert done.exit_code == 0, done.output
    first, second, *rest = done.stdout.splitlines()
    assert first == "quick: not measured here. Rules answer 0 of 3 settings; a measurement of 15 min answers all"
    assert second == f"next: highwater advise {file} --out results/quick"
    assert "  producers.client.linger.ms: not known: no rule says what is best for produce.p99" in rest
    found = json.loads(advise(file, "--json").stdout)
    assert (found["measured"], len(found["settings"])) == (False, 3)


def test_a_setting_of_the_host_has_the_value_and_the_source_of_the_tuner() -> None:
    (found,) = first_answers([SWAPPINESS], ["produce.p99"], rules(), None)
    assert (found.value, found.source[:8]) == ("1", "https://")


def test_the_batch_is_answered_from_costs_if_the_aim_is_cpu_or_throughput() -> None:
    reference = reference_for_this_host()
    (found,) = first_answers([BATCH], ["system.cpu_s_per_gib"], [], reference)
    assert found.value == "1MiB"
    # Nothing below 4 KiB and above 64 KiB was measured.
    assert "in batches of 4 KiB" in found.why
    assert "in batches of 64 KiB; larger ones were not measured" in found.why
    assert "measured 20" in found.source
    for aims, known in ((["produce.p99"], reference), (["system.cpu_s_per_gib"], None)):
        assert first_answers([BATCH], aims, [], known)[0].value == ""


@pytest.mark.parametrize(
    ("values", "value"),
    [
        ((0, 16384, 65536), "65536"),
        (("16384", "65536"), "65536"),
        (("16KiB", "lots"), ""),
        # Both ends are alike as far as it was measured.
        (("1KiB", "2KiB"), ""),
        (("128KiB", "1MiB"), ""),
    ],
)
def test_a_batch_is_the_largest_of_those_that_were_measured(values: tuple[str | int, ...], value: str) -> None:
    setting = Setting(BATCH.key, values, ordered=True)
    (found,) = first_answers([setting], ["system.cpu_s_per_gib"], [], reference_for_this_host())
    assert found.value == value
    assert "larger ones were not measured" not in found.why


def test_what_the_tuner_would_change_is_counted_and_a_good_host_says_nothing() -> None:
    answers = [FirstAnswer("a", "1", "it is so", "https://example.org")]
    differing = [each for each in rules() if each.state == "differs" and not (each.obstacle or each.only_if_named)]
    told = list(lines_of("quick", answers, rules(), "COMMAND", "15 min"))
    assert "Rules answer 1 of 1 setting;" in told[0]
    assert told[2] == "  a: 1: it is so (https://example.org)"
    assert len(told) == 3 + (1 + min(3, len(differing)) if differing else 0)
    assert len(list(lines_of("quick", answers, [], "COMMAND", "15 min"))) == 3


def test_wrong_uses_are_one_line(tmp_path: Path) -> None:
    file = write_question(tmp_path)
    (tmp_path / "wrong").mkdir()
    wrong = write_question(tmp_path / "wrong", QUESTION.replace("linger.ms", "lingre.ms"))
    for words, said in [
        ((file, "--strict"), "--strict judges what was measured: name a directory for it with --out DIR"),
        ((tmp_path / "none.yaml",), f"{tmp_path / 'none.yaml'}: no such file"),
        ((wrong,), f"{wrong}:6: touch.producers.client.lingre.ms: "),
    ]:
        done = advise(*words)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith(f"error: {said}")
        assert done.stderr.count("\n") == 1

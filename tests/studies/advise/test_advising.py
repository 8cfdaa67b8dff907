"""From a question to its answer, with a stand-in for what runs trials."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from highwater.bench.trials.plan import Plan
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import load_specification
from highwater.common.errors import UsageError
from highwater.results.advice import CONFIRMATION, SEARCH, SETTINGS, Advice, read_advice
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult
from highwater.studies.advise.advising import Advising, MakeAgenda, advise, begin, make_advising, seed_of
from highwater.studies.advise.question import read_question
from highwater.studies.advise.writing import write_settings
from tests.studies.advise.questions import BASE, QUESTION, Runner, p99_of, write_question

# Each is a whole advice of some hundred trials in files.
slow = pytest.mark.slow


def advising_of(path: Path, seed: int = 7) -> Advising:
    return make_advising(read_question(path), seed)


def advised(folder: Path, runner: Runner, question: str = QUESTION, base: str = BASE) -> Advice:
    advising = advising_of(write_question(folder, question, base))
    begin(advising.asked, folder / "out", advising.seed)
    advice, manifest = advise(advising, folder / "out", runner)
    assert manifest.status == "done"
    assert advice is not None
    assert read_advice(folder / "out") == advice
    return advice


def test_better_settings_are_found_confirmed_and_written(tmp_path: Path) -> None:
    advice = advised(tmp_path, Runner())
    assert advice.outcome == "better"
    (option,) = advice.options
    settings = {item.key: item for item in option.settings}
    assert float(settings["producers.client.linger.ms"].advised) <= 1
    assert settings["producers.client.linger.ms"].in_use == "5"
    figure = next(figure for figure in option.figures if figure.is_aim)
    assert figure.against_in_use is not None
    assert figure.against_in_use.verdict == "better"
    assert figure.against_in_use.ci95 is not None
    assert figure.against_in_use.ci95[1] < 0.6
    assert figure.defaults is not None
    assert advice.sentence.startswith("Set linger.ms 5 → ")
    assert "instead of" in advice.sentence
    assert advice.would_change
    workload = load_specification(tmp_path / "out" / SETTINGS / "workload.yaml").workload
    assert str(workload.producers.client["linger.ms"]) == settings["producers.client.linger.ms"].advised
    client = (tmp_path / "out" / SETTINGS / "client.properties").read_text()
    assert f"linger.ms={settings['producers.client.linger.ms'].advised}" in client
    assert "acks=all" in client


def test_defaults_that_the_question_does_not_have_are_not_counted_as_candidates(tmp_path: Path) -> None:
    touch, _, rest = QUESTION.partition("  producers.client.linger.ms")
    values = "  producers.client.linger.ms: [1, 10, 20]\n"
    advice = advised(tmp_path, Runner(), touch + values + rest[rest.index("budget") :])
    assert (advice.search.candidates, advice.search.combinations) == (4, 4), "the values and that in use"


@slow
def test_what_each_change_was_worth_comes_from_trials_without_it(tmp_path: Path) -> None:
    advice = advised(tmp_path, Runner(), QUESTION.replace("15m", "20m"))
    (option,) = advice.options
    worth = {item.key: item.change.verdict for item in option.worth if item.change is not None}
    assert worth["producers.client.linger.ms"] == "worse", "without it, latency is worse"
    assert advice.notes[-1].startswith("Of the changes, worth most: linger.ms")
    if "system.config.num.io.threads" in worth:
        assert worth["system.config.num.io.threads"] == "no_change"
        assert any("not worth changing" in line and "num.io.threads" in line for line in advice.why)
    result = RunResult(tmp_path / "out" / CONFIRMATION)
    assert {"in-use", "defaults", "advised"} <= {str(trial.factors["variant"]) for trial in result.manifest.trials}


@slow
def test_a_change_without_which_the_load_is_not_carried_is_no_change_for_nothing(tmp_path: Path) -> None:
    """Each trial of the advised batches with the linger in use is invalid: there is no figure to compare."""

    class Needed(Runner):
        def __call__(self, plan: Plan, out: Path, resume: bool, make_agenda: MakeAgenda | None) -> Manifest:
            if make_agenda is None:
                self.invalid = lambda workload: linger_of(workload) == 5 and "batch.size" in workload.producers.client
            return super().__call__(plan, out, resume, make_agenda)

    advice = advised(tmp_path, Needed(), QUESTION.replace("15m", "20m"))
    (option,) = advice.options
    (worth,) = [item for item in option.worth if item.key == "producers.client.linger.ms"]
    assert (worth.change, worth.without.usable) == (None, 0)
    assert any(line.startswith("Without linger.ms: the load is not carried (0 of ") for line in advice.why)


@slow
def test_nothing_that_is_surely_better_is_an_answer(tmp_path: Path) -> None:
    advice = advised(tmp_path, Runner(lambda _: 2e6, noise=0.05))
    assert advice.outcome == "nothing_better"
    assert advice.sentence.startswith("Keep the settings in use: ")
    assert not (tmp_path / "out" / SETTINGS).exists()


@slow
def test_where_the_settings_in_use_are_the_best_nothing_is_claimed(tmp_path: Path) -> None:
    base = BASE.replace("linger.ms: 5", "linger.ms: 0, batch.size: 64KiB")
    advice = advised(tmp_path, Runner(), base=base)
    assert advice.outcome == "nothing_better"


@slow
def test_trials_that_are_not_valid_are_never_scored(tmp_path: Path) -> None:
    """No linger would be best, but no such trial is a valid measurement."""
    runner = Runner(invalid=lambda workload: str(workload.producers.client.get("linger.ms")) == "0")
    advice = advised(tmp_path, runner)
    assert advice.outcome == "better"
    chosen = {item.key: item.advised for item in advice.options[0].settings}
    assert chosen["producers.client.linger.ms"] != "0"


@slow
def test_without_a_valid_trial_there_is_no_answer(tmp_path: Path) -> None:
    advice = advised(tmp_path, Runner(invalid=lambda _: True))
    assert advice.outcome == "nothing_usable"
    assert advice.sentence.startswith("No answer")


@slow
@pytest.mark.parametrize("stop_after", [1, 20, 37, 75])
def test_an_advice_that_was_stopped_goes_on_to_the_same_answer(stop_after: int, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    at_once = advised(whole, Runner())
    advising = advising_of(write_question(parts))
    begin(advising.asked, parts / "out", advising.seed)
    advice, manifest = advise(advising, parts / "out", Runner(stop_after=stop_after))
    assert (advice, manifest.status) == (None, "interrupted")
    again = make_advising(advising.asked, seed_of(advising.asked, parts / "out"))
    advice, _ = advise(again, parts / "out", Runner())
    assert advice is not None
    assert (advice.sentence, advice.options) == (at_once.sentence, at_once.options)
    assert [trial.trial_id for trial in RunResult(parts / "out" / SEARCH).manifest.trials] == [
        trial.trial_id for trial in RunResult(whole / "out" / SEARCH).manifest.trials
    ]


def test_a_question_that_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    asked = read_question(write_question(tmp_path))
    begin(asked, tmp_path / "out", 3)
    assert seed_of(asked, tmp_path / "out") == 3
    other = read_question(write_question(tmp_path, QUESTION.replace("15m", "20m")))
    with pytest.raises(UsageError, match=r'--resume: .*out was begun with budget: "15m", and now it is "20m"'):
        seed_of(other, tmp_path / "out")
    other = read_question(write_question(tmp_path, base=BASE.replace("1k/s", "2k/s")))
    with pytest.raises(UsageError, match=r'begun with workload.load.rate: "1k/s", and now it is "2k/s"'):
        seed_of(other, tmp_path / "out")
    with pytest.raises(UsageError, match="holds no advice"):
        seed_of(asked, tmp_path / "nowhere")


@slow
def test_a_bound_that_no_candidate_keeps_is_said(tmp_path: Path) -> None:
    question = QUESTION + 'constraints: {produce.p999: "<1us"}\n'
    advice = advised(tmp_path, Runner(), question)
    assert advice.outcome == "nothing_better"
    assert advice.sentence.startswith("No candidate met the bounds")


@slow
def test_a_bound_that_is_broken_now_and_kept_by_the_advice_is_a_reason(tmp_path: Path) -> None:
    question = QUESTION.replace("least: produce.p99", "least: system.cpu_s_per_gib")
    question += 'constraints: {produce.p99: "<4ms"}\n'
    advice = advised(tmp_path, Runner(), question)
    assert advice.outcome == "better"
    assert re.search(r"< 4 ms is kept \([\d.]+ ms\), which is broken now \([\d.]+ ms\); ", advice.sentence)
    assert p99_of(load_specification(tmp_path / "out" / SETTINGS / "workload.yaml").workload) < 4e6


@slow
def test_what_gets_worse_without_a_bound_is_said_and_the_largest_change_first(tmp_path: Path) -> None:
    """Less lingering, which the aim wants, costs three times the CPU and 1.5 times the memory of the broker."""

    def dearer(made: TrialSummary, workload: Workload) -> TrialSummary:
        more = linger_of(workload) < 5
        use = {"system_cpu_ratio": 0.9 if more else 0.3, "system_rss_bytes": 150_000_000 if more else 100_000_000}
        return made.model_copy(update={"host": made.host.model_copy(update=use)})

    advice = advised(tmp_path, Runner(change=dearer))
    assert advice.outcome == "better"
    assert re.match(
        r"The price of advised, which the question does not bound: Broker CPU per GiB .* instead of .*, "
        r"Broker memory 143 MiB instead of 95.4 MiB\.$",
        advice.notes[0],
    )


def linger_of(workload: Workload) -> float:
    """The default of librdkafka is 5 ms."""
    return float(workload.producers.client.get("linger.ms", 5))


@slow
def test_defaults_that_nothing_beats_are_the_answer(tmp_path: Path) -> None:
    """A value far from the default is in use, and costs; nothing else matters."""
    base = BASE.replace("linger.ms: 5", "linger.ms: 30")
    advice = advised(tmp_path, Runner(lambda workload: 2e6 if linger_of(workload) <= 5 else 9e6), base=base)
    assert advice.outcome == "better"
    assert advice.sentence.startswith("Go back to the defaults, linger.ms 30 → default: ")
    assert [(option.name, option.better) for option in advice.options] == [("defaults", True), ("advised", False)]
    assert advice.why[0].startswith("The best candidate is not surely better than the defaults: ")
    assert advice.would_change[0].startswith(
        "More time: the best candidate cannot be distinguished from the defaults with "
    )
    client = (tmp_path / "out" / SETTINGS / "client.properties").read_text()
    assert "linger.ms=" not in client
    assert "# Remove what is set now, as the default is advised: linger.ms\n" in client


@slow
def test_settings_that_carry_a_load_which_those_in_use_do_not_are_the_answer(tmp_path: Path) -> None:
    """Trials of the settings in use are not valid, so that there is no figure to compare with."""
    base = BASE.replace("linger.ms: 5", "linger.ms: 30")
    advice = advised(tmp_path, Runner(invalid=lambda workload: linger_of(workload) == 30), base=base)
    assert advice.outcome == "better"
    assert re.match(r"Set linger.ms 30 → [01], ", advice.sentence)
    assert re.search(
        r"the load is carried \((\d+) of \1 trials usable\), which it is not now \(0 of ",
        advice.sentence,
    )
    assert "instead of" not in advice.sentence
    assert any(line.startswith("Of the settings in use: 0 of ") for line in advice.why)


@slow
def test_figures_of_the_few_valid_trials_of_a_load_that_is_not_carried_are_not_advised(tmp_path: Path) -> None:
    """Without linger latency is best in the search; nearly no fresh trial of it is valid."""

    class Tired(Runner):
        def __call__(self, plan: Plan, out: Path, resume: bool, make_agenda: MakeAgenda | None) -> Manifest:
            if make_agenda is None:
                self.invalid = lambda workload: linger_of(workload) < 5 and self.trials % 5 > 0
            return super().__call__(plan, out, resume, make_agenda)

    advice = advised(tmp_path, Tired())
    assert advice.outcome == "nothing_better"
    assert "the load is not carried (" in advice.sentence


@slow
def test_defaults_that_weaken_durability_are_measured_and_not_advised(tmp_path: Path) -> None:
    question = QUESTION.replace("  system.config", "  topics.config.flush.ms: [100, 1000]\n  system.config")
    base = BASE.replace("{partitions: 2}", "{partitions: 2, config: {flush.ms: 1000}}")
    runner = Runner(lambda workload: 3e6 if "flush.ms" in workload.topics.config else 1e6)
    advice = advised(tmp_path, runner, question, base)
    assert all(
        item.advised != "default" for option in advice.options for item in option.settings if "flush" in item.key
    )
    assert any(line.startswith("The defaults are not advised: flush.ms by default weakens") for line in advice.why)


@slow
def test_two_aims_have_a_front(tmp_path: Path) -> None:
    question = QUESTION.replace("{least: produce.p99}", "[{least: produce.p99}, {least: system.rss_bytes}]")
    advice = advised(tmp_path, Runner(), question.replace("15m", "20m"))
    assert 1 <= len(advice.options) <= 3
    assert all(sum(figure.is_aim for figure in option.figures) == 2 for option in advice.options)


def test_a_budget_that_is_too_small_says_what_would_do(tmp_path: Path) -> None:
    path = write_question(tmp_path, QUESTION.replace("15m", "2m"))
    with pytest.raises(UsageError, match=r"question.yaml:9: budget: 2 min is too little to decide: .* give \d+m"):
        advising_of(path)


def test_files_say_what_is_to_be_removed(tmp_path: Path) -> None:
    """A file of properties is laid over what a broker or a client has: it cannot remove a key."""
    base = BASE + "system: {config: {num.io.threads: 8}}\n"
    asked = read_question(write_question(tmp_path, base=base))
    files = {path.name: path.read_text() for path in write_settings(asked, (None, None, None), tmp_path / "settings")}
    removal = "# Remove what is set now, as the default is advised: "
    assert f"{removal}num.io.threads\n" in files["server.properties"]
    assert f"{removal}broker_properties.num.io.threads\n" in files["group_vars.yml"]
    assert f"{removal}linger.ms\n" in files["client.properties"]
    assert yaml.safe_load(files["group_vars.yml"]) is None


def test_files_say_that_a_profile_and_processes_are_to_be_taken_back(tmp_path: Path) -> None:
    question = QUESTION.replace(
        "  system.config.num.io.threads: [1, 2, 4]", "  host.profile: [none, recommended]\n  system.processes: [1, 2]"
    )
    question += "durability: {power_loss: may_lose}\n"
    base = BASE + "system: {processes: 2}\nhost: {profile: recommended}\n"
    asked = read_question(write_question(tmp_path, question, base))
    candidate = (0, "64KiB", "none", None)
    files = {path.name: path.read_text() for path in write_settings(asked, candidate, tmp_path / "settings")}
    take_back = "# Take back the profile recommended, as none is advised: highwater tune rollback\n"
    assert files["tune-profile.yaml"] == take_back
    assert "default is advised: broker_processes, tuning_profile\n" in files["group_vars.yml"]


def test_files_for_brokers_topics_hosts_and_playbooks(tmp_path: Path) -> None:
    question = QUESTION.replace(
        "  system.config.num.io.threads: [1, 2, 4]",
        "  system.config.num.io.threads: [1, 2]\n  topics.config.segment.bytes: [1048576, 16777216]\n"
        "  consumers.client.fetch.min.bytes: [1, 1000]\n  host.profile: [none, recommended]",
    )
    asked = read_question(write_question(tmp_path, question))
    candidate = (0, "64KiB", 2, 1048576, 1000, "recommended")
    files = {path.name: path.read_text() for path in write_settings(asked, candidate, tmp_path / "settings")}
    assert "num.io.threads=2" in files["server.properties"]
    assert "segment.bytes=1048576" in files["topic.properties"]
    assert "fetch.min.bytes=1000" in files["consumer.properties"]
    assert "batch.size=65536" in files["client.properties"]
    assert yaml.safe_load(files["group_vars.yml"]) == {
        "broker_properties": {"num.io.threads": "2"},
        "tuning_profile": "recommended",
    }
    assert yaml.safe_load(files["tune-profile.yaml"]) == {"host": {"profile": "recommended"}}
    assert load_specification(tmp_path / "settings" / "workload.yaml").workload == asked.workload_of(
        candidate
    ).model_copy(update={"name": "quick"})

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from highwater.studies.advise.question import read_question
from tests.studies.advise.questions import BASE, QUESTION, write_question


def test_a_question_and_its_references(tmp_path: Path) -> None:
    asked = read_question(write_question(tmp_path))
    assert asked.space.keys == (
        "producers.client.linger.ms",
        "producers.client.batch.size",
        "system.config.num.io.threads",
    )
    assert asked.in_use == (5, None, None), "the workload file has what is in use"
    assert asked.references == [(5, None, None), (None, None, None)]
    assert asked.metrics == ["produce.p99"]
    workload = asked.workload_of((0, "64KiB", 2))
    assert workload.producers.client == {"acks": "all", "linger.ms": 0, "batch.size": "64KiB"}
    assert asked.allows((0, "64KiB", 2))


def test_values_in_use_are_laid_over_the_workload(tmp_path: Path) -> None:
    text = QUESTION + "in_use: {producers.client.linger.ms: 7, producers.client.compression.type: lz4}\n"
    asked = read_question(write_question(tmp_path, text))
    assert asked.in_use == (7, None, None)
    assert 7 in asked.space.settings[0].values
    assert asked.workload_of(asked.in_use).producers.client["compression.type"] == "lz4"


def test_the_question_s_bounds_are_those_of_the_workload_too(tmp_path: Path) -> None:
    text = QUESTION + 'constraints: {system.rss_bytes: "<400MiB"}\n'
    asked = read_question(write_question(tmp_path, text, BASE + 'slo: {errors: "==0"}\n'))
    assert set(asked.bounds) == {"errors", "system.rss_bytes"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("produce.p99}", "produce.p98}"), r"question.yaml:4: objective\[0\]\.least: .*produce\.p9"),
        (("least: produce.p99", "least: txn.commit.p99"), r":4: objective: .* needs producers.transactions"),
        (("least: produce.p99", "most: produce.p99"), r"question.yaml:4: .*is better if it is lower; write least"),
        (("least: produce.p99", "least: host.disk_util_ratio"), r"question.yaml:4: .*cannot be an aim"),
        (("least: produce.p99", "most: produce.achieved_per_s"), r"question.yaml:4: .* is what an open load offers"),
        (("{least: produce.p99}", "{}"), r"question.yaml:4: .*needs either least: METRIC or most: METRIC"),
        (("linger.ms: {", "lingre.ms: {"), r"question.yaml:6: touch.producers.client.lingre.ms: .*linger.ms"),
        (("producers.client.linger.ms: {", "load.rate: {"), r":6: touch: load.rate belongs to the question"),
        (("producers.client.linger.ms: {", "producer.client.linger.ms: {"), r":6: touch: .* is not a setting"),
        (("[1, 2, 4]", "[]"), r"question.yaml:8: touch.system.config.num.io.threads: \[\] is neither a list"),
        (("[1, 2, 4]", "{from: 4, to: 1}"), r"question.yaml:8: .*from must be below to"),
        (("[1, 2, 4]", "{from: 4}"), r"question.yaml:8: .*to is missing"),
        (("[16KiB, 64KiB, 256KiB, 1MiB]", "[16, 64]"), r"question.yaml:7: touch.producers.client.batch.size: .*unit"),
        (("budget: 15m", "budget: 15"), r"question.yaml:9: budget: .*duration"),
        (("budget: 15m", "budgte: 15m"), r"question.yaml:9: budgte: unknown key; did you mean \"budget\"\?"),
        (("workload: base.yaml", "workload: none.yaml"), r"none.yaml: no such file"),
        (("budget: 15m", 'constraints: {produce.p98: "<1ms"}\nbudget: 15m'), r":9: constraints.produce.p98"),
        (("budget: 15m", 'constraints: {produce.p99: "<1ms"}\nbudget: 15m'), r"is an aim and a constraint"),
        (("budget: 15m", 'constraints: {e2e.p50: "<1MiB"}\nbudget: 15m'), r":9: constraints.e2e.p50: .*unit"),
    ],
)  # fmt: skip
def test_one_line_names_what_is_wrong(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert change[0] in QUESTION
    with pytest.raises(UsageError, match=message) as error:
        read_question(write_question(tmp_path, QUESTION.replace(*change)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("touched", "message"),
    [
        ('producers.client.acks: ["1", all]', r"touch.producers.client.acks: 1 weakens durability: .*kill: may_lose"),
        (
            "topics.config.flush.messages: [10, 100]",
            r"touch.topics.config.flush.messages: 10, 100 weakens durability: .*power_loss: may_lose",
        ),
        ("system.config.unclean.leader.election.enable: [false, true]", r"election.enable: true weakens durability"),
    ],
)
def test_durability_is_not_traded_unless_the_loss_is_accepted(touched: str, message: str, tmp_path: Path) -> None:
    base = BASE.replace("topics: {partitions: 2}", "topics: {partitions: 2, config: {flush.messages: 1}}")
    text = QUESTION.replace("  system.config.num.io.threads: [1, 2, 4]", f"  {touched}")
    with pytest.raises(UsageError, match=message):
        read_question(write_question(tmp_path, text, base))
    accepting = text + "durability: {kill: may_lose, power_loss: may_lose}\n"
    read_question(write_question(tmp_path, accepting, base))


def test_a_demand_that_no_value_satisfies_is_a_contradiction(tmp_path: Path) -> None:
    text = QUESTION + "durability: {power_loss: kept}\n"
    with pytest.raises(UsageError, match=r"question.yaml:10: durability.power_loss: kept needs flush.messages=1"):
        read_question(write_question(tmp_path, text))
    touched = text.replace("  system.config.num.io.threads: [1, 2, 4]", "  topics.config.flush.messages: [1]")
    with pytest.raises(UsageError, match=r"has one value"):
        read_question(write_question(tmp_path, touched, BASE.replace("2}", "2, config: {flush.messages: 1}}", 1)))
    kept = read_question(write_question(tmp_path, text, BASE.replace("2}", "2, config: {flush.messages: 1}}", 1)))
    assert kept.allows((0, "64KiB", 1))


def test_only_candidates_that_keep_what_is_demanded_are_allowed(tmp_path: Path) -> None:
    text = QUESTION.replace("  system.config.num.io.threads: [1, 2, 4]", "  topics.config.flush.messages: [1, 100]")
    asked = read_question(write_question(tmp_path, text + "durability: {power_loss: kept}\n"))
    assert asked.allows((0, "64KiB", 1))
    assert not asked.allows((0, "64KiB", 100))


def test_defaults_that_are_weaker_than_what_is_in_use_are_not_allowed_unasked(tmp_path: Path) -> None:
    """`touch` has no value to refuse: a candidate of the defaults does not set what is set now."""
    text = QUESTION.replace("  system.config.num.io.threads: [1, 2, 4]", "  topics.config.flush.ms: [100, 1000]")
    base = BASE.replace("2}", "2, config: {flush.ms: 1000}}", 1)
    asked = read_question(write_question(tmp_path, text, base))
    defaults = asked.references[1]
    assert [trade.key for trade in asked.weakened_by_defaults(defaults)] == ["topics.config.flush.ms"]
    assert not asked.allows(defaults)
    accepting = read_question(write_question(tmp_path, text + "durability: {power_loss: may_lose}\n", base))
    assert accepting.allows(defaults)


def test_a_workload_with_cells_of_its_own_is_refused(tmp_path: Path) -> None:
    base = BASE + "matrix: {topics.partitions: [1, 2]}\n"
    with pytest.raises(UsageError, match=r"base.yaml:9: matrix: a question has cells of its own"):
        read_question(write_question(tmp_path, base=base))


def test_the_settings_of_a_system_that_has_none_are_refused(tmp_path: Path) -> None:
    base = BASE + "system: {kind: external, bootstrap_servers: 'localhost:9092'}\n"
    with pytest.raises(
        UsageError, match=r"question.yaml:8: touch.system.config.num.io.threads: cannot be applied to an external"
    ):
        read_question(write_question(tmp_path, base=base))


def test_throughput_under_a_bound_is_asked_of_a_closed_loop(tmp_path: Path) -> None:
    text = QUESTION.replace("least: produce.p99", "most: produce.achieved_per_s")
    text += 'constraints: {produce.p99: "<50ms"}\n'
    asked = read_question(write_question(tmp_path, text, BASE.replace("rate: 1k/s", "model: closed")))
    assert asked.metrics == ["produce.achieved_per_s"]
    assert list(asked.bounds) == ["produce.p99"]

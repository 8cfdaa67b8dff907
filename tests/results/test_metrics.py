from __future__ import annotations

import inspect
import re
from typing import get_args

import pytest
from pydantic import BaseModel

from highwater.common.errors import UsageError
from highwater.results import metrics
from highwater.results.metrics import METRICS, metric, values_of
from highwater.results.models import Backlog, SteadyState, Transactions, TrialSummary
from tests.bench.summaries import summary


def test_every_name_tells_its_unit_or_has_one_in_the_table() -> None:
    assert {definition.unit for definition in METRICS.values()} == {
        "per_s", "bytes_per_s", "ns", "s", "bytes", "ratio", "records", "s_per_gib",
    }  # fmt: skip
    for name, definition in METRICS.items():
        assert definition.name == name
        assert definition.better in ("lower", "higher", "none")


def test_each_path_leads_to_a_field_of_a_summary() -> None:
    paths = re.findall(r'\bat\("([a-z_0-9.]+)"\)', inspect.getsource(metrics))
    assert len(paths) > 30
    for path in paths:
        model: type[BaseModel] | None = TrialSummary
        for name in path.split("."):
            assert model is not None, path
            annotation = model.model_fields[name].annotation
            kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
            model = next((kind for kind in kinds if issubclass(kind, BaseModel)), None)


def test_what_can_be_the_best_has_a_title_in_words() -> None:
    assert [name for name, item in METRICS.items() if item.better != "none" and not item.title] == []


def test_figures_are_read_off_a_summary_in_its_units() -> None:
    found = values_of(summary(1, p99_ns=3_000_000, achieved_per_s=1 << 20, system_cpu_ratio=0.5))
    assert found["produce.achieved_per_s"] == 1 << 20
    assert found["produce.p99"] == found["e2e.p99"] == 3e6
    # 1 GiB/s in and as much out, for half a core.
    assert found["system.cpu_s_per_gib"] == pytest.approx(0.25)
    assert found["errors"] == 0.0


def test_what_a_trial_does_not_have_is_missing_and_not_zero() -> None:
    bare = summary(1, system_cpu_ratio=None).model_copy(update={"e2e": None})
    bare = bare.model_copy(update={"generator": bare.generator.model_copy(update={"consumers": 0})})
    found = values_of(bare)
    assert not {"e2e.p99", "consume.per_s", "txn.commit.p99", "steady.at_s", "system.cpu_ratio"} & set(found)
    assert METRICS["lag.max"].read(bare) is None


def test_fates_of_records_are_known_when_somebody_looked() -> None:
    seen = summary(1)
    seen = seen.model_copy(update={"delivery": seen.delivery.model_copy(update={"duplicated": 3})})
    found = values_of(seen)
    assert (found["delivery.lost"], found["delivery.duplicated"]) == (0.0, 3.0)
    blind = seen.model_copy(update={"delivery": seen.delivery.model_copy(update={"checked": False})})
    assert not [name for name in values_of(blind) if name.startswith("delivery.")]


def test_figures_of_loads_that_are_not_plain() -> None:
    plain = summary(1)
    commit_ns = plain.produce.response_ns
    found = values_of(
        plain.model_copy(
            update={
                "transactions": Transactions(committed=9, aborted=1, commit_ns=commit_ns),
                "steady": SteadyState(attained=True, at_s=12.0, slope_ratio=0.001, window_s=5),
                "backlog": Backlog(bytes=1, built_at_s=1.0, caught_up_at_s=2.0, drain_bytes_per_s=7.0),
                "lag_max": 3,
                "offered_per_s": None,
            }
        )
    )
    assert (found["txn.commit.p99"], found["steady.at_s"], found["backlog.drain_bytes_per_s"]) == (
        commit_ns.p99,
        12.0,
        7.0,
    )
    assert found["lag.max"] == 3
    assert "produce.offered_per_s" not in found


def test_a_name_that_is_not_known() -> None:
    assert metric("produce.p99.9") is METRICS["produce.p999"]
    assert metric("e2e.p99.99") is METRICS["e2e.p9999"]
    with pytest.raises(
        UsageError, match=r'^produce\.p98 is not a metric; did you mean "produce\.p99"\? `highwater bench m'
    ):
        metric("produce.p98")
    with pytest.raises(UsageError, match=r"^nope is not a metric; `highwater bench metrics` lists them all$"):
        metric("nope")

"""The catalogue agrees with itself."""

from __future__ import annotations

import pytest

from tuning.catalogue import KNOBS, find_knob, select_knobs
from tuning.change import CHANGEABLE
from tuning.check import sysctl_path
from tuning.errors import TuningError
from tuning.model import Knob


def test_ids_are_unique() -> None:
    assert len({knob.id for knob in KNOBS}) == len(KNOBS) >= 10


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.id)
def test_a_knob_is_whole(knob: Knob) -> None:
    assert knob.sources
    assert knob.authorities
    assert all(source.url.startswith("https://") for source in knob.sources)
    for text in (knob.title, knob.reason, knob.detail, knob.risk_text, knob.capability):
        assert text
        assert "\n" not in text
    if knob.mechanism == "sysctl":
        assert knob.path == sysctl_path(knob.id)
        assert knob.persistence == "sysctl.d"
    else:
        assert knob.field is None
        assert knob.twin is None
    assert ("{target}" in knob.path) == (knob.scope in ("disk", "unit"))


def test_a_ceiling_comes_before_what_it_bounds() -> None:
    order = [knob.id for knob in KNOBS]
    assert order.index("fs.nr_open") < order.index("unit.limit_nofile")
    assert order.index("vm.dirty_background_bytes") < order.index("vm.dirty_bytes")


def test_every_sysctl_and_the_file_limit_can_be_changed() -> None:
    assert set(CHANGEABLE) == {knob.id for knob in KNOBS if knob.mechanism == "sysctl"} | {"unit.limit_nofile"}


def test_an_unknown_knob_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(TuningError, match=r"unknown knob 'vm\.swapiness'; did you mean vm\.swappiness\?"):
        find_knob("vm.swapiness")


def test_selection_keeps_the_order_of_the_catalogue_and_takes_skips_away() -> None:
    chosen = select_knobs(["unit.limit_nofile", "fs.nr_open", "vm.swappiness"], ["vm.swappiness"])
    assert [knob.id for knob in chosen] == ["fs.nr_open", "unit.limit_nofile"]
    assert select_knobs(["all"]) == KNOBS
    assert select_knobs([]) == ()
    with pytest.raises(TuningError, match="unknown knob 'nonsense'"):
        select_knobs(["all"], ["nonsense"])

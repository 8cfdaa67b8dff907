"""Variables of the environment are as before after the with statement, whatever happened in it."""

from __future__ import annotations

import os

import pytest

from highwater.common.environment_variables import environment_variables


def raise_inside() -> None:
    with environment_variables({"HW_TEST_KEPT": "now", "HW_TEST_NEW": "new"}):
        assert (os.environ["HW_TEST_KEPT"], os.environ["HW_TEST_NEW"]) == ("now", "new")
        raise RuntimeError


def test_variables_are_set_and_put_back_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HW_TEST_KEPT", "before")
    monkeypatch.delenv("HW_TEST_NEW", raising=False)
    with pytest.raises(RuntimeError):
        raise_inside()
    assert os.environ["HW_TEST_KEPT"] == "before"
    assert "HW_TEST_NEW" not in os.environ


def test_a_variable_that_was_removed_meanwhile_stays_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HW_TEST_NEW", raising=False)
    with environment_variables({"HW_TEST_NEW": "new"}):
        del os.environ["HW_TEST_NEW"]
    assert "HW_TEST_NEW" not in os.environ

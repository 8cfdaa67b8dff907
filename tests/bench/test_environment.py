"""What a run writes down of its host."""

from __future__ import annotations

import pytest

from highwater.bench import environment


def test_a_host_whose_load_is_of_plain_processes_needs_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda _: None)
    found = environment.versions({})
    assert "pyspark" not in found
    assert "numpy" in found

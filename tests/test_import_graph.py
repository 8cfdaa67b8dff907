"""The graph that the test of circles stands on."""

from __future__ import annotations

from pathlib import Path

from tests.import_graph import circles, import_graph


def test_a_circle_is_every_file_that_reaches_itself() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f", "e"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["f", "g"]]


def test_an_import_leads_to_the_file_that_defines_the_name(tmp_path: Path) -> None:
    texts = {
        "bench/__init__.py": "from highwater.bench.inner import NAME as RENAMED\nOWN = 1\n",
        "bench/inner.py": "import json\nNAME = 1\n",
        "bench/of_a_package.py": "from highwater.bench import OWN, RENAMED\n",
        "bench/whole.py": "import highwater.bench.inner\n",
        "bench/annotated.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from highwater.bench.inner import NAME\n"
        ),
        "bench/late.py": "def f():\n    from highwater.bench import inner\n",
        "tuning/model.py": "",
        "tuning/facts/disks.py": "from ..model import Knob\nfrom . import reading\n",
        "tuning/facts/reading.py": "",
        "playbooks/module_utils/disks/__init__.py": "from .device import Device\n",
        "playbooks/module_utils/disks/device.py": "from ansible.module_utils.highwater.tuning.model import Knob\n",
        "playbooks/library/storage.py": "from ansible.module_utils.disks import Device\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (tmp_path / "highwater").mkdir()
    (tmp_path / "highwater/bench").symlink_to("../bench")
    assert import_graph(tmp_path) == {
        "bench": {"bench.inner"},
        "bench.inner": set(),
        "bench.of_a_package": {"bench", "bench.inner"},
        "bench.whole": {"bench.inner"},
        "bench.annotated": {"bench.inner"},
        "bench.late": {"bench.inner"},
        "tuning.model": set(),
        "tuning.facts.disks": {"tuning.model", "tuning.facts.reading"},
        "tuning.facts.reading": set(),
        "playbooks.module_utils.disks": {"playbooks.module_utils.disks.device"},
        "playbooks.module_utils.disks.device": {"tuning.model"},
        "playbooks.library.storage": {"playbooks.module_utils.disks.device"},
    }

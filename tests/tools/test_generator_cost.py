from __future__ import annotations

from tools.generator_cost import GeneratorCost, report_text


def test_the_report_compares_cpu_by_pairs() -> None:
    pairs = [(GeneratorCost(1_000_000.0, 800.0 + n), GeneratorCost(900_000.0, 1000.0 + n)) for n in range(5)]
    text = report_text(
        {100: pairs},
        {(100, 4000): [GeneratorCost(4000.0, 20_000.0), GeneratorCost(4000.0, 30_000.0)]},
        "Measured here.",
    )
    assert "| 100B | 1,247k | 998k | 0.80 (0.80–0.80) | 1,000k/s | 900k/s | 5 |" in text
    assert "| 100B | 4k/s | 25.0 | 20.0–30.0 | 2 |" in text
    assert "Measured here. All of it again:\n\n```\npython -m tools.generator_cost" in text

from __future__ import annotations

from highwater.bench.display.wrapping import wrapped


def test_a_number_stays_with_its_unit() -> None:
    text = "head is 80 % lower (95 % interval 76.8 to 83.8 %) than 3.48 ms at produce.p99"
    for width in range(20, 80):
        lines = wrapped(text, width).splitlines()
        assert " ".join(lines) == text
        assert max(map(len, lines)) <= width
        assert not any(line.startswith(("%", "ms")) for line in lines)


def test_a_long_word_is_not_cut() -> None:
    assert wrapped("see /var/lib/highwater/results/first for it", 10).splitlines() == [
        "see",
        "/var/lib/highwater/results/first",
        "for it",
    ]

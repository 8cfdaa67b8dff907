"""An overlay is what a dict with the same content would be, and leaves what it is over as it is."""

from __future__ import annotations

from collections.abc import MutableMapping
from random import Random

import pytest

from highwater.broker.group.consumer.overlay import Overlay


def change(mapping: MutableMapping[int, int], rng: Random) -> str:
    """What one random change answers."""
    key, value = rng.randrange(8), rng.randrange(3)
    try:
        match rng.randrange(5):
            case 0 | 1:
                mapping[key] = value
            case 2:
                del mapping[key]
            case 3:
                return str(mapping.pop(key, None))
            case 4:
                return str(mapping.setdefault(key, value))
    except KeyError:
        return "no such key"
    return ""


@pytest.mark.parametrize("seed", range(50))
def test_it_does_as_a_dict_does(seed: int) -> None:
    below = {key: key for key in Random(seed).sample(range(8), 4)}
    before = dict(below)
    overlay, like = Overlay(below), dict(below)
    for step in range(60):
        assert change(overlay, Random(f"{seed} {step}")) == change(like, Random(f"{seed} {step}"))
        assert [*overlay.items()] == [*like.items()]
        assert (len(overlay), bool(overlay)) == (len(like), bool(like))
        assert [overlay.get(key) for key in range(8)] == [like.get(key) for key in range(8)]
    assert [*below.items()] == [*before.items()]

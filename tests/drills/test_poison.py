"""A slice of the poison for every decoder; a longer run is in `make drills`."""

from __future__ import annotations

import pytest

from tests.drills.poison.decoders import DECODERS, decoder_of
from tests.drills.poison.drill import Decoder, drill


def test_an_input_is_the_same_each_time_and_a_failure_names_it() -> None:
    def read(data: bytes) -> None:
        if b"\xff" in data:
            raise RecursionError("deep")

    def decoder(*allowed: type[Exception]) -> Decoder:
        return Decoder("sample", read, (b"abc" * 20,), lambda rng: rng.randbytes(4), allowed)

    inputs = [decoder().input_of(7, number) for number in range(100)]
    assert inputs == [decoder().input_of(7, number) for number in range(100)]
    assert len(set(inputs)) > 50
    found = drill(decoder(), 7, 0, 100)
    assert found.inputs == 100
    assert len(found.failures) == sum(b"\xff" in each for each in inputs) > 0
    number = next(number for number, each in enumerate(inputs) if b"\xff" in each)
    assert found.failures[0].startswith(f"input {number} (")
    assert "RecursionError: deep (" in found.failures[0]
    assert drill(decoder(RecursionError), 7, 0, 100).failures == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_poison_is_a_value_or_one_error(name: str) -> None:
    found = drill(decoder_of(name), seed=1, first=0, count=60 if name == "protobuf-schema" else 300)
    assert found.failures == []
    assert found.inputs > found.refused

"""A slice of the drill of one hostile request beside another client; all of it is `make drills`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, Api
from highwater.kafka.protocol.primitives import Decoder
from tests.drills.bystander.drill import drill
from tests.drills.bystander.shapes import shapes

COLD = sorted((api for api in APIS.values() if api.name not in ("produce", "api_versions")), key=lambda api: api.name)


@pytest.mark.parametrize("api", COLD, ids=lambda api: api.name)
def test_the_smallest_shapes_are_requests_of_the_api(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.drills.bystander.shapes.MOST_BYTES", 20_000)
    monkeypatch.setattr("tests.drills.bystander.shapes.LONGEST_STRING", 20_000)
    for version in range(api.served_from, api.max_version + 1):
        for shape in shapes(api._replace(items_max=700), version) if api.serves(version) else ():
            decoder = Decoder(memoryview(shape.body()), flexible=api.is_flexible(version))
            cold.decode_request(api.name, version, decoder)
            assert decoder.remaining == 0, (version, shape.label)


@pytest.mark.slow
def test_requests_that_unfold_are_answered_beside_a_client(tmp_path: Path) -> None:
    """The drill raises if the broker ends, hangs or has a bug; how long the client waits depends on the host."""
    result = drill(tmp_path, wanted="of 500,000 records, zstd", bound_ms=math.inf)
    assert {stall.ended for stall in result.stalls} == {"answered"}
    assert len(result.stalls) > 10

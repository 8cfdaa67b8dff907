"""UpdateFeatures through the dispatcher, with features that only these tests have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.features import SERVED, Range
from highwater.broker.log.files import RealFiles
from tests.broker.handlers.harness import NodeHarness, versions

SUPPORTED = {"colour": Range(0, 2), "shape": Range(0, 1)}
_REFUSED = "The update failed for all features since the following feature had an error: Invalid update version "


@pytest.fixture
def node(node: NodeHarness, tmp_path: Path) -> NodeHarness:
    """A broker of which the features began at level 0."""
    (tmp_path / "store").mkdir()
    store = EmbeddedMetadataStore(RealFiles(), tmp_path / "store", "c", SUPPORTED)
    store.begin_epoch(latest_leader_epoch=0)
    node.replace(features=store.features, feature_store=store)
    return node


def update(
    node: NodeHarness, levels: Mapping[str, int], version: int = 2, *, validate_only: bool = False, kind: int = 1
) -> Any:
    """`kind` is the type of the upgrade; v0 says only whether a downgrade is allowed."""
    how = {"allow_downgrade": kind > 1} if version == 0 else {"upgrade_type": kind}
    updates = [{"feature": name, "max_version_level": level, **how} for name, level in levels.items()]
    fields = {} if version == 0 else {"validate_only": validate_only}
    return node.ask("update_features", version, timeout=1000, feature_updates=updates, **fields)


@pytest.mark.parametrize("version", versions("update_features"))
def test_levels_go_up_and_down_under_a_growing_epoch(node: NodeHarness, version: int) -> None:
    epoch = node.clock.now_ms() // 1000
    answer = update(node, {"colour": 2, "shape": 1}, version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    if version < 2:
        assert [(each.feature, each.error_code) for each in answer.results] == [
            ("colour", ErrorCode.none),
            ("shape", ErrorCode.none),
        ]
    assert node.node.features.finalised == (epoch, {"colour": 2, "shape": 1})
    assert update(node, {"colour": 1}, version, kind=2).error_code == ErrorCode.none
    assert update(node, {"shape": 0}, version, kind=3).error_code == ErrorCode.none
    assert node.node.features.finalised == (epoch + 2, {"colour": 1})
    told = node.ask("api_versions", 4, client_software_name="a", client_software_version="1")
    assert told.finalized_features_epoch == epoch + 2


def test_the_same_levels_again_are_no_change(node: NodeHarness) -> None:
    update(node, {"colour": 1})
    before = node.node.features.finalised
    for kind in (1, 2, 3):
        assert update(node, {"colour": 1, "shape": 0}, kind=kind).error_code == ErrorCode.none
    assert update(node, {}).error_code == ErrorCode.none
    assert node.node.features.finalised is before


@pytest.mark.parametrize("version", [1, 2])
def test_a_request_that_validates_changes_nothing(node: NodeHarness, version: int) -> None:
    assert update(node, {"colour": 2}, version, validate_only=True).error_code == ErrorCode.none
    assert update(node, {"colour": 3}, version, validate_only=True).error_code == ErrorCode.invalid_update_version
    assert node.node.features.level("colour") == 0


@pytest.mark.parametrize(
    ("levels", "kind", "why"),
    [
        ({"colour": 3}, 1, "3 for feature colour. This broker only supports versions 0-2."),
        ({"colour": -1}, 1, "-1 for feature colour. A feature version cannot be less than 0."),
        ({"colour": 0}, 1, "0 for feature colour. Can't downgrade the version of this feature without setting the"),
        ({"colour": 2}, 2, "2 for feature colour. Can't downgrade to a newer version."),
        ({"colour": 0}, 0, "0 for feature colour. The controller does not support the given upgrade type."),
        ({"colour": 0}, 4, "0 for feature colour. The controller does not support the given upgrade type."),
        ({"smell": 1}, 1, "1 for feature smell. This broker does not support this feature."),
        ({"smell": 0}, 2, "0 for feature smell. This broker does not support this feature."),
        ({"metadata.version": 20}, 1, "20 for feature metadata.version. The metadata of this cluster is kept by Zoo"),
        ({"kraft.version": 0}, 3, "0 for feature kraft.version. The metadata of this cluster is kept by ZooKeeper"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_one_refused_update_refuses_all(
    node: NodeHarness, version: int, levels: dict[str, int], kind: int, why: str
) -> None:
    update(node, {"colour": 1})
    before = node.node.features.finalised
    answer = update(node, levels | {"shape": 0}, version, kind=kind)
    assert answer.error_code == ErrorCode.invalid_update_version
    assert answer.error_message.startswith(_REFUSED + why)
    assert version == 2 or answer.results == ()
    assert node.node.features.finalised is before


def test_what_is_not_served_cannot_be_finalised(make_node: Callable[..., NodeHarness]) -> None:
    """The real table."""
    node = make_node()
    for name in ("transaction.version", "group.version", "share.version", "streams.version"):
        beyond = SERVED[name].max_level + 1 if name in SERVED else 1
        answer = update(node, {name: beyond})
        assert answer.error_code == ErrorCode.invalid_update_version
        assert f"Invalid update version {beyond} for feature {name}. This broker " in answer.error_message
    assert "metadata.version" not in SERVED

"""Supported and finalised levels of features."""

from __future__ import annotations

from highwater.broker.features import NOTHING, SERVED, Features, Finalised, Range

SUPPORTED = {"colour": Range(0, 2), "shape": Range(0, 1)}


def test_a_feature_that_is_not_finalised_has_level_0() -> None:
    features = Features(SUPPORTED)
    assert features.level("colour") == features.level("unheard-of") == 0
    features.take_up(Finalised(1, {"colour": 2}))
    assert (features.level("colour"), features.level("shape")) == (2, 0)


def test_levels_that_come_late_do_not_count() -> None:
    features = Features(SUPPORTED, Finalised(5, {"colour": 1}))
    for late in (Finalised(4, {"colour": 2}), Finalised(5, {}), NOTHING):
        features.take_up(late)
        assert features.finalised == Finalised(5, {"colour": 1})


def test_what_is_served_goes_beyond_level_0() -> None:
    """Kafka too leaves out a feature that has only level 0 (QuorumFeatures.defaultFeatureMap)."""
    assert all(0 <= levels.min_level <= levels.max_level > 0 for levels in SERVED.values())

"""The `host:` of a workload file: how the host is tuned while trials run."""

from __future__ import annotations

from pydantic import Field, field_validator

from highwater.bench.workload.values import NO_PROFILE, KeyFaultError, Part, Properties, Scalar
from highwater.tuning.errors import TuningError
from highwater.tuning.profiles import ad_hoc, find_profile
from highwater.tuning.profiles.model import Profile


class Host(Part):
    profile: str = Field(
        default=NO_PROFILE, description="tuning profile applied before and rolled back after; none: the host as it is"
    )
    settings: Properties = Field(
        default={}, description="knobs that override those of the profile: id -> value, or `recommended`"
    )

    @field_validator("profile")
    @classmethod
    def _known(cls, name: str) -> str:
        if name != NO_PROFILE:
            try:
                find_profile(name)
            except TuningError as error:
                raise ValueError(str(error)) from None
        return name

    @field_validator("settings")
    @classmethod
    def _known_knobs(cls, settings: dict[str, Scalar]) -> dict[str, Scalar]:
        for knob, value in settings.items():
            try:
                ad_hoc({knob: str(value)})
            except TuningError as error:
                raise KeyFaultError(knob, text=str(error)) from None
        return settings

    @property
    def is_left_alone(self) -> bool:
        return self.profile == NO_PROFILE and not self.settings

    def as_profile(self) -> Profile:
        """The profile, with the settings in place of its own."""
        over = None if self.profile == NO_PROFILE else self.profile
        if not self.settings:
            return find_profile(self.profile)
        return ad_hoc({knob: str(value) for knob, value in self.settings.items()}, over)

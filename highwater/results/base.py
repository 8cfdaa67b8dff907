"""The base class of every model of the result directory."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A field that the file has and the model does not is an error; what is read is never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @classmethod
    def of_report(cls, report: object, **others: Any) -> Self:
        """The model with `others`, and with the attributes of `report` that have the names of the model's fields.

        Nested reports become nested models in the same way. Raises pydantic.ValidationError when a field is missing.
        """
        named = {name: getattr(report, name) for name in cls.model_fields if hasattr(report, name)}
        return cls.model_validate({**named, **others}, from_attributes=True)

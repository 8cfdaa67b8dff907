"""What every model of the result directory is made from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A field that the file has and the model does not is an error; what is read is never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

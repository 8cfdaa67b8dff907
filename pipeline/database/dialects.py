"""The dialect of an address. Drivers are imported when they are needed."""

from __future__ import annotations

from highwater.common.extras import how_to_install
from highwater.pipeline.database.address import MYSQL, POSTGRESQL, Address
from highwater.pipeline.database.dialect import Dialect
from highwater.pipeline.errors import SettingsError


def dialect_of(address: Address) -> Dialect:
    """Raises SettingsError if the driver is not installed."""
    try:
        if address.kind == POSTGRESQL:
            from highwater.pipeline.database.postgresql import Postgresql

            return Postgresql(address)
        if address.kind == MYSQL:
            from highwater.pipeline.database.mysql import Mysql

            return Mysql(address)
    except ImportError as error:
        raise SettingsError(f"{address.shown} needs the driver {error.name}: {how_to_install('database')}") from None
    from highwater.pipeline.database.sqlite import Sqlite

    return Sqlite(address)

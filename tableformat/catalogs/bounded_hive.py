"""PyIceberg's Hive catalog, which would wait for ever for a server that takes a connection and says nothing."""

from typing import Any

from pyiceberg.catalog import URI
from pyiceberg.catalog.hive import (
    HIVE_KERBEROS_AUTH,
    HIVE_KERBEROS_AUTH_DEFAULT,
    HIVE_KERBEROS_SERVICE_NAME,
    HIVE_KERBEROS_SERVICE_NAME_DEFAULT,
    HiveCatalog,
    _HiveClient,
)
from pyiceberg.utils.properties import property_as_bool
from typing_extensions import override

from tableformat.catalogs.patience import ANSWER_SECONDS


class _BoundedClient(_HiveClient):
    @override
    def _init_thrift_transport(self) -> Any:
        transport = super()._init_thrift_transport()
        for part in vars(transport).values():  # a socket inside a buffer, or inside Kerberos
            if hasattr(part, "setTimeout"):
                part.setTimeout(ANSWER_SECONDS * 1000)
        return transport


class BoundedHiveCatalog(HiveCatalog):
    @staticmethod
    @override
    def _create_hive_client(properties: dict[str, str]) -> _HiveClient:
        return _BoundedClient(
            properties[URI].split(",")[0],
            properties.get("ugi"),
            property_as_bool(properties, HIVE_KERBEROS_AUTH, HIVE_KERBEROS_AUTH_DEFAULT),
            properties.get(HIVE_KERBEROS_SERVICE_NAME, HIVE_KERBEROS_SERVICE_NAME_DEFAULT),
        )

"""The catalogs of tables, opened once and used by every pass, until their declaration or their credentials change.

The Secret is read again after a few seconds, not watched: the right to watch Secrets would be the right to read all of
them. What was read stays in memory and goes nowhere but to the catalog's and the storage's clients.
"""

import hashlib
import threading
import time
from collections.abc import Callable

from botocore.exceptions import ClientError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import RESTError, ServerError, ServiceUnavailableError

from tableformat.catalogs.configmap import ConfigMapCatalog
from tableformat.errors import PermanentError
from tablewright.act.catalogs import open_declared
from tablewright.act.passes import CatalogNotUsableError
from tablewright.api.catalog import TableCatalog
from tablewright.api.objects import InvalidObjectError, KubernetesObject, parse
from tablewright.runtime.cluster import AccessDeniedError
from tablewright.runtime.logs import brief
from tablewright.runtime.store import ObjectStore

CREDENTIALS_SECONDS = 10.0

ReadSecret = Callable[[str, str], dict[str, str] | None]


def parse_catalog(obj: KubernetesObject) -> TableCatalog:
    return parse(TableCatalog, obj)


class OpenCatalogs:
    """`require` raises where a catalog's namespace is not granted; `learn` is told of what must never be shown."""

    def __init__(
        self,
        store: ObjectStore,
        read_secret: ReadSecret,
        kubeconfig: str | None,
        *,
        require: Callable[[TableCatalog], None] = lambda _: None,
        learn: Callable[[dict[str, str]], None] = lambda _: None,
    ) -> None:
        self._store, self._read_secret, self._kubeconfig = store, read_secret, kubeconfig
        self._require, self._learn = require, learn
        self._opened: dict[tuple[str, str], tuple[str, Catalog]] = {}
        self._secrets: dict[tuple[str, str], tuple[float, dict[str, str] | None]] = {}
        self._lock = threading.Lock()

    def open(self, namespace: str, name: str) -> Catalog:
        """Raises `CatalogNotUsableError`."""
        obj = self._store.get(TableCatalog.kind_name, namespace, name)
        if obj is None:
            message = f"spec.catalogRef: there is no TableCatalog {name} in namespace {namespace}: create it"
            raise CatalogNotUsableError("CatalogNotFound", message)
        try:
            catalog = self._store.derived(parse_catalog, obj)
        except InvalidObjectError as error:
            raise CatalogNotUsableError("CatalogInvalid", str(error)) from None
        self._require(catalog)
        config = catalog.config(self._credentials(catalog), kubeconfig=self._kubeconfig)
        fingerprint = hashlib.sha256(config.model_dump_json().encode()).hexdigest()
        with self._lock:
            known = self._opened.get((namespace, name))
        if known is None or known[0] != fingerprint:  # first use, another spec, or rotated credentials
            known = (
                fingerprint,
                open_declared(name, config),
            )  # without the lock: a server that is silent holds up nobody else
            with self._lock:
                self._opened[namespace, name] = known
            if self._store.get(TableCatalog.kind_name, namespace, name) is None:
                self.forget(namespace, name)  # deleted meanwhile, and the event that lets it go may be past
        return known[1]

    def forget(self, namespace: str, name: str) -> None:
        """Lets go of a catalog that is not declared any more, and of Secrets that no other one of its namespace names.

        It is not closed: a pass may still use it. Its connections go with the last who does.
        """
        others = self._store.list(TableCatalog.kind_name, namespace)
        named = {(namespace, secret) for other in others for secret in self._secrets_of(other)}
        with self._lock:
            self._opened.pop((namespace, name), None)
            for secret in [each for each in self._secrets if each[0] == namespace and each not in named]:
                del self._secrets[secret]

    def _secrets_of(self, obj: KubernetesObject) -> set[str]:
        try:
            catalog = self._store.derived(parse_catalog, obj)
        except InvalidObjectError:
            return set()  # it cannot be opened either
        return catalog.secret_names

    def probe(self, namespace: str, name: str) -> None:
        """Opens it and asks its server something, to see that it answers; raises `CatalogNotUsableError`.

        An answer is all that is wanted: who may not list namespaces may still have tables.
        """
        catalog = self.open(namespace, name)
        if isinstance(catalog, ConfigMapCatalog):
            return  # its server is the one that told us of the catalog
        try:
            catalog.list_namespaces()
        except (ServerError, ServiceUnavailableError) as error:
            raise _unreachable(name, error) from error
        except (RESTError, ClientError, PermanentError, NotImplementedError):
            return
        except Exception as error:  # PyIceberg's own catalogs raise what their clients do
            raise _unreachable(name, error) from error

    def _credentials(self, catalog: TableCatalog) -> dict[str, str]:
        credentials: dict[str, str] = {}
        for field, reference in catalog.secret_references:
            credentials |= self._required_secret(catalog, field, reference.name)
        return credentials | self._password(catalog)

    def _password(self, catalog: TableCatalog) -> dict[str, str]:
        """The password of a SQL catalog's database, by the name of the variable by which jobs know it."""
        variable = catalog.database_password
        if variable is None:
            return {}
        if variable.value_from is None or (reference := variable.value_from.secret_key_ref) is None:
            return {variable.name: variable.value or ""}
        field = f"spec.jobs.env[{variable.name}].valueFrom.secretKeyRef"
        values = self._required_secret(catalog, field, reference.name)
        if reference.key not in values:
            where = f"TableCatalog {catalog.metadata.name}: {field}"
            missing = f"Secret {reference.name} has no key {reference.key}: add it, or name another key"
            raise CatalogNotUsableError("SecretNotFound", f"{where}: {missing}")
        password = {variable.name: values[reference.key]}
        self._learn(password)  # whatever its key is called, it is a secret
        return password

    def _required_secret(self, catalog: TableCatalog, field: str, name: str) -> dict[str, str]:
        where = f"TableCatalog {catalog.metadata.name}: {field}"
        try:
            values = self._secret(catalog.metadata.namespace, name)
        except AccessDeniedError as error:
            raise CatalogNotUsableError("SecretForbidden", f"{where}: {error}") from None
        if values is None:
            missing = f"no Secret {name} in namespace {catalog.metadata.namespace}: create it"
            raise CatalogNotUsableError("SecretNotFound", f"{where}: {missing}")
        return values

    def _secret(self, namespace: str, name: str) -> dict[str, str] | None:
        now = time.monotonic()
        with self._lock:
            known = self._secrets.get((namespace, name))
        if known is not None and known[1] is not None and now < known[0] + CREDENTIALS_SECONDS:
            return known[1]
        values = self._read_secret(namespace, name)
        with self._lock:
            self._secrets[namespace, name] = (now, values)
        return values


def _unreachable(name: str, error: Exception) -> CatalogNotUsableError:
    message = f"TableCatalog {name}: it does not answer ({type(error).__name__}): {brief(error)}"
    return CatalogNotUsableError("CatalogUnreachable", message)

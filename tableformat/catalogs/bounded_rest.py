"""PyIceberg's REST catalog, which would wait for ever for a server that takes a connection and says nothing.

PyIceberg has no setting for it. A commit whose answer does not come in time has an unknown outcome, and is looked up.
"""

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from typing_extensions import override

from tableformat.catalogs.patience import ANSWER_SECONDS, CONNECT_SECONDS


class BoundedRestCatalog(RestCatalog):
    @override
    def _config_headers(self, session: Any) -> None:
        """The first thing that is done with a new session, before it asks for a token."""
        super()._config_headers(session)
        session.request = partial(session.request, timeout=(CONNECT_SECONDS, ANSWER_SECONDS))

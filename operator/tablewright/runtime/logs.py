"""How the operator logs: which lines, in which form. What a line looks like is in `tableformat.logs`."""

import logging
import sys

from kubernetes.client.exceptions import ApiException

from tableformat.logs import JsonFormatter, TextFormatter


def brief(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, ApiException):
        return f"{error.status} {error.reason}"
    return " ".join(str(error).split()) or type(error).__name__


def set_up_logs(*, as_json: bool, level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # it misses signals that are not for it
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)  # a line a watch and a try; the lease says it
    for chatty in ("kopf", "kopf.objects", "aiohttp.access", "kubernetes", "urllib3"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))

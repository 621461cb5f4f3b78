"""What must be told to nobody: the values of the Secrets that catalogs name.

Nothing hands them to a log, a status or an event. But a server that refuses a credential may repeat it in its answer,
and the answer's words go into a condition. So whatever leaves the process as text for people is looked through.
"""

import json
import logging
import threading
from collections.abc import Mapping

from tablewright.api.catalog import REST_CREDENTIALS, SECRET_KEY, SESSION_TOKEN

HIDDEN = "(hidden)"
_TOLD = (SECRET_KEY, SESSION_TOKEN, *REST_CREDENTIALS)  # an access key's id is no secret
_SHORTEST = 6  # a shorter one is in too many words
MOST_VALUES = 1000  # of tokens that are rotated every hour nobody repeats those of last month


class KnownSecrets:
    def __init__(self) -> None:
        self._known: dict[str, None] = {}  # those that were read last at the end
        self._values: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def learn(self, secret: Mapping[str, str]) -> None:
        """The values of a Secret that catalogs and storage are told; of a pair with a colon the second half, too.

        Nobody can repeat the others, and a bucket's name or a region among them must not be hidden in every location.
        """
        told = [secret[key] for key in _TOLD if key in secret]
        parts = [part for value in told for part in (value, *value.split(":", 1)[1:])]
        found = {form for part in parts for form in (part.strip(), json.dumps(part.strip())[1:-1])}
        with self._lock:
            for each in (each for each in found if len(each) >= _SHORTEST):
                self._known.pop(each, None)
                self._known[each] = None
            while len(self._known) > MOST_VALUES:
                del self._known[next(iter(self._known))]
            self._values = tuple(sorted(self._known, key=len, reverse=True))  # the whole before its parts

    def hide(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text


class SecretFilter(logging.Filter):
    """For a handler: what it writes has no secrets, wherever the words came from."""

    def __init__(self, secrets: KnownSecrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        whole = record.getMessage()
        hidden = self._secrets.hide(whole)
        if hidden != whole:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            trace = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_text = self._secrets.hide(trace)
        return True

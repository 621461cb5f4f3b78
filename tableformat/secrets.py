"""What must be told to nobody: keys, tokens and passwords, of Secrets, of properties, of addresses, of the environment.

Nothing hands them to a log, a status or a report. But a server that refuses a credential may repeat it in its answer,
and an address in an error may hold a password. So whatever leaves a process as text for people goes through `hide`:
it knows secrets by their values, once they were learnt, and passwords in addresses by their form alone.
"""

import html
import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from typing import TextIO
from urllib.parse import unquote

HIDDEN = "(hidden)"
_SHORTEST = 6  # a shorter one is in too many words
MOST_VALUES = 1000  # of tokens that are rotated every hour nobody repeats those of last month

# Names of properties, of a Secret's keys and of variables. An access key's id is no secret.
_WORDS = "token|credential|secret|password|passwd|passphrase|(?:access|account|api|private)[-_.]?key|connection-string"
_NAME = re.compile(rf"(?:{_WORDS}|authorization|mysql_pwd)$", re.IGNORECASE)
# Up to the last @: a password may have one itself. A quote ends it, so that JSON stays JSON.
_IN_ADDRESS = re.compile(r"(://[^/\s:@\"]*):(?:[^\s\"\\]|\\.)*@")
_AS_PARAMETER = re.compile(rf"(?P<name>[\w.-]*(?:{_WORDS}|pwd)=)(?!\(hidden\))(?P<value>[^&;,\s\"']+)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether what is called so is a secret, such as the property s3.secret-access-key or the variable PGPASSWORD."""
    return _NAME.search(name) is not None


def without_passwords(text: str) -> str:
    """The text without passwords that can be told by their form: in an address, and behind `password=`."""
    return _AS_PARAMETER.sub(rf"\g<name>{HIDDEN}", _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", text))


class KnownSecrets:
    def __init__(self) -> None:
        self._known: dict[str, None] = {}  # those that were read last at the end
        self._values: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def learn(self, named: Mapping[str, str]) -> None:
        """The values that have a secret's name; of a pair with a colon the second half, too. Passwords of addresses.

        The others stay readable: a bucket's name or a region among them must not be hidden in every location.
        """
        told = [value for name, value in named.items() if is_secret(name)]
        told += [password for value in named.values() for password in _passwords(value)]
        parts = [part.strip() for value in told for part in (value, *value.split(":", 1)[1:])]
        found = {form for part in parts for form in (part, unquote(part), json.dumps(part)[1:-1], html.escape(part))}
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
        return without_passwords(text)


# What this process was told, by its environment and by whoever started it: the command line's, and a driver's.
KNOWN = KnownSecrets()


def learn_environment() -> None:
    KNOWN.learn(os.environ)


def _passwords(value: str) -> list[str]:
    """Of an address, as SQLAlchemy and HTTP clients read it."""
    found = re.match(r"(?:[\w+.-]+://)?[^/\s:@]*:(.*)@", value)
    return [*([found[1]] if found else []), *(each["value"] for each in _AS_PARAMETER.finditer(value))]


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


class RedactedStream:
    """A text stream that writes no secrets; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(KNOWN.hide(text))
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

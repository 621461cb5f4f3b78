"""How long a catalog's server may take, where its client would wait for ever: a worker that waits serves nobody."""

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0

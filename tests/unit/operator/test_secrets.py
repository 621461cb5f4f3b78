"""The values of Secrets are in nothing that the operator says, whoever handed them over."""

import io
import logging

import pytest

from tableformat.logs import JsonFormatter, TextFormatter
from tableformat.secrets import HIDDEN, MOST_VALUES, KnownSecrets, SecretFilter

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": 'quite/"secret',
    "ICEBERG_CREDENTIAL": "me:passphrase",
}


def secrets() -> KnownSecrets:
    known = KnownSecrets()
    known.learn(KEYS)
    return known


def test_values_and_the_halves_of_pairs_are_hidden_and_ids_are_not() -> None:
    said = secrets().hide('AKIDEXAMPLE quite/"secret quite/\\"secret me:passphrase passphrase')
    assert said == f"AKIDEXAMPLE {HIDDEN} {HIDDEN} {HIDDEN} {HIDDEN}"


def test_what_is_too_short_to_be_a_secret_leaves_words_alone() -> None:
    known = KnownSecrets()
    known.learn({"AWS_SECRET_ACCESS_KEY": "a"})
    assert known.hide("a table") == "a table"


def test_what_else_a_secret_holds_stays_readable() -> None:
    """Its bucket or its region, for one: a table's location that is hidden is no location any more."""
    known = KnownSecrets()
    known.learn({**KEYS, "AWS_REGION": "us-east-1", "BUCKET": "lakehouse"})
    location = "s3://lakehouse/us-east-1/sales/events"
    assert known.hide(location) == location


def test_a_rotated_value_is_hidden_beside_the_one_before() -> None:
    known = secrets()
    known.learn({"AWS_SECRET_ACCESS_KEY": "the-next-one"})
    assert known.hide('the-next-one quite/"secret') == f"{HIDDEN} {HIDDEN}"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_log_line_has_none_not_even_in_a_stack_trace(formatter: logging.Formatter) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(SecretFilter(secrets()))
    logger = logging.getLogger("tests.secrets")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        raise ValueError("the passphrase is wrong")
    except ValueError as error:
        logger.warning("refused: %s", "me:passphrase", exc_info=error)
    finally:
        logger.removeHandler(handler)
    assert "refused" in stream.getvalue()
    assert "ValueError" in stream.getvalue()
    assert "passphrase" not in stream.getvalue()


def test_keys_that_are_rotated_for_ever_are_remembered_up_to_a_number_and_those_in_use_always() -> None:
    secrets = KnownSecrets()
    for number in range(3 * MOST_VALUES):
        secrets.learn({"ICEBERG_TOKEN": "kept-in-use"})
        secrets.learn({"AWS_SESSION_TOKEN": f"token-{number:05}"})
    assert len(secrets._values) == MOST_VALUES
    assert secrets.hide(f"kept-in-use token-{3 * MOST_VALUES - 1:05} token-00000") == f"{HIDDEN} {HIDDEN} token-00000"

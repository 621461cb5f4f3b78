"""What people read who wrote something wrong: every pattern of the CRDs has a sentence, every name a nearest one."""

import re
from pathlib import Path
from typing import Any

import pytest

from tableformat.suggestions import did_you_mean, nearest, unknown
from tablewright.api.admission import admit
from tablewright.api.admission.forms import forms
from tablewright.api.durations import parse_duration
from tablewright.api.objects import API_VERSION
from tablewright.api.quantities import parse_size
from tablewright.embedded.folder import validate_folder
from tests.definitions import KINDS, schema

TABLE: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "ManagedTable",
    "metadata": {"name": "events", "namespace": "sales"},
    "spec": {"catalogRef": {"name": "lake"}, "schema": {"columns": [{"name": "id", "type": "long"}]}},
}


def patterns(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["pattern"]} if isinstance(node.get("pattern"), str) else set()
        return own.union(*(patterns(inner) for inner in node.values()))
    return set().union(*(patterns(inner) for inner in node)) if isinstance(node, list) else set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind_name)
def test_every_pattern_of_a_spec_has_a_sentence_with_an_example_that_fits(kind: Any) -> None:
    for pattern in patterns(schema(kind)["properties"]["spec"]):
        form = forms()[pattern]
        words = re.findall(r"[^\s,]+", form.use)
        cron = re.search(r"example (\S+( \S+){4})$", form.use)
        assert any(form.fits(word) for word in (*words, cron[1] if cron else "")), form.use


def said(**spec: Any) -> list[str]:
    return [str(problem) for problem in admit({**TABLE, "spec": {**TABLE["spec"], **spec}})]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"layout": {"targetFileSize": "64 MB"}}, 'spec.layout.targetFileSize: "64 MB" is not a size; use 64Mi'),
        (
            {"layout": {"targetFileSize": 64}},
            "spec.layout.targetFileSize must be text, not 64; use a whole number with",
        ),
        ({"layout": {"targetFileSize": 67108864}}, "spec.layout.targetFileSize must be text, not 67108864; put it in"),
        ({"compacton": {}}, 'spec.compacton: unknown field "compacton"; did you mean "compaction"?'),
        ({"suspend": "yes"}, 'spec.suspend must be a boolean, not "yes"'),
        (
            {"managementPolicy": "full"},
            'spec.managementPolicy: unknown value "full"; did you mean "Full"? Allowed are Full, MaintainOnly, Observe',
        ),
        ({"compaction": {"minInputFiles": 1}}, "spec.compaction.minInputFiles is 1; the minimum is 2"),
        ({"compaction": {"coolDown": "10 minutes"}}, '"10 minutes" is not a duration; use 10m'),
        ({"manifests": {"schedule": "@daily"}}, '"@daily" is not a cron expression; use 0 0 * * *'),
        ({"windows": [{"start": "10pm", "duration": "8h"}]}, '"10pm" is not a time of day; use 22:00'),
        (
            {"partitioning": [{"column": "id", "transform": "bucket(16)"}]},
            "is not a partition transform; use bucket[16]",
        ),
        ({"jobs": {"executors": {"cpu": "0.5"}}}, '"0.5" is not a number of processors; use 500m'),
        ({"jobs": {"executors": {"memory": "2G"}}}, '"2G" is not an amount of memory; use 2Gi'),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(spec: dict[str, Any], sentence: str) -> None:
    [found] = said(**spec)
    assert sentence in found
    assert "[0-9]" not in found, "a pattern tells people nothing"


def test_what_is_missing_is_called_missing() -> None:
    nothing: dict[str, Any] = {"metadata": {}, "spec": {}}
    found = [str(problem) for problem in admit({**nothing, "kind": "ManagedTable"})]
    assert found == [
        f"apiVersion is missing; use {API_VERSION}",
        "metadata.name is missing",
        "spec.catalogRef is missing",
    ]
    [version, kind] = [str(problem) for problem in admit(nothing)]
    assert kind == "kind is missing; use one of MaintenanceRun, ManagedTable, TableCatalog, TablePolicy"
    assert version.startswith("apiVersion is missing")


def test_a_time_that_never_comes_is_said_to_be_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "examples/quickstart/payments.yaml").read_text()
    (tmp_path / "a.yaml").write_text(re.sub(r'schedule: "[^"]*"', 'schedule: "0 0 30 2 *"', text, count=1))
    [finding] = validate_folder(tmp_path).findings
    assert '"0 0 30 2 *" never comes; use a day that its month has' in finding.message


@pytest.mark.parametrize(
    ("text", "meant"),
    [("7 days", "7d"), ("1h30m", "90m"), ("2w", "14d"), ("P7D", "7d"), ("PT1H", "1h"), ("1.5 hours", "90m")],
)
def test_a_duration_in_other_words_is_answered_with_ours(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"is not a duration; use {meant}$"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1 month", "500ms", "1y", "-7d", "7", "soon"])
def test_a_duration_that_nobody_can_tell_is_answered_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="use a whole number with s, m, h or d, for example 7d"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "meant"), [("64 MB", "64Mi"), ("1.5G", "1536Mi"), ("8m", "8Mi"), ("2tib", "2Ti")])
def test_a_size_in_other_words_is_answered_with_ours(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"is not a size; use {meant}$"):
        parse_size(text)


def test_unknown_names_are_answered_with_the_nearest_or_with_all_of_a_few() -> None:
    assert unknown("field", "compacton", ["compaction", "retention"]) == (
        'unknown field "compacton"; did you mean "compaction"?'
    )
    assert did_you_mean("x", ["alpha", "beta"]) == "expected one of alpha, beta"
    assert did_you_mean("x", [f"name{number}" for number in range(20)]) == "no known name is like it"
    assert nearest("EVENTS", ["events"]) == "events"

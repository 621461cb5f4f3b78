"""Where `get` and `describe` find objects: in a cluster, or in a folder and what `apply` remembers of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tablewright.api.admission.problems import did_you_mean
from tablewright.api.admission.schemas import known_kinds, names_of, plural_of
from tablewright.api.objects import API_VERSION, GROUP, VERSION, KubernetesObject, KubernetesResource
from tablewright.cli.exits import InputError
from tablewright.cli.selecting import label_selector

# What people call the kinds in speech; the CRDs' own names and short names are known as well.
_EVERYDAY = {
    "ManagedTable": ("table", "tables"),
    "MaintenanceRun": ("run", "runs"),
    "TableCatalog": ("catalog", "catalogs"),
    "TablePolicy": ("policy", "policies"),
}


class Source(Protocol):
    def objects(self, kind: str, namespace: str | None, selector: str | None = None) -> list[KubernetesObject]:
        """All of the kind, or those that a label selector selects, by namespace and name."""
        ...


def kind_named(word: str) -> str:
    for kind in known_kinds():
        if word.lower() in names_of(kind) or word.lower() in _EVERYDAY.get(kind, ()):
            return kind
    known = sorted({name for kind in known_kinds() for name in _EVERYDAY.get(kind, ())})
    raise InputError(f"there is no kind {word!r}: {did_you_mean(word, known)}")


@dataclass(frozen=True)
class FolderSource:
    paths: Sequence[Path]
    state: Path

    def objects(self, kind: str, namespace: str | None, selector: str | None = None) -> list[KubernetesObject]:
        from tablewright.embedded.folder import read_folder
        from tablewright.embedded.state import EmbeddedState

        declarations, remembered = read_folder(*self.paths), EmbeddedState(self.state)
        remembered.look()
        found: list[KubernetesObject]
        if kind == "MaintenanceRun":
            found = [_whole(run, kind) for run in remembered.runs()]
        elif kind == "ManagedTable":
            found = [_whole(remembered.remembered(table), kind) for table in declarations.tables]
        else:
            declared = declarations.catalogs if kind == "TableCatalog" else declarations.policies
            found = [_whole(each, kind) for each in declared]
        found = [obj for obj in found if namespace in (None, obj["metadata"]["namespace"])]
        return _sorted(found if selector is None else _selected(found, selector))


@dataclass(frozen=True)
class ClusterSource:
    kubeconfig: Path | None
    context: str | None
    seconds: float = 15

    def objects(self, kind: str, namespace: str | None, selector: str | None = None) -> list[KubernetesObject]:
        from kubernetes import client, config
        from urllib3.exceptions import HTTPError

        plural = plural_of(kind)
        file = str(self.kubeconfig) if self.kubeconfig else None
        try:
            api = client.CustomObjectsApi(config.new_client_from_config(file, self.context))
        except Exception as error:  # for a file that is broken the client library has no error of its own
            said = " ".join(str(error).split()).rstrip(".")
            given = f"the cluster cannot be reached by kubeconfig {file or '(default)'}"
            raise InputError(f"{given}: {said}: give --kubeconfig, or -f for a folder") from None
        options: dict[str, Any] = {"_request_timeout": self.seconds}
        if selector is not None:
            label_selector(selector)  # of what is none, the server says no more than that
            options["label_selector"] = selector
        try:
            if namespace is None:
                answer: Any = api.list_cluster_custom_object(GROUP, VERSION, plural, **options)
            else:
                answer = api.list_namespaced_custom_object(GROUP, VERSION, namespace, plural, **options)
        except client.ApiException as error:
            raise InputError(f"the API server refused: {error.status} {error.reason}{_hint(error.status)}") from None
        except HTTPError as error:
            raise ConnectionError(f"the API server cannot be reached: {error}") from None
        return _sorted(answer["items"])


def _selected(objects: list[KubernetesObject], selector: str) -> list[KubernetesObject]:
    from pydantic import ValidationError

    from tablewright.api.policy import LabelSelector

    try:
        wanted = LabelSelector.model_validate(label_selector(selector))
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"--selector: {selector!r} is not a label selector: {why}") from None
    return [obj for obj in objects if wanted.selects(obj["metadata"].get("labels", {}))]


def _hint(status: int) -> str:
    return f" (are the CRDs of {GROUP} installed? kubectl apply --server-side -f crds/)" if status == 404 else ""


def _whole(value: KubernetesResource, kind: str) -> KubernetesObject:
    whole = _without_empty(value.to_json())
    own = {"labels": value.metadata.labels, "annotations": value.metadata.annotations}
    whole["metadata"] |= {key: said for key, said in own.items() if said}  # a label may have no value
    return {"apiVersion": API_VERSION, "kind": kind, **whole}


def _without_empty(value: Any) -> Any:
    """Models fill in what was not said; people want to read what was."""
    if isinstance(value, dict):
        filled = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in filled.items() if inner not in (None, {}, [], "")}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _sorted(objects: list[KubernetesObject]) -> list[KubernetesObject]:
    return sorted(objects, key=lambda obj: (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))

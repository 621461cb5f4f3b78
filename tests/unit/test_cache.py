"""The cache of server binaries: whole entries only, made once, repaired when broken."""

import threading
from pathlib import Path

import pytest

from tests.servers import binaries
from tests.servers.cache import SetupError, ensure_entry


class Recipe:
    def __init__(self) -> None:
        self.made = 0

    def __call__(self, folder: Path) -> None:
        self.made += 1
        (folder / "server").write_bytes(b"x" * 100)


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    recipe = Recipe()
    first = ensure_entry("server-1", recipe, root=tmp_path)
    assert ensure_entry("server-1", recipe, root=tmp_path) == first
    assert recipe.made == 1


@pytest.mark.parametrize("damage", ["cut short", "deleted", "receipt garbled"])
def test_a_broken_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    recipe = Recipe()
    server = ensure_entry("server-1", recipe, root=tmp_path) / "server"
    if damage == "cut short":
        server.write_bytes(b"x" * 50)
    elif damage == "deleted":
        server.unlink()
    else:
        (server.parent / "receipt.json").write_text("{")
    assert (ensure_entry("server-1", recipe, root=tmp_path) / "server").stat().st_size == 100
    assert recipe.made == 2


def test_a_recipe_that_fails_leaves_no_entry(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise SetupError("no network")

    with pytest.raises(SetupError):
        ensure_entry("server-1", fail, root=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["server-1.lock"]


def test_two_runs_at_once_make_an_entry_once(tmp_path: Path) -> None:
    recipe = Recipe()
    threads = [
        threading.Thread(target=ensure_entry, args=("server-1", recipe), kwargs={"root": tmp_path}) for _ in "12"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recipe.made == 1


def test_kubebuilder_assets_are_used_where_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd").write_text("#!/bin/sh\n")
    (tmp_path / "etcd").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries.etcd() == tmp_path / "etcd"
    with pytest.raises(SetupError, match=r"KUBEBUILDER_ASSETS.*kube-apiserver is not an executable"):
        binaries.kube_apiserver()

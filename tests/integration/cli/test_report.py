"""The report: its figures against the table's own, and in a real browser at desk and phone width."""

import html
import html.parser
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tablewright.api.conditions import condition
from tablewright.api.objects import parse
from tablewright.api.run import MaintenanceRun
from tablewright.cli.catalogs import AddressOptions, address
from tablewright.cli.report import gather_folder, gather_table, render_page
from tablewright.embedded.documents import BrokenYaml, Document, read_documents
from tests.integration.cli.conftest import TABLES, apply_here, run_cli
from tests.servers import toolchain


class Page(html.parser.HTMLParser):
    """Collects the figures, the bars and whatever would need a network or a script."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, int] = {}
        self.bars: dict[int, int] = {}
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "data-figure" in given:
            self.figures[given["data-figure"]] = int(given["value"])
        if "data-below" in given:
            self.bars[int(given["data-below"])] = int(given["data-files"])
        if tag in ("script", "link", "img", "iframe") or given.get("src") or given.get("href", "#")[0] != "#":
            self.foreign.append(tag)


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    target = folder / "report.html"
    written = run_cli("report", "-f", folder, "-o", target)
    assert (written.code, written.err) == (0, f"wrote {target}: 1 table\n")
    return target


def test_the_figures_are_the_tables_own_and_nothing_is_loaded_from_elsewhere(folder: Path, page: Path) -> None:
    parsed = Page()
    parsed.feed(page.read_text())
    seen = json.loads(run_cli("inspect", "events", "-f", folder, "-o", "json").out)
    health = seen["health"]
    told = {key.split(":")[1]: value for key, value in parsed.figures.items() if key.startswith("sales/events:")}
    assert {key: health[key] for key in told if key in health} == {k: v for k, v in told.items() if k in health}
    assert {"data_files", "small_files", "records", "data_bytes", "median_file_bytes"} <= told.keys()
    assert parsed.bars == {bucket["belowBytes"]: bucket["files"] for bucket in health["sizeHistogram"]}
    assert parsed.figures["fleet:data_files"] == 3
    assert parsed.foreign == []
    assert "prefers-color-scheme: dark" in page.read_text()


def test_a_fleets_folder_is_read_once_for_all_of_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.yaml").write_text(TABLES.replace("name: events", f"name: events{number}"))
    apply_here(tmp_path)
    read: list[str] = []

    def counted(file: Path) -> Iterator[Document | BrokenYaml]:
        read.append(file.name)
        yield from read_documents(file)

    monkeypatch.setattr("tablewright.embedded.folder.read_documents", counted)
    told = gather_folder([tmp_path], tmp_path / ".tablewright", now=datetime.now(UTC))
    assert [table.problem for table in told] == [""] * 5
    assert sorted(read) == [f"{number}.yaml" for number in range(5)]


@pytest.fixture(scope="module")
def busy_page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With everything that a page can have: runs of long messages, conditions, several tables."""
    now = datetime.now(UTC)
    seen = gather_table(address("events", AddressOptions(folders=[folder])), now=now)
    figures = {"dataFiles": 123_456, "smallFiles": 120_000, "dataBytes": 1 << 42, "records": 10**10}
    status = {
        "phase": "Succeeded",
        "message": "rewrote 123456 files into 17, and here is a message that goes on for longer than a phone is wide",
        "startTime": "2026-03-01T01:00:00Z",
        "completionTime": "2026-03-01T01:10:00Z",
        "before": figures,
        "after": {**figures, "dataFiles": 17},
    }
    spec = {"tableRef": {"name": "events"}, "operation": "RemoveOrphanFiles"}
    run = parse(MaintenanceRun, {"metadata": {"name": "r"}, "spec": spec, "status": status})
    conditions = tuple(condition(kind, True, "R", "m") for kind in ("Ready", "InSync", "Healthy", "Maintained"))
    table = replace(seen, conditions=conditions, runs=(run, run))
    target = tmp_path_factory.mktemp("busy") / "busy.html"
    target.write_text(render_page([table, replace(table, name="a" * 60)], title="busy", now=now), encoding="utf-8")
    return target


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
@pytest.mark.parametrize("which", ["page", "busy_page"])
def test_a_browser_shows_it_without_an_error_and_without_sideways_scrolling(
    request: pytest.FixtureRequest, tmp_path: Path, which: str, width: int, scheme: str
) -> None:
    # In a frame of the wanted width, which measures what became of it and says so where the browser's dump shows it:
    # the page itself, tables that are wider than their place, drawn bars, and how bright the paper is.
    framed = html.escape(request.getfixturevalue(which).read_text())
    measure = (
        "d.documentElement.scrollWidth, f.clientWidth, d.querySelectorAll('svg rect').length, "
        "[...d.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText), "
        "+f.contentWindow.getComputedStyle(d.body).backgroundColor.match(/[0-9]+/)[0]"
    )
    probe = tmp_path / "probe.html"
    probe.write_text(
        f'<title>?</title><iframe id="f" style="width:{width}px;height:2000px;border:0" srcdoc="{framed}"></iframe>'
        "<script>onload = () => { const d = f.contentDocument; "
        f"document.title = JSON.stringify([{measure}]) }}</script>",
        encoding="utf-8",
    )
    command = [toolchain.chromium(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/p"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--disable-quic", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
    dumped = subprocess.run(
        [*command, "--window-size=1400,2100", "--enable-logging=stderr", "--dump-dom", probe.as_uri()],
        # It has a folder for crashes, too, and makes one for certificates as soon as it needs any.
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    title = re.search(r"<title>(\[.*\])</title>", dumped.stdout, re.DOTALL)
    assert title is not None, dumped.stderr[-2000:]
    scroll, inner, bars, cut, brightness = json.loads(html.unescape(title[1]))
    assert scroll <= inner
    assert cut == [], "no table has to be pushed sideways"
    assert bars >= 1
    assert (brightness > 128) == (scheme == "light")
    assert "Uncaught" not in dumped.stderr


def test_one_table_of_any_catalog_has_a_page_too(folder: Path, tmp_path: Path) -> None:
    uri = f"sqlite:///{folder}/.tablewright/catalog.db"
    done = run_cli("report", "sales.events", "--catalog-uri", uri, "-o", tmp_path / "one.html")
    assert done.code == 0, done.err
    assert "<title>sales.events</title>" in (tmp_path / "one.html").read_text()
    assert "which tables?" in run_cli("report", "-o", tmp_path / "none.html").err
    assert "is a folder: give a file" in run_cli("report", "-f", folder, "-o", tmp_path).err

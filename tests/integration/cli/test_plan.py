"""`plan`: what would change and what is due, as text, JSON and Markdown; and it changes nothing."""

import json
from pathlib import Path

from tests.integration.cli.conftest import TABLES, apply_here, embedded_catalog, rows, run_cli

GOLDEN_TEXT = """\
sales/events
  + create table sales.events (format version 2): id required long, name string
  1 change, in one commit.
"""
GOLDEN_MARKDOWN = """\
## Tablewright plan

1 to change, 0 refused, 0 as declared.

### 🆕 `sales/events`

```diff
+ create table sales.events (format version 2): id required long, name string
1 change, in one commit.
```

"""


def test_a_plan_says_what_would_be_created_and_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    shown = run_cli("plan", "-f", tmp_path)
    assert (shown.code, shown.out, shown.err) == (0, GOLDEN_TEXT, "")
    due = run_cli("plan", "-f", tmp_path, "--exit-code", "-o", "markdown")
    assert (due.code, due.out) == (3, GOLDEN_MARKDOWN)
    assert [path.name for path in tmp_path.iterdir()] == ["events.yaml"]


def test_a_plan_names_changes_refusals_and_due_maintenance(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(TABLES)
    apply_here(tmp_path)
    idle = run_cli("plan", "-f", tmp_path, "--exit-code")
    assert (idle.code, idle.out) == (0, "sales/events\n  The table is as declared.\n")
    table = embedded_catalog(tmp_path).load_table(("sales", "events"))
    for first in range(0, 60, 10):
        table.append(rows(first, 10))
    before = table.refresh().metadata_location, (tmp_path / ".tablewright" / "objects.json").read_text()

    changed = TABLES.replace("type: string}", "type: string}\n      - {name: city, type: string}")
    (tmp_path / "events.yaml").write_text(changed + "  compaction: {triggers: {smallFiles: 5}}\n")
    [planned] = json.loads(run_cli("plan", "-f", tmp_path, "-o", "json").out)["tables"]
    assert [change["change"] for change in planned["changes"]] == ["AddColumn"]
    assert [due["operation"] for due in planned["maintenanceDue"]] == ["Compact"]
    assert "6 small files of 6" in planned["maintenanceDue"][0]["reason"]

    (tmp_path / "events.yaml").write_text(TABLES.replace("id, type: long", "id, type: int"))
    refused = run_cli("plan", "-f", tmp_path)
    assert refused.code == 1
    assert "! schema.columns[id].type: " in refused.out
    after = table.refresh().metadata_location, (tmp_path / ".tablewright" / "objects.json").read_text()
    assert after == before

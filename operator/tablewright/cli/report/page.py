"""The page: values in, HTML out. Everything that comes from a table or a declaration is escaped."""

from collections.abc import Iterable, Sequence, Set
from datetime import datetime
from html import escape

from tableformat.plurals import plural
from tablewright.api.conditions import RECONCILING, STALLED
from tablewright.api.run import MaintenanceRun, Phase
from tablewright.cli.examination import Examination
from tablewright.cli.output import size
from tablewright.cli.report.charts import files_over_time, histogram
from tablewright.cli.report.style import STYLE
from tablewright.cli.report.values import Maintained, ReportedTable, maintained

_MOST_RUNS = 30
_TIME = "%Y-%m-%d %H:%M:%S"


def render_page(tables: Sequence[ReportedTable], *, title: str, now: datetime) -> str:
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">Tablewright, {now.astimezone():%Y-%m-%d %H:%M %Z}</p>',
        _fleet(tables),
        _index(tables) if len(tables) > 1 else "",
        *(_table(number, table) for number, table in enumerate(tables)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _fleet(tables: Sequence[ReportedTable]) -> str:
    health = [table.examination.health for table in tables if table.examination is not None]
    cards = [
        ("tables", len(tables), str(len(tables))),
        ("data_files", sum(h.data_files for h in health), ""),
        ("small_files", sum(h.small_files for h in health), ""),
        *([("delete_files", deletes, "")] if (deletes := sum(h.delete_files for h in health)) else []),
        ("data_bytes", total := sum(h.data_bytes for h in health), size(total)),
        ("records", sum(h.records for h in health), ""),
    ]
    done = [each for each in (maintained(table.runs) for table in tables) if each is not None]
    if done:
        freed, requests = sum(each.deleted_bytes for each in done), sum(each.requests_saved for each in done)
        cards += [("requests_no_more", requests, ""), ("deleted_bytes", freed, size(freed))]
    inner = "".join(
        f'<div class="card"><b>{_data(f"fleet:{name}", value, text)}</b>{_words(name)}</div>'
        for name, value, text in cards
    )
    return f'<div class="cards">{inner}</div>'


def _index(tables: Sequence[ReportedTable]) -> str:
    rows = []
    for number, table in enumerate(tables):
        health = table.examination.health if table.examination else None
        figures = (
            ["-"] * 4
            if health is None
            else [f"{health.data_files:,}", f"{health.small_files:,}", size(health.data_bytes), f"{health.records:,}"]
        )
        link = f'<a href="#t{number}">{escape(table.name)}</a>'
        rows.append([link, _chips(table), *figures])
    return _grid(("table", "conditions", "files", "small", "size", "rows"), rows, numbers={2, 3, 4, 5}, stacks=True)


def _table(number: int, table: ReportedTable) -> str:
    parts = [f"<h2>{escape(table.name)}</h2>", f"<p>{_chips(table)}</p>"]
    parts += [
        f'<p class="bad">{escape(condition.type)}: {escape(condition.message)}</p>'
        for condition in table.conditions
        if condition.status == "False"
    ]
    if table.examination is not None:
        seen = table.examination
        parts.append(f'<p class="quiet">{escape(seen.location)}, Iceberg v{seen.format_version}</p>')
    done = maintained(table.runs)
    if done is not None:
        parts += _around(table.name, done)
    if table.examination is None:
        parts.append(f'<p class="bad">{escape(table.problem)}</p>')
    else:
        parts += _examined(table, table.examination)
    if table.runs:
        parts += ["<h3>Runs</h3>", _runs(table.runs[:_MOST_RUNS])]
    return f'<section id="t{number}">{"".join(parts)}</section>'


def _around(name: str, done: Maintained) -> Iterable[str]:
    """Before and after, as the runs themselves took it."""
    rows = []
    for key in ("data_files", "small_files", "delete_files", "data_bytes", "records", "snapshots", "manifests"):
        cells = [_words(key)]
        for moment, figures in (("before", done.before), ("after", done.after)):
            value = getattr(figures, key)
            cells.append(_data(f"{name}:{moment}:{key}", value, size(value) if key.endswith("bytes") else ""))
        rows.append(cells)
    span = f"{plural(done.runs, 'run')}, {done.since:{_TIME}} to {done.until:%H:%M:%S} UTC"
    freed = _data(f"{name}:deleted_bytes", done.deleted_bytes, size(done.deleted_bytes))
    files = _data(f"{name}:deleted_files", done.deleted_files, "")
    requests = _data(f"{name}:requests_no_more", done.requests_saved, "")
    yield "<h3>Before and after maintenance</h3>"
    yield f'<div class="narrow">{_grid(("", "before", "after"), rows, numbers={1, 2})}</div>'
    saved = f"requests saved in a full scan: {requests}; files deleted: {files}; freed: {freed}"
    yield f'<p class="quiet">{span}: {saved}</p>'


def _examined(table: ReportedTable, seen: Examination) -> Iterable[str]:
    health, name = seen.health, table.name
    yield '<div class="pair"><div><h3>Files by size</h3>'
    yield histogram(health.size_histogram, seen.small_below)
    yield (
        f'<p class="quiet">the target is {escape(size(seen.target_file_bytes))}; '
        f"small, in orange, is what has less than {escape(size(seen.small_below))}</p>"
    )
    line = files_over_time(table.history)
    if line:
        yield f"<h3>Data files, commit by commit</h3>{line}"
    yield "</div><div><h3>Health</h3>"
    figures = [
        ("data_files", health.data_files, ""),
        ("small_files", health.small_files, ""),
        ("median_file_bytes", health.median_file_bytes, size(health.median_file_bytes)),
        ("data_bytes", health.data_bytes, size(health.data_bytes)),
        ("records", health.records, ""),
        ("delete_files", health.delete_files, ""),
        ("files_with_deletes", health.files_with_deletes, ""),
        ("requests_saved", health.requests_saved, ""),
        ("bytes_saved", health.bytes_saved, size(health.bytes_saved)),
        ("manifests", health.manifests, ""),
        ("snapshots", health.snapshots, ""),
        ("partitions", health.partitions, ""),
    ]
    told = [each for each in figures if each[1] or each[0] not in ("files_with_deletes", "bytes_saved")]
    rows = [[_words(key), _data(f"{name}:{key}", value, text)] for key, value, text in told]
    yield _grid((), rows, numbers={1})
    yield "</div></div>"
    yield "<h3>What each operation would do</h3>"
    savings = [
        [
            escape(each.operation),
            "-" if each.plan is None else _data(f"{name}:{each.operation}:files", each.plan.files, ""),
            "-" if each.plan is None else escape(size(each.plan.bytes)),
            "-" if each.plan is None else f"{each.plan.snapshots:,}",
            escape(each.told),
        ]
        for each in seen.savings
    ]
    yield _grid(("operation", "files", "size", "snapshots", ""), savings, numbers={1, 2, 3}, stacks=True)
    if len(health.worst_partitions) > 1:
        yield "<h3>Partitions with the most small files</h3>"
        worst = [
            [escape(part.partition), f"{part.data_files:,}", f"{part.small_files:,}", escape(size(part.data_bytes))]
            for part in health.worst_partitions
        ]
        yield _grid(("partition", "files", "small", "size"), worst, numbers={1, 2, 3})
    if seen.refs:
        yield "<h3>Branches and tags</h3>"
        refs = [[escape(ref), escape(of.snapshot_ref_type.value), str(of.snapshot_id)] for ref, of in seen.refs.items()]
        yield _grid(("name", "kind", "snapshot"), refs, numbers=set(), stacks=True)


def _runs(runs: Sequence[MaintenanceRun]) -> str:
    rows = []
    for run in runs:
        status = run.status
        kind = {Phase.SUCCEEDED: "good", Phase.FAILED: "bad"}.get(status.phase or Phase.PENDING, "wait")
        began = f"{status.start_time:{_TIME}}" if status.start_time else "-"
        took = "-"
        if status.start_time and status.completion_time:
            took = f"{(status.completion_time - status.start_time).total_seconds():.0f} s"
        rows.append(
            [
                escape(run.spec.operation.value),
                f'<span class="{kind}">{escape(str(status.phase or "-"))}</span>',
                began,
                took,
                *_change(run),
                escape(status.message or ""),
            ]
        )
    titles = ("operation", "outcome", "began (UTC)", "took", "files", "size", "result")
    return _grid(titles, rows, numbers={3, 4, 5}, whole={2}, stacks=True)


def _change(run: MaintenanceRun) -> tuple[str, str]:
    """Files and bytes, before and after, as the run itself took them."""
    before, after = run.status.before, run.status.after
    if before is None or after is None:
        return "-", "-"
    files = f"{before.data_files:,} → {after.data_files:,}"
    return files, escape(f"{size(before.data_bytes)} → {size(after.data_bytes)}")


def _chips(table: ReportedTable) -> str:
    signs = {"True": ("good", "✓"), "False": ("bad", "✗")}  # not by colour alone: some read without it
    chips = []
    for condition in table.conditions:
        if condition.type in (RECONCILING, STALLED):
            continue  # another condition says so already
        kind, sign = signs.get(condition.status, ("wait", "?"))
        chips.append(f'<span class="chip {kind}">{sign} {escape(condition.type)}</span>')
    return "".join(chips)


def _grid(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Set[int],
    whole: Set[int] = frozenset(),
    stacks: bool = False,
) -> str:
    """Cells are HTML already. Those in `whole` columns are not broken; one that `stacks` has its cells below each other
    where the page is narrow."""

    def cell(tag: str, place: int, text: str) -> str:
        kind = "n" if place in numbers else "w" if place in whole else ""
        title = titles[place] if tag == "td" and stacks else ""
        attributes = (f' class="{kind}"' if kind else "") + (f' data-title="{escape(title)}"' if title else "")
        inner = f"<div>{text}</div>" if tag == "td" and stacks and text else text
        return f"<{tag}{attributes}>{inner}</{tag}>"

    head = "".join(cell("th", place, escape(title)) for place, title in enumerate(titles))
    body = "".join(
        "<tr>" + "".join(cell("td", place, text) for place, text in enumerate(row)) + "</tr>" for row in rows
    )
    titled = f"<thead><tr>{head}</tr></thead>" if titles else ""
    kind = ' class="stacks"' if stacks else ""
    return f'<div class="scroll"><table{kind}>{titled}<tbody>{body}</tbody></table></div>'


def _data(key: str, value: int, text: str) -> str:
    return f'<data data-figure="{escape(key)}" value="{value}">{escape(text or f"{value:,}")}</data>'


def _words(name: str) -> str:
    named = {
        "data_bytes": "size",
        "records": "rows",
        "median_file_bytes": "median size",
        "requests_saved": "requests that a compaction would save a full scan",
        "bytes_saved": "bytes that it would save",
        "requests_no_more": "requests saved",
        "deleted_bytes": "storage freed",
    }
    return named.get(name, name.replace("_", " "))

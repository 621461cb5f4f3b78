"""Charts as SVG inside the page: bars for file sizes, a line for the number of files over a table's history."""

from collections.abc import Sequence
from html import escape

from tableformat.inspection.health import SizeBucket
from tableformat.inspection.history import HistoryEntry
from tableformat.plurals import plural
from tablewright.cli.output import size

_WIDTH, _ROW, _LABEL, _COUNT = 360, 24, 92, 52
_LINE_HEIGHT = 120


def histogram(buckets: Sequence[SizeBucket], small_below: int) -> str:
    """A bar for each power of two; those below the target are in another colour."""
    if not buckets:
        return '<p class="quiet">no data files</p>'
    most = max(bucket.files for bucket in buckets)
    room = _WIDTH - _LABEL - _COUNT
    height = _ROW * len(buckets)
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Data files by size" '
        f'xmlns="http://www.w3.org/2000/svg">'
    ]
    for number, bucket in enumerate(buckets):
        top = number * _ROW
        width = max(2.0, room * bucket.files / most)
        kind = "bar small" if bucket.below_bytes <= small_below else "bar"
        parts.append(
            f"<g><title>{plural(bucket.files, 'file')} below {escape(size(bucket.below_bytes))}</title>"
            f'<text class="label" x="{_LABEL - 8}" y="{top + 16}" text-anchor="end">'
            f"&lt; {escape(size(bucket.below_bytes))}</text>"
            f'<rect class="{kind}" x="{_LABEL}" y="{top + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2" '
            f'data-below="{bucket.below_bytes}" data-files="{bucket.files}"/>'
            f'<text class="label" x="{_LABEL + width + 6:.1f}" y="{top + 16}">{bucket.files:,}</text></g>'
        )
    return "".join([*parts, "</svg>"])


def files_over_time(history: Sequence[HistoryEntry]) -> str:
    """A step for each snapshot on the way to the current one, oldest at the left; nothing to draw below two."""
    steps = [entry for entry in reversed(history) if entry.on_main and entry.total_files is not None]
    if len(steps) < 2:
        return ""
    counts = [entry.total_files or 0 for entry in steps]
    most = max(max(counts), 1)
    across = (_WIDTH - 2) / (len(counts) - 1)
    points = [
        (1 + number * across, 8 + (_LINE_HEIGHT - 16) * (1 - count / most)) for number, count in enumerate(counts)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    first, last = steps[0].time, steps[-1].time
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_LINE_HEIGHT}" role="img" '
        f'aria-label="Data files after each commit" xmlns="http://www.w3.org/2000/svg">'
        f'<polyline class="line" points="{line}" data-counts="{",".join(map(str, counts))}"/></svg>'
        f'<p class="quiet">at most {max(counts):,}, now {counts[-1]:,}; {first:%Y-%m-%d %H:%M} to {until} UTC</p>'
    )

"""One self-contained page about a table or a fleet: no network, no script; light and dark; printable.

`gather` collects the values, `page` turns them into HTML, `charts` draws. Every figure carries its exact value
(`<data value>`), so that a program can read the page as well as a person.
"""

from tablewright.cli.report.gather import gather_folder, gather_table
from tablewright.cli.report.page import render_page
from tablewright.cli.report.values import ReportedTable

__all__ = ["ReportedTable", "gather_folder", "gather_table", "render_page"]

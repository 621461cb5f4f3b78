"""`tablewright report`: one self-contained page about a table or a fleet."""

from pathlib import Path
from typing import Annotated

import typer

from tablewright.cli import options


def report(
    target: Annotated[Path, typer.Option("--output", "-o", help="The page to write, such as report.html.")],
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One table; with -f alone, all of them.")] = None,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
) -> None:
    """Write one page about a folder's tables, or about one table of any catalog: health, histograms, runs, savings.

    The page needs no network and no script; it is readable in light and dark, on a phone and on paper.

    Example: tablewright report -f demo -o report.html
    """
    from datetime import UTC, datetime

    from tableformat.secrets import KNOWN
    from tablewright.cli.catalogs import AddressOptions, address
    from tablewright.cli.exits import InputError
    from tablewright.cli.output import tell
    from tablewright.cli.places import state_folder
    from tablewright.cli.report import gather_folder, gather_table, render_page

    now = datetime.now(UTC)
    if target.is_dir():
        raise InputError(f"{target} is a folder: give a file, such as {target / 'report.html'}")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to write {target.name} into")
    if table is None:
        if not folders:
            raise InputError("which tables? Give -f FOLDER, or a TABLE and its catalog")
        found = gather_folder(folders, state_folder(folders, state), now=now)
        title = f"Tables of {', '.join(folder.resolve().name for folder in folders)}"
    else:
        options_given = AddressOptions(catalog, catalog_uri, properties or (), folders or (), state)
        found = [gather_table(address(table, options_given), now=now)]
        title = found[0].name
    scratch = target.with_name(target.name + ".part")  # a reader never sees half a page
    page = KNOWN.hide(render_page(found, title=title, now=now))
    try:
        scratch.write_text(page, encoding="utf-8")
        scratch.replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}") from None
    tell(f"wrote {target}: {len(found)} table{'s' * (len(found) != 1)}")

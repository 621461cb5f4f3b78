"""`tablewright export`: the declarations of tables that are there, so that adopting them is one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tablewright.cli import completion, options

if TYPE_CHECKING:
    from tablewright.cli.catalogs import AddressedCatalog


def export(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="namespace.table, or a namespace (default: all tables of the catalog).",
            autocompletion=completion.tables_and_namespaces,
        ),
    ] = None,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Folder for the files (default: standard output).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of the folder that differ.")] = False,
    catalog_ref: Annotated[
        str | None,
        typer.Option(
            help="A TableCatalog that is declared already (default: the catalog's own is written, too); with -f, the "
            "one to export.",
            autocompletion=completion.declared_catalogs,
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", help="The declarations' namespace (default: the tables' own, or default for several)."
        ),
    ] = None,
) -> None:
    """Write the ManagedTables of tables that are there already, and their TableCatalog. Applied, they change nothing.

    Tables that cannot be declared are named, the others are written, and the exit code is 1. With -f, tables of the
    folder's TableCatalog that the folder does not declare yet are exported. No key and no password is written; a
    comment says which are needed.

    Examples: tablewright export sales.payments --catalog lake > payments.yaml; tablewright export --catalog lake --to
    tables
    """
    from tableformat.plurals import plural
    from tablewright.cli.catalogs import AddressOptions, catalogs
    from tablewright.cli.exits import ExitCode, InputError, exit_code_of, told
    from tablewright.cli.exporting import export_files
    from tablewright.cli.output import echo, tell

    if overwrite and to is None:
        raise InputError("--overwrite is for files: give --to DIR")
    given = AddressOptions(catalog, catalog_uri, properties or (), folders or (), state)
    found = _one_of(catalogs(given), catalog_ref)
    wanted = _wanted(found, name)
    is_within = to is not None and any(to.resolve().is_relative_to(folder.resolve()) for folder in folders or ())
    files = export_files(
        found,
        wanted,
        catalog_ref=catalog_ref,
        namespace=namespace,
        with_catalog=not is_within if folders else catalog_ref is None,
    )
    if len(wanted) == 1 and files.failures:
        raise files.failures[0].error
    if to is None:
        echo("---\n".join(files.texts.values()).rstrip())
    else:
        files.write(to, overwrite=overwrite)
        tell(f"exported {plural(files.tables, 'table')} to {to}")
    for failure in files.failures:
        tell(f"error: {failure.table} is not exported: {told(failure.error).removeprefix(f'{failure.table}: ')}")
    if files.failures:
        away = any(exit_code_of(failure.error) is ExitCode.UNREACHABLE for failure in files.failures)
        raise typer.Exit(ExitCode.UNREACHABLE if away else ExitCode.NOT_AS_WANTED)


def _one_of(found: "list[AddressedCatalog]", name: str | None) -> "AddressedCatalog":
    from tablewright.cli.exits import InputError

    if found[0].declared is None:
        return found[0]
    named = [each for each in found if each.declared and name in (None, each.declared.metadata.name)]
    if len(named) != 1:
        there = ", ".join("/".join(each.declared.key) for each in found if each.declared)
        raise InputError(f"--catalog-ref: name one TableCatalog of the folder to export; declared are {there}")
    return named[0]


def _wanted(found: "AddressedCatalog", name: str | None) -> list[tuple[str, ...]]:
    from tablewright.cli.exits import InputError

    parts = None if name is None else tuple(name.split("."))
    if parts is not None and len(parts) > 1 and found.has_table(parts):
        if parts in found.tables:
            raise InputError(f"{name} is declared by ManagedTable {found.tables[parts]} already")
        return [parts]
    if parts is not None and len(parts) > 1 and not found.has_namespace(parts):
        found.load(parts)  # says which name is near
    there = found.identifiers(parts)
    wanted = [identifier for identifier in there if identifier not in found.tables]
    if not wanted:
        where = f"namespace {name}" if name else f"catalog {found.config.name}"
        raise InputError(f"there are no tables to export in {where}" + (": all are declared" if there else ""))
    return wanted

"""`tablewright export`: an existing table's declaration, so that adopting it is one command."""

from typing import Annotated

import typer

from tablewright.cli import options


def export(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    catalog_ref: Annotated[str, typer.Option(help="The TableCatalog that the declaration refers to.")] = "lake",
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="The declaration's namespace.")] = None,
) -> None:
    """Write the ManagedTable of a table that is there already. Applied to that table, it changes nothing.

    Example: tablewright export sales.payments --catalog lake > payments.yaml
    """
    from tablewright.api.export import export_table
    from tablewright.cli.catalogs import AddressOptions, address
    from tablewright.cli.output import as_yaml, echo

    found = address(table, AddressOptions(catalog, catalog_uri, properties or ()))
    exported = export_table(found.load().metadata, found.identifier, catalog=catalog_ref, namespace=namespace)
    for note in exported.notes:
        echo(f"# {note}")
    echo(as_yaml(exported.manifest).rstrip())

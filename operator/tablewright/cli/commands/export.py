"""`tablewright export`: an existing table's declaration, so that adopting it is one command."""

from typing import Annotated

import typer

from tablewright.cli import options


def export(
    table: options.TableName,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    catalog_ref: Annotated[
        str | None,
        typer.Option(help="A TableCatalog that is declared already (default: the table's own is written, too)."),
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="The declaration's namespace.")] = None,
) -> None:
    """Write the ManagedTable of a table that is there already, and its TableCatalog. Applied, they change nothing.

    No key and no password is written; a comment says which are needed.

    Example: tablewright export sales.payments --catalog lake > payments.yaml
    """
    from tablewright.api.export import export_table, object_name
    from tablewright.api.export_catalog import export_catalog
    from tablewright.cli.catalogs import BY_ADDRESS, NO_WAREHOUSE, AddressOptions, address, catalog_config
    from tablewright.cli.output import as_yaml, echo

    options_given = AddressOptions(catalog, catalog_uri, properties or ())
    config = catalog_config(options_given)
    found = address(table, options_given)
    metadata = found.load().metadata
    own_name = "lake" if config.name == BY_ADDRESS else object_name(config.name)
    exported = export_table(metadata, found.identifier, catalog=catalog_ref or own_name, namespace=namespace)
    if catalog_ref is None:
        known = {key: value for key, value in config.properties.items() if value != NO_WAREHOUSE}
        its_catalog = export_catalog(
            config.model_copy(update={"properties": known}),
            metadata.location,
            found.identifier,
            name=own_name,
            namespace=exported.manifest["metadata"]["namespace"],
        )
        for note in its_catalog.notes:
            echo(f"# {note}")
        echo(as_yaml(its_catalog.manifest) + "---")
    for note in exported.notes:
        echo(f"# {note}")
    echo(as_yaml(exported.manifest).rstrip())

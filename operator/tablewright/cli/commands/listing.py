"""`tablewright list`: the tables of a catalog, declared or not."""

from tablewright.cli import options
from tablewright.cli.output import Column, ListFormat


def list_tables(
    namespace: options.CatalogNamespace = None,
    catalog: options.CatalogName = None,
    catalog_uri: options.CatalogUri = None,
    properties: options.Properties = None,
    folders: options.Folders = None,
    state: options.State = None,
    output: options.Names = ListFormat.TABLE,
) -> None:
    """List the tables of a catalog, or of one namespace in it; with -f, of all catalogs of the folder.

    DECLARED BY, with -f, is the ManagedTable that declares the table.

    Examples: tablewright list --catalog lake; tablewright list sales -f demo -o name
    """
    from tablewright.cli.catalogs import AddressOptions, catalogs
    from tablewright.cli.output import echo, show, tell

    found = catalogs(AddressOptions(catalog, catalog_uri, properties or (), folders or (), state))
    wanted = None if namespace is None else tuple(namespace.split("."))
    tables = [(each, identifier) for each in found for identifier in each.identifiers(wanted)]
    if output is ListFormat.NAME:
        for _, identifier in tables:
            echo(".".join(identifier))
        return
    document = [
        {
            "catalog": each.config.name if each.declared is None else "/".join(each.declared.key),
            "namespace": ".".join(identifier[:-1]),
            "name": identifier[-1],
            **({"declaredBy": each.tables[identifier]} if identifier in each.tables else {}),
        }
        for each, identifier in tables
    ]
    if not document and output in (ListFormat.TABLE, ListFormat.WIDE):
        tell("no tables found")
        return
    titles = {"catalog": "CATALOG", "namespace": "NAMESPACE", "name": "TABLE"}
    titles |= {"declaredBy": "DECLARED BY"} if folders else {}
    rows = [[entry.get(key) for key in titles] for entry in document]
    show(output.as_output, [Column(title) for title in titles.values()], rows, {"tables": document})

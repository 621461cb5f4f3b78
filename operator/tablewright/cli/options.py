"""The options that several commands share, each worded once. Light to import: `--help` must not wait for libraries."""

from pathlib import Path
from typing import Annotated

import typer

from tablewright.cli import completion
from tablewright.cli.output import ListFormat, OutputFormat

Names = Annotated[ListFormat, typer.Option("--output", "-o", help="How results are shown; name prints names only.")]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="How results are shown.")]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="namespace.table; with -f, the declaration's own name will do.",
        autocompletion=completion.tables,
    ),
]
CatalogNamespace = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAMESPACE]",
        help="Only tables of this namespace of the catalog.",
        autocompletion=completion.catalog_namespaces,
    ),
]
CatalogName = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME",
        help="A catalog of PyIceberg's own configuration.",
        autocompletion=completion.catalogs,
    ),
]
CatalogUri = Annotated[
    str | None,
    typer.Option("--catalog-uri", metavar="URI", help="A catalog's address: https:// (REST), sqlite:///, thrift://."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="KEY=VALUE", help="A property of the catalog or its storage; may be repeated."),
]
_FILENAME = "YAML file, folder of YAML files, or - for standard input; may be repeated."
Folders = Annotated[list[Path] | None, typer.Option("--filename", "-f", help=_FILENAME)]
DeclaredFolders = Annotated[list[Path], typer.Option("--filename", "-f", help=_FILENAME)]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse objects of other kinds instead of skipping them.")]
State = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the embedded catalog, warehouse and history (default: .tablewright beside the first -f)."
    ),
]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="A kubeconfig file (default: kubectl's own).")]
Context = Annotated[str | None, typer.Option("--context", help="A context of the kubeconfig.")]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Only objects of this namespace.", autocompletion=completion.namespaces),
]

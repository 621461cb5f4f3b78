"""`tablewright validate`: what an API server and the operator would refuse, without either."""

from tableformat.plurals import plural
from tablewright.cli import options
from tablewright.cli.exits import ExitCode
from tablewright.cli.output import OutputFormat


def validate(
    paths: options.DeclaredFolders, strict: options.Strict = False, output: options.Output = OutputFormat.TABLE
) -> None:
    """Check a folder of declarations by the rules of the API server, CEL included, and of the operator.

    Every problem of the folder is named at once, with file, line and column. Nothing is read but the folder.

    Example: tablewright validate -f examples/quickstart
    """
    import typer

    from tablewright.cli.output import as_json, as_yaml, echo, tell
    from tablewright.embedded.folder import InvalidFolderError, Validation, validate_folder

    try:
        found = validate_folder(*paths, strict=strict)
    except InvalidFolderError as error:
        found = Validation(0, tuple(error.findings))
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        document = {
            "valid": not found.findings,
            "objects": found.objects,
            "notes": list(found.notes),
            "skipped": dict(sorted(found.skipped.items())),
            "problems": [
                {"place": finding.place, "message": finding.message, "refusedBy": finding.judge.value}
                for finding in found.findings
            ],
        }
        echo(as_json(document) if output is OutputFormat.JSON else as_yaml(document).rstrip())
    else:
        for finding in found.findings:
            tell(f"error: {finding}")
        for note in found.notes:
            tell(f"note: {note}")
        problems = plural(len(found.findings), "problem") if found.findings else "no problems"
        echo(f"{plural(found.objects, 'object')}: {problems}")
    raise typer.Exit(ExitCode.BAD_INPUT if found.findings else ExitCode.FINE)

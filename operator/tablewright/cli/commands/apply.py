"""`tablewright apply`: the operator's own passes over a folder, here and now, once or again and again."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tablewright.cli import options
from tablewright.cli.exits import ExitCode
from tablewright.cli.output import echo, tell


def apply(
    paths: options.DeclaredFolders,
    state: options.State = None,
    strict: options.Strict = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on: when a file changes, and every so many seconds.")
    ] = False,
    interval: Annotated[int, typer.Option(min=1, help="With --watch: seconds between two looks at the tables.")] = 30,
) -> None:
    """Bring every declared table to its declaration, and run the maintenance that is due.

    Without a TableCatalog in the folder, tables are kept in SQLite and a local warehouse; Spark runs in local mode, and
    needs Java 17 or later. Interrupted at any point, the next call takes up what this one left.

    Example: tablewright apply -f examples/quickstart
    """
    from tablewright.cli.exits import InputError
    from tablewright.embedded.documents import STANDARD_INPUT

    if not watch:
        raise typer.Exit(_apply_once(paths, state, strict=strict))
    if STANDARD_INPUT in paths:
        raise InputError("--watch cannot follow standard input: give a file or a folder with -f")
    _apply_for_ever(paths, state, interval, strict=strict)


def _apply_for_ever(paths: Sequence[Path], state: Path | None, interval: int, *, strict: bool) -> None:
    from tablewright.embedded.folder import InvalidFolderError

    shown = ""
    try:
        while True:
            seen = _fingerprint(paths)
            try:
                _, table = _apply_quietly(paths, state, strict=strict, by_itself=bool(shown))
                if table != shown:
                    echo(table)
                    shown = table
            except InvalidFolderError as error:
                for problem in error.problems:
                    tell(f"error: {problem}")
                tell("nothing was changed; waiting for the files to be corrected")
            until = time.monotonic() + interval
            while time.monotonic() < until and _fingerprint(paths) == seen:
                time.sleep(0.5)
    except KeyboardInterrupt:  # how people end it
        raise typer.Exit(ExitCode.FINE) from None


def _fingerprint(paths: Sequence[Path]) -> frozenset[tuple[str, int, int]]:
    """Of the declarations: it changes when one of them does."""
    from tablewright.embedded.folder import declaration_files

    seen = set()
    for file in (file for path in paths for file in declaration_files(path)):
        with suppress(FileNotFoundError):  # gone since it was listed: editors and Git replace files
            known = file.stat()
            seen.add((str(file), known.st_mtime_ns, known.st_size))
    return frozenset(seen)


def _apply_once(paths: Sequence[Path], state: Path | None, *, strict: bool) -> ExitCode:
    code, table = _apply_quietly(paths, state, strict=strict)
    echo(table)
    return code


def _apply_quietly(
    paths: Sequence[Path], state: Path | None, *, strict: bool, by_itself: bool = False
) -> tuple[ExitCode, str]:
    """Tells of the work as it goes; the table is for the caller to show."""
    from tablewright.cli.places import state_folder
    from tablewright.cli.progress import progress_display
    from tablewright.cli.rendering import describe_event, status_table, troubles, waiting
    from tablewright.embedded.apply import RunEnded, RunProgressed, RunStarted, TableDone, apply_folder, did_not_answer
    from tablewright.embedded.folder import read_folder
    from tablewright.embedded.state import EmbeddedState

    declarations = read_folder(*paths, strict=strict)
    for note in () if by_itself else declarations.notes:
        tell(f"note: {note}")
    done = []
    with progress_display() as display:
        for event in apply_folder(declarations, EmbeddedState(state_folder(paths, state)), by_itself=by_itself):
            if isinstance(event, RunProgressed):
                display.at(event.run.metadata.name, event.progress)
                continue
            if isinstance(event, TableDone):
                done.append(event)
                continue
            if isinstance(event, RunEnded):
                display.end(event.run.metadata.name)
            display.say(describe_event(event))
            if isinstance(event, RunStarted):
                display.begin(event.run.metadata.name, f"{event.run.spec.operation} {event.table.metadata.name}")
    places = [table.key for table in declarations.tables]
    done.sort(key=lambda event: places.index(event.table.key))
    for line in (*waiting(done), *troubles(done)):
        tell(line)
    code = ExitCode.NOT_AS_WANTED if troubles(done) else ExitCode.FINE
    if any(did_not_answer(event.table.status) for event in done):
        code = ExitCode.UNREACHABLE
    return code, status_table([event.table for event in done])

"""What is typed: mistakes in one line, help that fits its terminal, completion as a shell asks for it."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.integration.cli.conftest import environment, run_cli, run_in_terminal

BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["aply"], "No such command 'aply'. Did you mean 'apply'? (see"),
        (["run", "comapct", "sales.events"], "No such command 'comapct'. Did you mean 'compact'? (see"),
        (["apply"], "Missing option '--filename' / '-f' (see"),
        (["get"], "Missing argument 'KIND' (see"),
        (["plan", "-f", ".", "-o", "yml"], "Invalid value for '--output' / '-o': 'yml' is not one of 'text', 'json'"),
        (["rollback", "a.b", "--to-snapshot", "x"], "Invalid value for '--to-snapshot': Input should be a valid int"),
        (["history", "a.b", "--limit", "0"], "Invalid value for '--limit': Input should be greater than or equal to 1"),
        (["apply", "-f", ".", "--wacth"], "No such option: --wacth"),
    ],
)
def test_a_mistake_is_one_line_for_people_and_scripts(arguments: list[str], complaint: str) -> None:
    ended = run_cli(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {complaint}")
    assert ended.err.count("\n") == 1
    assert "Value error" not in ended.err


def test_nothing_typed_shows_the_help_once() -> None:
    ended = run_cli()
    assert ended.code == 2
    assert (ended.out + ended.err).count("Usage: ") == 1


def test_its_version_is_the_packages() -> None:
    assert run_cli("--version").out == f"tablewright {version('tablewright')}\n"


def test_paragraphs_of_the_help_are_broken_by_the_terminal_and_not_by_the_source() -> None:
    shown = run_cli("apply", "--help", COLUMNS="200", TERMINAL_WIDTH="200")
    [line] = [line for line in shown.out.splitlines() if "Without a TableCatalog" in line]
    assert "Spark runs in local mode, and needs Java 17 or later." in line


def test_help_has_colours_in_a_terminal_only() -> None:
    assert "\x1b[" in run_in_terminal("plan", "--help").out
    assert "\x1b[" not in run_cli("plan", "--help").out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tablewright ro", ["rollback"]),
        ("tablewright get p", ["policies"]),
        ("tablewright run comp", ["compact"]),
        ("tablewright hold ", ["list", "place", "release"]),
        ("tablewright plan --ex", ["--exit-code"]),
        ("tablewright get tables -o w", ["wide"]),
        ("kubectl-tablewright des", ["describe"]),
    ],
)
def test_a_shell_completes_commands_options_and_kinds(typed: str, offered: list[str]) -> None:
    """By the script that --show-completion gives, in a real bash."""
    command, last = typed.split(" ")[0], len(typed.split(" ")) - 1
    script = subprocess.run(
        [BIN / command, "--show-completion", "bash"], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert script.returncode == 0, script.stderr
    name = f"_{command.replace('-', '_')}_completion"
    asking = f"COMP_WORDS=({typed}{' ' + repr('') if typed.endswith(' ') else ''}); COMP_CWORD={last}"
    done = subprocess.run(
        ["bash", "-c", f'{script.stdout}\n{asking}\n{name} {command}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'],
        env=environment(PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == offered, done.stderr

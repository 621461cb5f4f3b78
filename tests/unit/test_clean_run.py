"""The wrapper of the suites notices what a run leaves behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


WITH_PATIENCE = """
import sys
sys.path.insert(0, {folder!r})
import clean_run
clean_run.SETTLE_SECONDS = {settle}
sys.exit(clean_run.main(sys.argv[1:]))
"""


def clean_run(
    script: str,
    *,
    settle: float = 1,
    cwd: Path = ROOT,
    preexec_fn: Callable[[], object] | None = None,
    **environment: str,
) -> "subprocess.CompletedProcess[str]":
    patient = WITH_PATIENCE.format(folder=str(ROOT / "tools"), settle=settle)
    command = [sys.executable, "-c", patient, sys.executable, "-c", script]
    own = {name: value for name, value in os.environ.items() if name != "CI"}
    env = {**own, **environment}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, preexec_fn=preexec_fn)


def test_a_run_that_cleans_up_passes() -> None:
    assert clean_run("import tempfile; tempfile.TemporaryDirectory().cleanup()").returncode == 0


def test_the_commands_own_failure_is_kept() -> None:
    assert clean_run("raise SystemExit(3)").returncode == 3


def test_a_run_in_the_background_takes_ctrl_c_as_any_other() -> None:
    """Shells have what they start in the background ignore it."""
    script = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)"
    assert clean_run(script, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)).returncode == 0


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("import tempfile; tempfile.mkstemp(prefix='forgotten-')", "forgotten-"),
        ("import subprocess; subprocess.Popen(['sleep', '77'], start_new_session=True)", "sleep 77"),
    ],
    ids=["file", "process"],
)
def test_what_is_left_behind_fails_the_run(script: str, complaint: str) -> None:
    result = clean_run(script)
    assert result.returncode == 1
    assert "left behind" in result.stderr
    assert complaint in result.stderr


def test_in_ci_the_shared_folder_for_temporary_files_is_watched_too(tmp_path: Path) -> None:
    script = f"open({str(tmp_path / 'spark-stray')!r}, 'w').close()"
    result = clean_run(script, cwd=tmp_path, CI="true", TMPDIR=str(tmp_path))
    assert result.returncode == 1
    assert "spark-stray" in result.stderr


@pytest.mark.parametrize("left", [".stray", ".config/stray"])
def test_in_ci_the_home_folder_is_watched_too(tmp_path: Path, left: str) -> None:
    (tmp_path / "home" / ".config").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "there-before").touch()
    script = f"open({str(tmp_path / 'home' / left)!r}, 'w').close()"
    result = clean_run(script, cwd=tmp_path, CI="true", TMPDIR=str(tmp_path), HOME=str(tmp_path / "home"))
    assert result.returncode == 1
    assert result.stderr.splitlines() == [f"left behind: file {tmp_path / 'home' / left}"]


BY_ANOTHER = """
import subprocess, sys, time
from pathlib import Path
stray = Path({stray!r})
another = "import sys, time, pathlib; stray = pathlib.Path(sys.argv[1]); stray.touch(); time.sleep(1); stray.unlink()"
subprocess.Popen([sys.executable, "-c", another, str(stray)], env={{}})  # without the mark
while not stray.exists():
    time.sleep(0.01)
"""


def test_in_ci_what_others_make_for_a_moment_is_not_held_against_the_run(tmp_path: Path) -> None:
    script = BY_ANOTHER.format(stray=str(tmp_path / "tmp-stray"))
    result = clean_run(script, settle=60, cwd=tmp_path, CI="true", TMPDIR=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")

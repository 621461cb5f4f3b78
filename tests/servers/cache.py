"""Where built and fetched server binaries are kept: one folder an entry, outside the checkout.

An entry is keyed by the digest of its recipe, made in a scratch folder and renamed into place, so that it is either
whole or absent. A receipt lists every file with its size; an entry that no longer agrees with its receipt (a binary
cut short, a file deleted) is made again. A lock file lets two runs on one machine ask for the same entry at once.
"""

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

RECEIPT = "receipt.json"


class SetupError(RuntimeError):
    """Set-up cannot go on; the message is one line that says what is wrong and what to do."""


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tablewright"


def say(message: str) -> None:
    print(f"[setup] {message}", file=sys.stderr, flush=True)


def ensure_entry(name: str, make: Callable[[Path], None], *, root: Path | None = None) -> Path:
    """The folder of the entry, made first if it is absent or broken."""
    root = root or cache_root()
    entry = root / name
    if is_whole(entry):
        return entry
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / f"{name}.lock"):
        if is_whole(entry):  # another run made it while this one waited
            return entry
        if entry.exists():
            say(f"{name}: the cached copy is broken, making it again")
            shutil.rmtree(entry)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
        try:
            make(scratch)
            _write_receipt(scratch)
            scratch.chmod(0o755)
            scratch.rename(entry)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return entry


def is_whole(entry: Path) -> bool:
    try:
        receipt: dict[str, int] = json.loads((entry / RECEIPT).read_text())
        return all((entry / name).stat().st_size == size for name, size in receipt.items())
    except (OSError, ValueError):
        return False


def _write_receipt(folder: Path) -> None:
    files = {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
    if not files:
        raise SetupError(f"nothing was made in {folder}")
    (folder / RECEIPT).write_text(json.dumps(files, indent=1))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other runs on this machine out until the end of the block."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that makes {path.stem}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield

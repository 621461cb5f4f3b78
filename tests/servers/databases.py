"""PostgreSQL and MariaDB, each with a data folder of its own, on a free port of this machine, for SQL catalogs.

Neither server runs as root: where the tests do, the server runs as `nobody`, who then owns its folder.
"""

import getpass
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from tests.servers import toolchain
from tests.servers.process import ServerError, ServerProcess, free_port, start_on_free_ports

PASSWORD = "a-pass/word@of:ours"
_NOBODY = "nobody"


@dataclass(frozen=True)
class DatabaseAccess:
    """`address` is that of the server's administrator, with the password in it."""

    address: str

    def new_database(self, name: str) -> URL:
        url = make_url(self.address)
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
        finally:
            engine.dispose()
        return url.set(database=name)


class _Database:
    """What the two have in common: a folder, a user who is not root, and a port."""

    name: str

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._user = _NOBODY if os.geteuid() == 0 else getpass.getuser()
        if os.geteuid() == 0:
            account = pwd.getpwnam(_NOBODY)
            os.chown(folder, account.pw_uid, account.pw_gid)
            _open_the_way_to(folder)
        self._prepare()
        self.access = start_on_free_ports(self._start)

    def stop(self) -> None:
        self._process.stop(grace=20)

    def restart(self) -> None:
        """On the same port, which breaks every connection."""
        self._process.kill()
        self._serve(make_url(self.access.address), *self._command)

    def _prepare(self) -> None:
        raise NotImplementedError

    def _start(self) -> DatabaseAccess:
        raise NotImplementedError

    def _as_user(self, *command: str) -> list[str]:
        if os.geteuid() != 0:
            return list(command)
        return ["setpriv", "--reuid", _NOBODY, "--regid", str(pwd.getpwnam(_NOBODY).pw_gid), "--clear-groups", *command]

    def _run(self, *command: str, stdin: str | None = None) -> None:
        done = subprocess.run(
            self._as_user(*command),
            input=stdin,
            cwd=self._folder,
            capture_output=True,
            text=True,
            env=self._environment,
        )
        if done.returncode:
            raise ServerError(f"{self.name}: {command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self._folder), "TMPDIR": str(self._folder), "LC_ALL": "C"}

    def _serve(self, url: URL, *command: str) -> DatabaseAccess:
        self._command = command
        self._process = ServerProcess(
            self.name, self._as_user(*command), log=self._folder / "server.log", env=self._environment
        )
        self._process.wait_until(lambda: _answers(url))
        return DatabaseAccess(url.render_as_string(hide_password=False))


def _open_the_way_to(folder: Path) -> None:
    """Temporary folders are closed to others, and a run's own are in one another."""
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IXOTH:
            break
        parent.chmod(stat.S_IMODE(mode) | stat.S_IXGRP | stat.S_IXOTH)


def _answers(url: URL) -> bool:
    engine = create_engine(url)
    try:
        engine.connect().close()
        return True
    except OperationalError:
        return False
    finally:
        engine.dispose()


class PostgresServer(_Database):
    name = "PostgreSQL"

    def _prepare(self) -> None:
        self._programs = toolchain.postgresql()
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ["--auth=scram-sha-256", "--username=lake", f"--pwfile={secret}", "--encoding=UTF8", "--no-sync"]
        self._run(str(self._programs / "initdb"), "-D", str(self._folder / "data"), *options)

    def _start(self) -> DatabaseAccess:
        port = free_port()
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "jit": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        url = URL.create("postgresql+psycopg", "lake", PASSWORD, "127.0.0.1", port, "postgres")
        data = ["-D", str(self._folder / "data"), "-p", str(port)]
        return self._serve(url, str(self._programs / "postgres"), *data, *options)


class MariaDbServer(_Database):
    name = "MariaDB"

    def _prepare(self) -> None:
        self._program = toolchain.mariadb()
        data = ["--no-defaults", f"--datadir={self._folder / 'data'}", "--auth-root-authentication-method=normal"]
        installer = shutil.which("mariadb-install-db") or "mariadb-install-db"
        self._run(installer, *data, f"--user={self._user}", "--skip-test-db")

    def _start(self) -> DatabaseAccess:
        port = free_port()
        first = self._folder / "first.sql"
        first.write_text(
            f"CREATE USER IF NOT EXISTS 'lake'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            "GRANT ALL PRIVILEGES ON *.* TO 'lake'@'127.0.0.1';\n"
        )
        options = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={self._folder / 'socket'}"]
        options += [f"--init-file={first}", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2"]
        url = URL.create("mysql+pymysql", "lake", PASSWORD, "127.0.0.1", port)
        return self._serve(url, self._program, "--no-defaults", f"--datadir={self._folder / 'data'}", *options)

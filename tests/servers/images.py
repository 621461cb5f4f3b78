"""Builds the project's images from their real Dockerfiles with buildah, and runs commands in them as a node would.

No registry is needed: the base image is made from Debian packages. Everything is kept in the cache folder, where an
unchanged layer is found again; containers and mounts live in a namespace of one command or end with the store. What a
build needs to know of this machine (certificates, package settings) is mounted while it runs and is in no image.
"""

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import toolchain
from tests.servers.cache import SetupError, cache_root, ensure_entry, locked, say

CHECKOUT = Path(__file__).parents[2]
DEBIAN_SUITE = "bookworm"
SETTINGS_MOUNT = "/media"  # there, and empty, in every image of the Debian family: a mount leaves no trace


@dataclass(frozen=True)
class ImageSource:
    name: str
    dockerfile: str
    drivers: str = ""
    """The build argument DRIVERS: database drivers, by the names of the package's extras."""


OPERATOR = ImageSource("localhost/tablewright:test", "Dockerfile")
JOBS = ImageSource("localhost/tablewright-jobs:test", "spark_images/Dockerfile")
PAUSE = "localhost/tablewright-pause:test"


def base_root_file_system() -> Path:
    """A small Debian with Python, as the public base images have it, in one archive."""
    options = ["--variant=apt", "--include=ca-certificates,python3,python3-venv"]
    # a mirror may be a copy of an earlier day
    options += ['--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=Acquire::Languages "none"']
    options += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
    options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
    options += ['--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf"']  # they are this machine's
    digest = hashlib.sha256("\n".join(options).encode()).hexdigest()[:8]

    def make(folder: Path) -> None:
        started = time.monotonic()
        say("making the base of the images from Debian packages (a minute, once)")
        # Without sources of ours it takes the suite's own, with its updates and security updates.
        command = [toolchain.mmdebstrap(), "--quiet", *options, DEBIAN_SUITE, str(folder / "base.tar")]
        toolchain.run([*_as_root(), *command], what="the base of the images")
        say(f"made the base in {time.monotonic() - started:.0f} s")

    return ensure_entry(f"image-base-{DEBIAN_SUITE}-{digest}", make) / "base.tar"


@contextlib.contextmanager
def open_store() -> Iterator["ImageStore"]:
    """The store of images, for one run at a time."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with locked(cache_root() / "images.lock"), tempfile.TemporaryDirectory(prefix="tablewright-images-") as scratch:
        store = ImageStore(cache_root() / "images", Path(scratch))
        store.remove_containers()  # of a run that was killed
        try:
            yield store
        finally:
            store.remove_containers()


class ImageStore:
    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder
        self._scratch = scratch
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        self._settings = _machine_settings(scratch / "settings")
        self._driver = "overlay" if _can_mount_overlays(folder) else "vfs"

    def build(self, source: ImageSource) -> "Image":
        started = time.monotonic()
        base, drivers = self._base(), [f"--build-arg=DRIVERS={source.drivers}"]
        say(f"building {source.name} from {source.dockerfile}")
        if self._driver == "overlay":
            # vfs copies every layer whole: there, keeping layers costs more than it saves
            builder = source.name.replace(":", "-builder:")  # with a name, it outlives the pruning below
            self._build(
                ["--layers", "--target", "builder", *drivers], builder, CHECKOUT / source.dockerfile, CHECKOUT, base
            )
            self._build(["--layers", *drivers], source.name, CHECKOUT / source.dockerfile, CHECKOUT, base)
        else:
            self._build(drivers, source.name, CHECKOUT / source.dockerfile, CHECKOUT, base)
        self._buildah("rmi", "--prune")
        say(f"built {source.name} in {time.monotonic() - started:.0f} s")
        return Image(self, source.name, json.loads(self._buildah("inspect", "--type", "image", source.name))["OCIv1"])

    def build_pause(self) -> None:
        """What holds a pod's namespaces on a node: it only has to be there."""
        dockerfile = self._scratch / "pause.Dockerfile"
        dockerfile.write_text('ARG BASE\nFROM ${BASE}\nENTRYPOINT ["sleep", "infinity"]\n')
        self._build(["--layers"], PAUSE, dockerfile, self._scratch, self._base())

    def export(self, name: str) -> Path:
        """The image as an archive that a container runtime imports; made once for each version of it."""
        version = self._buildah("inspect", "--type", "image", "--format", "{{.FromImageID}}", name)[:16]
        folder, stem = self._folder / "exported", name.rpartition("/")[2].replace(":", "-")
        archive = folder / f"{stem}-{version}.tar"
        if not archive.exists():
            say(f"exporting {name}")
            folder.mkdir(exist_ok=True)
            for older in folder.glob(f"{stem}-????????????????.tar*"):
                older.unlink()
            part = archive.with_suffix(".tar.part")
            self._buildah("push", "--quiet", name, f"docker-archive:{part}:{name}", what=name)
            part.rename(archive)
        return archive

    def remove_containers(self) -> None:
        self._buildah("rm", "--all")

    def _base(self) -> str:
        archive = base_root_file_system()
        name = f"localhost/tablewright-{archive.parent.name}:test"
        if not self._buildah("images", "--quiet", "--filter", f"reference={name}"):
            dockerfile = self._scratch / "base.Dockerfile"
            path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            dockerfile.write_text(f'FROM scratch\nADD {archive.name} /\nENV PATH={path}\nCMD ["python3"]\n')
            self._build([], name, dockerfile, archive.parent, base=None)
        return name

    def _build(self, options: list[str], name: str, dockerfile: Path, context: Path, base: str | None) -> None:
        arguments = {"BASE": base, **self._settings} if base else {}
        self._buildah(
            *["build", "--isolation", "chroot", "--network", "host", *options, "--tag", name],
            *[f"--build-arg={key}={value}" for key, value in arguments.items()],
            *["--volume", f"{self._scratch / 'settings'}:{SETTINGS_MOUNT}:ro", "--file", str(dockerfile), str(context)],
            what=name,
        )

    def _buildah(self, *words: str, what: str = "the store of images") -> str:
        command = self.command(*words)
        result = subprocess.run([*_as_root(), *_in_namespace(), *command], capture_output=True, text=True)
        if result.returncode:
            sys.stderr.write(result.stdout[-4000:] + result.stderr[-4000:])
            raise SetupError(f"could not make {what}: `buildah {words[0]} …` failed, as shown above")
        return result.stdout.strip()

    def command(self, *words: str) -> list[str]:
        where = ["--storage-driver", self._driver, "--root", str(self._folder / "storage")]
        where += ["--runroot", str(self._scratch / "run")]
        return ["env", f"TMPDIR={self._folder / 'tmp'}", toolchain.buildah(), *where, *words]

    @contextlib.contextmanager
    def container(self, image: str) -> Iterator[str]:
        name = self._buildah("from", "--pull-never", image)
        try:
            yield name
        finally:
            self._buildah("rm", name)


@dataclass(frozen=True)
class Image:
    store: ImageStore
    name: str
    description: dict[str, Any]  # as the OCI's image specification has it

    @property
    def configuration(self) -> dict[str, Any]:
        value: dict[str, Any] = self.description["config"]
        return value

    def run(
        self, command: list[str], *, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command, without the image's entry point, as the `restricted` Pod Security level would have it.

        The user is the image's own and has no capability; the root file system is read-only but for a /tmp that is
        empty at first. The network is this machine's.
        """
        user, group = self.configuration["User"].split(":")
        variables = [*self.configuration["Env"], *(f"{key}={value}" for key, value in (env or {}).items())]
        with self.store.container(self.name) as container:
            return subprocess.run(
                [*_as_root(), "setpriv", "--pdeathsig", "KILL", *_in_namespace("--pid", "--fork", "--kill-child")]
                + ["sh", "-euc", _RUN, "sh", shlex.join(self.store.command("mount", container)), socket.gethostname()]
                + ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"]
                + ["--bounding-set=-all", "--inh-caps=-all", "--"]
                + ["env", "-i", f"--chdir={self.configuration['WorkingDir']}", *variables, *command],
                capture_output=True,
                text=True,
                timeout=timeout,
            )

    def start(
        self, arguments: list[str], *, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs the image's entry point with these arguments."""
        return self.run([*self.configuration["Entrypoint"], *arguments], env=env, timeout=timeout)


_RUN = """
root=$($1); host=$2; shift 2
printf '127.0.0.1 localhost %s\\n' "$host" > "$root/etc/hosts"  # a kubelet gives each pod one
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do
  : > "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
exec chroot "$root" "$@"
"""


def _as_root() -> list[str]:
    prefix = toolchain.root_prefix()
    if prefix is None:
        raise SetupError("images are built and run as root: run this as root, or with sudo that asks for no password")
    return prefix


def _in_namespace(*options: str) -> list[str]:
    """Mounts made by the command end with it. Buildah's only file outside of its storage is hidden, too."""
    hide = 'mkdir -p /var/lib/containers/cache; mount -t tmpfs tmpfs /var/lib/containers/cache; exec "$@"'
    return ["unshare", "--mount", *options, "sh", "-euc", hide, "sh"]


def _can_mount_overlays(folder: Path) -> bool:
    """Not where the folder is itself on an overlay, as in a container."""
    with tempfile.TemporaryDirectory(dir=folder / "tmp") as probe:
        for name in ("lower", "upper", "work", "merged"):
            (Path(probe) / name).mkdir()
        options = f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, f"{probe}/merged"]
        return subprocess.run([*_as_root(), *_in_namespace(), *mount], capture_output=True).returncode == 0


def _machine_settings(folder: Path) -> dict[str, str]:
    """Copies how this machine reaches packages to a folder; returns the build arguments that point there."""
    home, xdg = Path.home(), Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    certificates = [os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt"]
    of_pip = [os.environ.get("PIP_CONFIG_FILE"), xdg / "pip/pip.conf", home / ".pip/pip.conf", "/etc/pip.conf"]
    of_uv = [os.environ.get("UV_CONFIG_FILE"), xdg / "uv/uv.toml", "/etc/uv/uv.toml"]
    folder.mkdir()
    arguments = {key: os.environ[key] for key in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX") if key in os.environ}
    for variables, paths in (
        (["SSL_CERT_FILE", "PIP_CERT"], certificates),
        (["PIP_CONFIG_FILE"], of_pip),
        (["UV_CONFIG_FILE"], of_uv),
    ):
        found = next((Path(path) for path in paths if path and Path(path).is_file()), None)
        if found:
            shutil.copyfile(found, folder / found.name)
            arguments.update(dict.fromkeys(variables, f"{SETTINGS_MOUNT}/{found.name}"))
    return arguments

"""The servers' binaries and jars: what each is made from, and where it is once it is made.

Go servers are built from the module files beside this one; Java ones come by Maven coordinates. Every function
returns a path in the cache and makes the entry first if need be, so a test only asks for what it uses.
`python -m tests.servers.binaries` makes them all, with progress, before a suite starts.
"""

import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers import images, toolchain
from tests.servers.cache import SetupError, ensure_entry, say

KUBERNETES_VERSION = "1.34.4"
ETCD_VERSION = "3.6.16"
VERSITYGW_VERSION = "1.8.0"
HELM_VERSION = "3.21.4"
PROMETHEUS_OPERATOR_VERSION = "0.85.0"
DYNAMODB_LOCAL = "com.amazonaws:DynamoDBLocal:2.6.1"
ICEBERG_VERSION = "1.12.0"
ICEBERG_SPARK_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.46.1.3"
ICEBERG_AWS_BUNDLE = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}"

_CHECKOUT = Path(__file__).parent.parent.parent
_GOLANG = Path(__file__).parent / "golang"
_REFERENCE = Path(__file__).parents[1] / "differential" / "java"


@dataclass(frozen=True)
class GoBinary:
    name: str
    version: str
    module: str  # folder of the go.mod that pins it
    package: str
    ldflags: str = "-s -w"

    def path(self) -> Path:
        digest = hashlib.sha256((_GOLANG / self.module / "go.sum").read_bytes() + self.ldflags.encode()).hexdigest()[:8]
        entry = ensure_entry(f"{self.name}-{self.version}-{digest}", self._build)
        return entry / self.name

    def _build(self, folder: Path) -> None:
        started = time.monotonic()
        say(f"building {self.name} {self.version} (minutes on a small machine, once)")
        toolchain.run(
            [toolchain.go(), "build", "-v", "-mod=readonly", "-trimpath", "-ldflags", self.ldflags]
            + ["-o", str(folder / self.name), self.package],
            what=self.name,
            cwd=_GOLANG / self.module,
            env={"CGO_ENABLED": "0", "GOFLAGS": ""},
        )
        say(f"built {self.name} in {time.monotonic() - started:.0f} s")


def _kubernetes(name: str) -> GoBinary:
    return GoBinary(
        name,
        KUBERNETES_VERSION,
        "kubernetes",
        f"k8s.io/kubernetes/cmd/{name}",
        f"-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}",
    )


_KUBE_APISERVER = _kubernetes("kube-apiserver")
_KUBE_CONTROLLER_MANAGER = _kubernetes("kube-controller-manager")
_KUBECTL = _kubernetes("kubectl")
_KUBE_SCHEDULER = _kubernetes("kube-scheduler")
_KUBE_PROXY = _kubernetes("kube-proxy")
_KUBELET = _kubernetes("kubelet")
_ETCD = GoBinary("etcd", ETCD_VERSION, "tools", "go.etcd.io/etcd/server/v3")
_VERSITYGW = GoBinary("versitygw", VERSITYGW_VERSION, "tools", "github.com/versity/versitygw/cmd/versitygw")
_HELM = GoBinary("helm", HELM_VERSION, "tools", "helm.sh/helm/v3/cmd/helm")


def etcd() -> Path:
    return _from_kubebuilder("etcd") or _ETCD.path()


def kube_apiserver() -> Path:
    return _from_kubebuilder("kube-apiserver") or _KUBE_APISERVER.path()


def kubectl() -> Path:
    return _from_kubebuilder("kubectl") or _KUBECTL.path()


def kube_controller_manager() -> Path:
    return _KUBE_CONTROLLER_MANAGER.path()  # not among KUBEBUILDER_ASSETS


def kube_scheduler() -> Path:
    return _KUBE_SCHEDULER.path()


def kube_proxy() -> Path:
    return _KUBE_PROXY.path()


def kubelet() -> Path:
    return _KUBELET.path()


def versitygw() -> Path:
    return _VERSITYGW.path()


def helm() -> Path:
    return _HELM.path()


def dynamodb_local() -> Path:
    """The folder of DynamoDB Local's jars and native libraries."""
    return _maven_entry(DYNAMODB_LOCAL, transitive=True)


def iceberg_spark_runtime() -> Path:
    return next(_maven_entry(ICEBERG_SPARK_RUNTIME, transitive=False).glob("*.jar"))


def sqlite_jdbc() -> Path:
    """The driver by which Iceberg's Java runtime shares our SQLite catalogs."""
    return next(_maven_entry(SQLITE_JDBC, transitive=False).glob("*.jar"))


def iceberg_aws_bundle() -> Path:
    return next(_maven_entry(ICEBERG_AWS_BUNDLE, transitive=False).glob("*.jar"))


def reference_jars() -> Path:
    """The folder of Iceberg's own library without an engine, which the differential machine asks."""
    return ensure_entry(
        f"iceberg-reference-{ICEBERG_VERSION}-{_digest([_REFERENCE / 'pom.xml'])}", _fetch_reference_jars
    )


def _fetch_reference_jars(folder: Path) -> None:
    say(f"fetching Iceberg's Java library {ICEBERG_VERSION}")
    _copy_dependencies(_REFERENCE / "pom.xml", folder, what="Iceberg's Java library")


def reference_classes() -> Path:
    """The folder of the differential machine's Java side, compiled."""
    sources = sorted((_REFERENCE / "src").glob("*.java"))
    return ensure_entry(f"reference-classes-{_digest([_REFERENCE / 'pom.xml', *sources])}", _compile_reference)


def _compile_reference(folder: Path) -> None:
    sources = [str(source) for source in sorted((_REFERENCE / "src").glob("*.java"))]
    toolchain.run(
        [toolchain.javac(), "-J-XX:-UsePerfData", "--release", "17", "-encoding", "UTF-8", "-nowarn"]
        + ["-cp", f"{reference_jars()}/*", "-d", str(folder), *sources],
        what="the Java side of the differential machine",
    )


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def pyiceberg_tests() -> Path:
    """The folder that has PyIceberg's own `tests`, from the source distribution of the locked version."""
    [locked] = (
        package
        for package in tomllib.loads((_CHECKOUT / "uv.lock").read_text())["package"]
        if package["name"] == "pyiceberg"
    )
    version, digest = locked["version"], locked["sdist"]["hash"]

    def fetch(folder: Path) -> None:
        say(f"fetching the tests of PyIceberg {version}")
        with tempfile.TemporaryDirectory() as scratch:
            wanted = Path(scratch, "requirements.txt")
            wanted.write_text(f"pyiceberg=={version} --hash={digest}\n")
            toolchain.run([sys.executable, "-m", "venv", f"{scratch}/venv"], what="a virtual environment that has pip")
            toolchain.run(
                [f"{scratch}/venv/bin/pip", "download", "-q", "--no-deps", "--no-binary", "pyiceberg"]
                + ["--require-hashes", "-r", str(wanted), "-d", scratch],
                what="the source distribution of PyIceberg",
            )
            [archive] = Path(scratch).glob("pyiceberg-*.tar.gz")
            with tarfile.open(archive) as content:
                content.extractall(scratch, filter="data")
            shutil.copytree(Path(scratch, f"pyiceberg-{version}", "tests"), folder / "tests")
        (folder / "tests" / "__init__.py").touch()  # or another package called tests would be found in its place

    return ensure_entry(f"pyiceberg-tests-{version}-{digest.removeprefix('sha256:')[:8]}", fetch)


def prometheus_operator_crds() -> list[Path]:
    """The Prometheus operator's definitions of the kinds that the chart has objects of."""
    name = f"prometheus-operator-crds-{PROMETHEUS_OPERATOR_VERSION}"
    return sorted(ensure_entry(name, _fetch_prometheus_operator_crds).glob("*.yaml"))


def _fetch_prometheus_operator_crds(folder: Path) -> None:
    module = "github.com/prometheus-operator/prometheus-operator"
    say(f"fetching the definitions of the Prometheus operator {PROMETHEUS_OPERATOR_VERSION}")
    with tempfile.TemporaryDirectory() as scratch:
        toolchain.run(
            [toolchain.go(), "mod", "download", f"{module}@v{PROMETHEUS_OPERATOR_VERSION}"],
            what="the definitions of the Prometheus operator",
            cwd=Path(scratch),
            env={"GOMODCACHE": scratch, "GOFLAGS": "-modcacherw"},
        )
        for kind in ("podmonitors", "prometheusrules"):
            [found] = Path(scratch, f"{module}@v{PROMETHEUS_OPERATOR_VERSION}").glob(f"example/*-crd/*_{kind}.yaml")
            shutil.copy(found, folder)


def _from_kubebuilder(name: str) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None
    path = Path(assets) / name
    if not os.access(path, os.X_OK):
        raise SetupError(f"KUBEBUILDER_ASSETS is set, but {path} is not an executable: correct it or unset it")
    return path


def _maven_entry(coordinates: str, *, transitive: bool) -> Path:
    _, artifact, version = coordinates.split(":")

    def fetch(folder: Path) -> None:
        say(f"fetching {artifact} {version}")
        group, _, _ = coordinates.split(":")
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(group=group, artifact=artifact, version=version))
        _copy_dependencies(pom, folder, what=artifact, transitive=transitive)
        pom.unlink()

    return ensure_entry(f"{artifact}-{version}", fetch)


def _copy_dependencies(pom: Path, folder: Path, *, what: str, transitive: bool = True) -> None:
    toolchain.java()
    toolchain.run(
        [toolchain.maven(), "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        + [f"-DoutputDirectory={folder}", f"-DexcludeTransitive={str(not transitive).lower()}"],
        what=what,
        env={"MAVEN_OPTS": "-XX:-UsePerfData"},
    )


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.tablewright</groupId><artifactId>fetch</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""

SUITES: dict[str, list[Callable[[], object]]] = {
    "test": [
        toolchain.java,
        toolchain.chromium,
        toolchain.openssl,
        toolchain.postgresql,
        toolchain.mariadb,
        versitygw,
        etcd,
        dynamodb_local,
        iceberg_spark_runtime,
        sqlite_jdbc,
        toolchain.prometheus,
        prometheus_operator_crds,
        kube_apiserver,
        kube_controller_manager,
        kubectl,
        helm,
    ],
    "demo": [toolchain.java],
    "images": [toolchain.buildah, images.base_root_file_system],
    "e2e": [
        toolchain.java,
        toolchain.openssl,
        versitygw,
        dynamodb_local,
        kubectl,
        helm,
        iceberg_spark_runtime,
        iceberg_aws_bundle,
        sqlite_jdbc,
    ],
    "node": [
        toolchain.node_tools,
        toolchain.buildah,
        images.base_root_file_system,
        etcd,
        kube_apiserver,
        kube_controller_manager,
        kube_scheduler,
        kube_proxy,
        kubelet,
    ],
    "interop": [
        toolchain.java,
        versitygw,
        dynamodb_local,
        iceberg_spark_runtime,
        iceberg_aws_bundle,
        reference_classes,
        pyiceberg_tests,
        etcd,
        kube_apiserver,
    ],
}


def main() -> int:
    suites = sys.argv[1:] or ["test"]
    try:
        for make in dict.fromkeys(make for suite in suites for make in SUITES[suite]):
            make()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

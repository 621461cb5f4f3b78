"""The two images, built from their real Dockerfiles and run as a cluster runs them: unprivileged, root read-only."""

import textwrap
from collections.abc import Iterator

import pytest

from tests.servers import images
from tests.servers.images import Image, ImageSource, ImageStore

pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("images")]  # a first build takes minutes

BUILD_TOOLS = ["cc", "g++", "gcc", "git", "javac", "make", "mvn", "uv"]


@pytest.fixture(scope="session")
def store() -> Iterator[ImageStore]:
    with images.open_store() as opened:
        yield opened


@pytest.fixture(scope="session")
def operator_image(store: ImageStore) -> Image:
    return store.build(images.OPERATOR)


@pytest.fixture(scope="session")
def jobs_image(store: ImageStore) -> Image:
    return store.build(images.JOBS)


@pytest.fixture(params=["operator_image", "jobs_image"])
def image(request: pytest.FixtureRequest) -> Image:
    built: Image = request.getfixturevalue(request.param)
    return built


def output_of(image: Image, command: list[str]) -> str:
    result = image.run(command)
    assert result.returncode == 0, result.stderr
    return result.stdout


def modules_found(image: Image, names: list[str]) -> list[str]:
    """Which of the modules the image's Python would import."""
    code = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n)))"
    return output_of(image, ["python", "-c", code, *names]).split()


def commands_found(image: Image, names: list[str]) -> list[str]:
    return output_of(image, ["sh", "-c", 'for n in "$@"; do command -v "$n" || true; done', "sh", *names]).split()


def test_the_operator_image_starts_the_command_line(operator_image: Image) -> None:
    result = operator_image.start(["--help"])
    assert result.returncode == 0, result.stderr
    assert "apply" in result.stdout
    assert "operator" in result.stdout


def test_the_operator_starts_and_asks_for_what_it_needs(operator_image: Image) -> None:
    result = operator_image.start(["operator"])
    assert result.returncode == 2
    assert "--job-image" in result.stderr


def test_the_operator_image_has_neither_spark_nor_a_jre(operator_image: Image) -> None:
    assert modules_found(operator_image, ["pyspark", "tablejobs", "kopf", "tableformat"]) == ["kopf", "tableformat"]
    assert commands_found(operator_image, ["java", "tablewright"]) == ["/opt/tablewright/bin/tablewright"]


@pytest.mark.parametrize("source", [images.OPERATOR, images.JOBS], ids=["operator", "jobs"])
def test_database_drivers_are_in_an_image_that_is_built_with_them(source: ImageSource, store: ImageStore) -> None:
    name = source.name.replace(":test", "-with-drivers:test")
    built = store.build(ImageSource(name, source.dockerfile, drivers="postgresql mysql"))
    code = "import psycopg, pymysql, cryptography; print(psycopg.pq.__impl__, pymysql.__name__)"
    assert output_of(built, ["python", "-c", code]).split() == ["binary", "pymysql"]


def test_images_have_no_database_drivers_by_default(image: Image) -> None:
    assert modules_found(image, ["psycopg", "pymysql"]) == []


def test_the_jobs_image_starts_a_driver(jobs_image: Image) -> None:
    result = jobs_image.start(["python", "-m", "tablejobs", "--help"])
    assert result.returncode == 0, result.stderr
    assert "TABLEWRIGHT_JOB" in result.stdout


def test_a_driver_without_a_job_gives_up(jobs_image: Image) -> None:
    result = jobs_image.run(["python", "-m", "tablejobs"])  # the command of a Job, which replaces the entry point
    assert result.returncode == 2
    assert "TABLEWRIGHT_JOB is not a maintenance job" in result.stderr


def test_the_jobs_image_has_no_operator(jobs_image: Image) -> None:
    assert modules_found(jobs_image, ["kopf", "typer", "tablewright", "tablejobs", "tableformat", "pyspark"]) == [
        *["tablejobs", "tableformat", "pyspark"]
    ]
    assert commands_found(jobs_image, ["tablewright", "kubectl-tablewright"]) == []


def test_spark_runs_tasks_in_the_jobs_image_and_uses_the_class_data_archive(jobs_image: Image) -> None:
    job = """
        import os, tempfile
        from pathlib import Path
        from tableformat.maintenance.sizing import JobSize
        from tablejobs.session import start_session, stop_session
        with tempfile.TemporaryDirectory() as scratch:
            session = start_session(Path(scratch), JobSize(executors=0, cores=2, tasks_at_once=2, memory_bytes=0))
            java = session.sparkContext._gateway.proc.pid
            maps = Path(f"/proc/{java}/maps").read_text()
            tasks = session.sparkContext.parallelize([1, 2], 2)
            print(sum(tasks.map(lambda value: value * 10).collect()))
            pairs = tasks.map(lambda value: (value, b"blob"))
            print(pairs.repartitionAndSortWithinPartitions(1).keys().collect())
            print("archive mapped" if os.environ["SPARK_CLASS_DATA"] in maps else "archive not mapped")
            stop_session(session)
    """
    result = jobs_image.start(["python", "-c", textwrap.dedent(job)])
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["30", "[1, 2]", "archive mapped"]


def test_an_executor_starts_and_looks_for_its_driver(jobs_image: Image) -> None:
    environment = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_APPLICATION_ID": "spark-test",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "test-exec-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=1",
        "SPARK_JAVA_OPT_1": "-XX:OnOutOfMemoryError=echo out of memory",  # spaces: still one option
    }
    result = jobs_image.start(["executor"], env=environment)
    assert result.returncode == 1, result.stderr
    assert "Failed to connect to /127.0.0.1:1" in result.stdout + result.stderr


def test_images_run_unprivileged_with_a_name_for_their_user(image: Image) -> None:
    assert image.configuration["User"] == "10001:10001"
    code = "import os, pwd; print(os.getuid(), os.getgid(), pwd.getpwuid(os.getuid()).pw_dir)"
    assert output_of(image, ["python", "-c", code]).split() == ["10001", "10001", "/tmp"]


def test_images_are_byte_compiled_and_not_editable(image: Image) -> None:
    code = """
        import importlib.util, pyiceberg, tableformat
        from pathlib import Path
        for package in (pyiceberg, tableformat):
            folder = Path(package.__file__).parent
            assert folder.is_relative_to("/opt/tablewright/lib"), folder
            for path in folder.rglob("*.py"):
                if not Path(importlib.util.cache_from_source(str(path))).exists():
                    print(path)
    """
    assert output_of(image, ["python", "-c", textwrap.dedent(code)]) == ""


def test_images_have_no_build_tools(image: Image) -> None:
    assert commands_found(image, BUILD_TOOLS) == []
    assert modules_found(image, ["pip", "hatchling", "pytest"]) == []


def test_images_hold_nothing_of_the_machine_that_built_them(image: Image) -> None:
    steps = " ".join(step.get("created_by", "") for step in image.description["history"])
    for name in ("SSL_CERT_FILE", "PIP_CERT", "PIP_CONFIG_FILE", "UV_CONFIG_FILE", images.SETTINGS_MOUNT):
        assert name not in steps
        assert name not in " ".join(image.configuration["Env"])
    left = ["sh", "-c", f"ls -A {images.SETTINGS_MOUNT} /root /source 2>/dev/null; ls -d /etc/pip.conf /etc/uv || true"]
    assert set(output_of(image, left).split()) <= {".bashrc", ".profile", "/root:", f"{images.SETTINGS_MOUNT}:"}

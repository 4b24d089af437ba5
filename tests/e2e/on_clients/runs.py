"""Runs of upstream's suites against a cloud, each with the names of all of its tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import leftovers
from tools.cloud import deploy
from tools.localcluster.kubernetes import ROOT, KubeError

from ..outcomes import Outcome
from . import command_server, go_log, packages
from .ground import HOME, IMAGE, Ground

LONGEST = 180 * 60
"""Seconds after which a suite is stopped."""
TESTED = (0, 1)
"""Exit statuses of a suite that ran, with any result."""
_LISTED = 300
"""Seconds in which a suite lists its tests."""
GO_TESTS = "./internal/acceptance/openstack/..."
_STARTED = 60
"""Seconds in which the server of the `openstack` command has imported all of it."""


@dataclass(frozen=True)
class Run:
    """What came of a suite."""

    outcome: Outcome
    names: Sequence[str]
    """Names of all of its tests."""
    log: Path
    seconds: float


Suite = Callable[[Ground], Run]


def openstacksdk(ground: Ground) -> Run:
    """One test after the other, as upstream runs them."""
    variables = {
        # As in upstream's tox.ini.
        "OS_TEST_TIMEOUT": "600",
        "OPENSTACKSDK_FUNC_TEST_TIMEOUT_LOAD_BALANCER": "600",
        "OPENSTACKSDK_FUNC_TEST_TIMEOUT_CLEANUP": "600",
        "OPENSTACKSDK_EXAMPLE_CONFIG_KEY": "functional",
        **dict.fromkeys(("OS_LOG_CAPTURE", "OS_STDOUT_CAPTURE", "OS_STDERR_CAPTURE"), "true"),
    }
    return _stestr("openstack", ("--serial",), variables, ground)


def openstackclient(ground: Ground) -> Run:
    """As upstream: processes that have whole classes of tests each."""
    with _command(client_environment(ground)) as folder:
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        return _stestr("openstackclient", (r"--group-regex=([^\.]+\.)+",), {"PATH": path}, ground)


def gophercloud(ground: Ground) -> Run:
    """One package after the other."""
    module, log = packages.gophercloud(), HOME / "gophercloud.log"
    variables = _go_variables(ground)
    names = go_log.names(_go(module, variables, "-list=."))
    began = time.monotonic()
    events = _go(module, variables, "-count=1", "-p=1", f"-timeout={LONGEST // 60}m")
    with log.open("w", encoding="utf-8") as file:
        for line in go_log.lines(events):
            print(line, file=file, flush=True)
    return Run(Outcome.of(log.read_text(encoding="utf-8")), names, log, time.monotonic() - began)


SUITES: Mapping[str, Suite] = {each.__name__: each for each in (openstacksdk, openstackclient, gophercloud)}
"""Suites by their names."""


def client_environment(ground: Ground) -> dict[str, str]:
    """Return the variables of a client's process: nothing of this machine's own clouds, and a home with the cloud."""
    return {
        **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
        **leftovers.marked(),
        **({"REQUESTS_CA_BUNDLE": ground.authorities} if ground.authorities else {}),
        "HOME": str(HOME),
    }


def run_client(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """Return what a command prints. Raises CalledProcessError if it fails."""
    done = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True, timeout=_LISTED, check=True
    )
    return done.stdout


def log_client(command: Sequence[str], folder: Path, variables: Mapping[str, str], log: Path) -> float:
    """Write what a suite prints to a file, and return the seconds it took. Raises KubeError if it tested nothing."""
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, cwd=folder, env=variables, stdout=file, timeout=LONGEST, check=False)
    if done.returncode not in TESTED:
        raise KubeError(f"a suite ended with {done.returncode}; {log} says why")
    return time.monotonic() - began


def _stestr(package: str, options: Iterable[str], variables: Mapping[str, str], ground: Ground) -> Run:
    folder = packages.environment(packages.SUITES)
    site, work, log = packages.site_packages(folder), HOME / package, HOME / f"{package}.log"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    environment, python = {**client_environment(ground), **variables}, str(folder / "bin" / "python")
    where = (f"--test-path={site / package / 'tests' / 'functional'}", f"--top-dir={site}")
    # Tests of images upload this file of upstream's repository.
    (work / "CONTRIBUTING.rst").write_text("Contributing\n============\n", encoding="utf-8")
    run_client((python, "-m", "stestr", "init"), work, environment)
    names = run_client((python, "-m", "stestr", *where, "list"), work, environment).split()
    program = (python, str(Path(__file__).with_name("stestr_log.py")), *where, "run", *options)
    seconds = log_client(program, work, {**environment, "PYTHONPATH": str(ROOT / "src")}, log)
    return Run(Outcome.of(log.read_text(encoding="utf-8")), names, log, seconds)


@contextmanager
def _command(variables: Mapping[str, str]) -> Generator[Path]:
    """Yield a folder with a program `openstack`, which a server carries out. It has these variables: the client looks
    for its home directory as it is imported.
    """
    folder = packages.environment(packages.SUITES)
    python = folder / "bin" / "python"
    with tempfile.TemporaryDirectory() as name:
        path, shim = Path(name) / "server", Path(name) / "openstack"
        shim.write_text(command_server.SHIM.format(python=sys.executable, path=str(path)), encoding="utf-8")
        shim.chmod(0o755)
        with subprocess.Popen([str(python), command_server.__file__, str(path)], env=variables) as server:
            try:
                _await(path, server)
                yield Path(name)
            finally:
                server.terminate()


def _await(path: Path, server: subprocess.Popen[bytes]) -> None:
    for _ in range(_STARTED * 10):
        if path.exists():
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise KubeError("the server of the command `openstack` did not start")


def _go_variables(ground: Ground) -> dict[str, str]:
    """Return what an `openrc` file of DevStack sets, and IDs of what tests use."""
    auth = ground.administrator["auth"]
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "OS_AUTH_URL": auth["auth_url"],
        "OS_USERNAME": auth["username"],
        "OS_PASSWORD": auth["password"],
        "OS_PROJECT_NAME": auth["project_name"],
        "OS_DOMAIN_ID": "default",
        "OS_REGION_NAME": ground.administrator["region_name"],
        "OS_BRANCH": f"stable/{deploy.RELEASE}",
        "OS_IMAGE_ID": ground.image,
        "OS_IMAGE_NAME": IMAGE,
        "OS_FLAVOR_ID": ground.flavor,
        "OS_FLAVOR_ID_RESIZE": ground.flavor_resize,
        "OS_NETWORK_ID": ground.network,
        "OS_SUBNET_ID": ground.subnet,
        "OS_EXTGW_ID": ground.external,
        "OS_POOL_NAME": "public",
        "OS_LIVE_MIGRATE": "1",
        **({"SSL_CERT_FILE": ground.authorities} if ground.authorities else {}),
    }


def _go(module: Path, environment: Mapping[str, str], *options: str) -> Iterator[str]:
    """Yield what `go test` prints of the acceptance tests, in JSON. Tags are those of upstream's Makefile."""
    command = ["go", "test", "-json", "-tags=fixtures acceptance", "-vet=off", *options, GO_TESTS]
    with subprocess.Popen(command, cwd=module, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield from process.stdout


def document(name: str, text: Iterable[str]) -> Path:
    """Write the list of a suite's tests that did not pass, and return its path."""
    path = HOME / f"{name}.txt"
    path.write_text("\n".join([*text, ""]), encoding="utf-8")
    return path

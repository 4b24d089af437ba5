"""What every layer of tests shares: where the checkout is, its release, and the option that rewrites goldens."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from openstack_operator.actuators import egress
from openstack_operator.plan import Release
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.placement.model import PlacementSpec
from tests import judging, leftovers, searches, second_try, suites
from tests.shared_results import SharedResults

ROOT = Path(__file__).parent.parent
# Servers of tests are on this machine, also those that an operator in a process of its own is told of.
LOOPBACK = ("127.0.0.0/8", "::1/128")
os.environ["ALLOWED_ADDRESSES"] = ",".join(LOOPBACK)
egress.allow(LOOPBACK)
# How long an example takes says more about the machine than about the code.
settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=searches.EXAMPLES,
    derandomize=not searches.IS_LONG,
)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite goldens instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        leftovers.begin()
    # Of several processes the first counts what all of them did.
    if suites.COUNTS in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(suites.Counter())
    if second_try.FAILURES in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(second_try.Failures())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What modules of tests load stays to the end: the collector of garbage need not look at it, neither again and
    again while it is loaded, which is a sixth of the time, nor hundreds of times later.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[object]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    judging.mark(report, call)
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves processes behind: the guard kills them, which is no excuse."""
    if not hasattr(session.config, "workerinput") and (left := leftovers.left()):
        print("\nprocesses that the tests left behind:", *left, sep="\n    ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _own_logs() -> Generator[None]:
    """No command that a test runs in this process silences the logs of the tests after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are rewritten."""
    return bool(request.config.getoption("--update"))


@pytest.fixture(scope="session")
def shared_results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SharedResults:
    """What one process of this run makes for all of them."""
    if not hasattr(request.config, "workerinput"):
        return SharedResults(None)
    # Above the folder of each process is that of the run.
    folder = tmp_path_factory.getbasetemp().parent / "shared-results"
    folder.mkdir(exist_ok=True)
    return SharedResults(folder)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def release() -> Release:
    """What runs by default."""
    return ReleaseFiles(ROOT / "releases")(PlacementSpec())

"""Names from outside stay where they are put: in the path of a URL, in a folder, in an archive."""

from __future__ import annotations

import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import httpx2 as httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.actuators.http import _filled  # pyright: ignore[reportPrivateUsage]
from openstack_operator.cli.inspection.support_bundle import archive_of
from openstack_operator.cli.preview.running import RunningOperator, write_releases
from openstack_operator.plan import Kind, SpecError
from openstack_operator.plan.url_path import segment
from openstack_operator.runtime.kubernetes.kinds import SECRET

HOSTILE = ("..", ".", "../x", "a/b", "a%2f..", "a\x00b", "a\nb", "\x1b[2J", "a\u202eb")
CLIENT = httpx.Client(trust_env=False, verify=False)
"""It sends nothing. To load the authorities of the system takes 70 ms of CPU, too much for each example."""
TEXT = st.text(min_size=1) | st.text(alphabet="./%\\a?#: ", min_size=1)


@pytest.mark.security
@pytest.mark.parametrize("name", HOSTILE)
def test_no_object_has_a_name_that_leads_elsewhere(name: str) -> None:
    for wrong in (lambda: SECRET.path(name), lambda: SECRET.path("openstack", name), lambda: SECRET.path(name, "a")):
        with pytest.raises(SpecError, match="is not an object name"):
            wrong()


@given(TEXT)
def test_a_name_of_an_object_is_one_segment(name: str) -> None:
    try:
        path = SECRET.path("openstack", name)
    except SpecError:
        return
    url = CLIENT.build_request("GET", f"https://kube.example/prefix{path}").url
    assert url.raw_path.decode().rpartition("/")[0] == "/prefix/api/v1/namespaces/openstack/secrets"
    assert url.path.rpartition("/")[2] == name


def test_names_of_kubernetes_stay_as_they_are() -> None:
    roles = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles")
    assert roles.path(None, "system:node-bootstrapper").endswith("/clusterroles/system:node-bootstrapper")
    assert SECRET.path("openstack", "a.b-c", "status") == "/api/v1/namespaces/openstack/secrets/a.b-c/status"


@pytest.mark.security
@given(TEXT)
def test_a_name_of_a_server_is_one_segment(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    for path in (f"/permissions/{segment(name)}/users", _filled("/permissions/{}/users", [name])):
        url = CLIENT.build_request("GET", f"https://rabbit.example/api{path}").url
        parts = url.raw_path.decode().split("/")
        assert (parts[:3], parts[4:]) == (["", "api", "permissions"], ["users"])


@pytest.mark.security
@pytest.mark.parametrize("name", [*HOSTILE, ".hidden"])
def test_a_release_file_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "releases"
    folder.mkdir()
    operator = RunningOperator(arguments=(), environment={}, files={"/releases": {name: "x"}})
    with suppress(SpecError):
        write_releases(operator, Path("/releases"), folder)
    for path in tmp_path.rglob("*"):
        assert path == folder or (path.parent == folder and path.name in {"x", "b"})


@pytest.mark.security
def test_an_archive_has_one_folder() -> None:
    contents = {f"logs/{name}/main.log": "x" for name in HOSTILE}
    with tarfile.open(fileobj=BytesIO(archive_of(contents, "bundle"))) as archive:
        names = archive.getnames()
    assert len(names) == len(HOSTILE)
    for name in names:
        assert name.startswith("bundle/logs/")
        assert name.isprintable()
        assert ".." not in name.split("/")

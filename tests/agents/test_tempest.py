"""The program of a run of Tempest, run with the environment and the files of the plan, against a small cloud."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.agents.tempest.runner import trusting
from openstack_operator.plan import Release, key
from openstack_operator.services.tempest.model import TEMPEST
from openstack_operator.services.tempest.service import plan
from openstack_operator.testing import context
from tests import leftovers

HERE = Path(__file__).parent
PASSED = {"id": "tempest.api.test_a.Test.test_it[id-1]", "status": "success"}
SKIPPED = {"id": "tempest.api.test_b.Test.test_it[id-2]", "status": "skip", "details": {"reason": "no volumes"}}
FAILED = {"id": "tempest.api.test_c.Test.test_it[id-3]", "status": "fail", "details": {"traceback": "Traceback c"}}
HANGS = {"id": "tempest.api.test_d.Test.test_it[id-4]", "status": "inprogress"}
SECRET: dict[str, str] = {"application_credential_id": "credential", "application_credential_secret": "secret"}


IMAGE = {"name": "cirros", "id": "image", "min_ram": 300, "min_disk": 0, "visibility": "public", "owner": "admin"}


class Cloud:
    """APIs of a cloud: Keystone, Glance, Nova and Neutron behind one port of this machine."""

    def __init__(self) -> None:
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or "null")
                status, answer = cloud.answer(self.command, self.path.partition("?")[0], body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("X-Subject-Token", "token")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05])
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.secret = "secret"
        self.users: dict[str, dict[str, Any]] = {}
        self.flavors: dict[str, dict[str, Any]] = {}
        self.images = [IMAGE]
        self.networks = [{"name": "public", "id": "network"}]
        self.requests: list[str] = []
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and body of an answer."""
        self.requests.append(f"{method} {path}")
        match [method, *path.strip("/").split("/")]:
            case ["POST", "v3", "auth", "tokens"]:
                credential = body["auth"]["identity"]["application_credential"]
                return (201, {"token": self._token()}) if credential["secret"] == self.secret else (401, {})
            case ["GET", "v3", "users"]:
                return 200, {"users": list(self.users.values())}
            case ["POST", "v3", "users"] if self.users:
                return 409, {}
            case ["POST", "v3", "users"]:
                self.users["user"] = {**body["user"], "id": "user"}
                return 201, {"user": self.users["user"]}
            case ["PATCH", "v3", "users", user]:
                self.users[user] |= body["user"]
                return 200, {"user": self.users[user]}
            case ["DELETE", "v3", "users", user]:
                del self.users[user]
                return 204, None
            case ["GET", "v3", "roles"]:
                return 200, {"roles": [{"id": "role"}]}
            case ["PUT", "v3", "projects", "project", "users", "user", "roles", "role"]:
                return 204, None
            case ["POST", "compute", "flavors"]:
                flavor = {**body["flavor"], "id": body["flavor"]["name"]}
                self.flavors[flavor["id"]] = flavor
                return 200, {"flavor": flavor}
            case ["DELETE", "compute", "flavors", flavor]:
                del self.flavors[flavor]
                return 202, None
            case _:
                pages: dict[str, Any] = {
                    "/image/v2/images": {"images": self.images},
                    "/image/v2/schemas/image": {"properties": {}},
                    "/compute/flavors/detail": {"flavors": list(self.flavors.values())},
                    "/compute/os-services": {"services": []},
                    "/compute/": {"version": {"version": "2.100"}},
                    "/network/v2.0/networks": {"networks": self.networks},
                    "/network/v2.0/rbac-policies": {
                        "rbac_policies": [
                            {"object_id": "network", "target_tenant": "*"},
                            {"object_id": "of-a-user", "target_tenant": "project-of-a-user"},
                        ]
                    },
                    "/network/v2.0/extensions": {"extensions": [{"alias": "router"}]},
                }
                return (200, pages[path]) if path in pages else (404, {"error": "not found"})

    def _token(self) -> dict[str, Any]:
        services = {"image": "image", "compute": "compute", "network": "network"}
        catalog = [
            {
                "type": type_,
                "endpoints": [
                    {"interface": "internal", "region": "RegionOne", "url": "http://192.0.2.1/"},
                    {"interface": "public", "region": "RegionTwo", "url": "http://192.0.2.2/"},
                    {"interface": "public", "region": "RegionOne", "url": f"{self.url}/{name}"},
                ],
            }
            for type_, name in services.items()
        ]
        project = {"id": "project", "name": "admin", "domain": {"id": "default", "name": "Default"}}
        return {"project": project, "catalog": catalog}


class Run:
    """A run as it is planned, in a folder."""

    def __init__(self, release: Release, cloud: Cloud, folder: Path) -> None:
        self._release, self._cloud, self.folder = release, cloud, folder
        self.write("tests", "\n".join(json.dumps(test) for test in (PASSED, SKIPPED, FAILED, HANGS)) + "\nsome text\n")
        self.write("status", "1\n")
        self.plan()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def plan(self, **tests: Any) -> None:
        """Deliver the files of a spec."""
        keystone = {"authUrl": self._cloud.url, "appCredentialRef": {"name": "credential"}, "interface": "public"}
        spec = {"schedule": "0 2 * * *", "region": "RegionOne", "keystone": keystone, "tests": tests}
        result = plan(context(TEMPEST, spec, release=self._release, secrets={"credential": SECRET}))
        objects = {key(obj): obj for obj in result.objects}
        job = objects["CronJob", "tempest-run"]["spec"]["jobTemplate"]["spec"]["template"]
        [self._container] = job["spec"]["containers"]
        files = kube.secret_data(objects["Secret", "tempest-config"])
        for mount in self._container["volumeMounts"]:
            if mount["subPath"] in files:
                path = self.folder / mount["mountPath"].lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(files[mount["subPath"]], encoding="utf-8")
                self._configuration = path.parent

    def set_seconds(self, seconds: float) -> None:
        """Set a shorter timeout than a spec may have."""
        path = self._configuration / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": seconds}), encoding="utf-8")

    def start(self) -> subprocess.Popen[str]:
        env = {entry["name"]: entry["value"] for entry in self._container["env"]}
        modules = (f"{self.folder}{env['PYTHONPATH']}", str(HERE / "modules_of_tempest"))
        *_, option, module = self._container["command"]
        assert option == "-m"
        return subprocess.Popen(
            [sys.executable, "-B", str(HERE / "start_runner.py"), module],
            env={
                **leftovers.marked(),
                **env,
                "PYTHONPATH": os.pathsep.join(modules),
                "PATH": f"{HERE / 'programs_of_tempest'}{os.pathsep}{os.environ['PATH']}",
                "CASE": str(self.folder),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> tuple[int, str, dict[str, Any]]:
        """Return exit status, log, and termination message of a run."""
        process = self.start()
        log, _ = process.communicate(timeout=60)
        assert (self.folder / "message").exists(), log
        return process.returncode, log, json.loads(self.read("message"))


@pytest.fixture
def cloud() -> Generator[Cloud]:
    cloud = Cloud()
    yield cloud
    cloud.close()


@pytest.fixture
def run(release: Release, cloud: Cloud, tmp_path: Path) -> Run:
    return Run(release, cloud, tmp_path)


def test_a_run_counts_tests_and_leaves_nothing_in_the_cloud(run: Run, cloud: Cloud) -> None:
    status, log, message = run.finish()
    assert message == {
        "passed": 1,
        "skipped": 1,
        "failed": 2,
        "total": 4,
        "error": "",
        "failures": ["tempest.api.test_c.Test.test_it", "tempest.api.test_d.Test.test_it"],
    }
    assert status == 0, "a failing test is a result"
    assert "skipped  tempest.api.test_b.Test.test_it: no volumes\n" in log
    assert "Traceback c" in log
    assert (cloud.users, cloud.flavors) == ({}, {})
    assert "PUT /v3/projects/project/users/user/roles/role" in cloud.requests


def test_options_of_the_cloud_come_before_those_of_the_plan(run: Run) -> None:
    _, log, _ = run.finish()
    conf = run.read("conf")
    assert "admin_username = tempest-openstack-tempest\n" in conf
    password = next(line for line in conf.splitlines() if line.startswith("admin_password"))
    assert password.partition(" = ")[2] not in log
    # The image needs more memory than the smaller flavor has.
    assert "image_ref = image\n" in conf
    assert "flavor_ref = tempest-alt\n" in conf
    assert "public_network_id = network\n" in conf
    assert "max_microversion = 2.100\n" in conf
    assert conf.index("admin_username") < conf.index("uri_v3")


def test_the_tests_of_the_spec_run_and_the_log_names_the_others(run: Run) -> None:
    run.plan(includeRegex="smoke", excludeRegex="slow", concurrency=3)
    run.write("list", "Repository\ntempest.api.test_a.Test.test_it[slow]\ntempest.api.test_b.Test.test_it\n")
    _, log, _ = run.finish()
    first, second = run.read("commands").splitlines()
    conf = f"run --config-file {run.folder}/files/tempest.conf --regex=smoke"
    assert first == f"{conf} --subunit --concurrency=3 --exclude-regex=slow"
    assert second == f"{conf} --list-tests"
    assert [line for line in log.splitlines() if "excluded" in line] == ["excluded tempest.api.test_a.Test.test_it"]


@pytest.mark.security
def test_users_of_the_cloud_choose_nothing_of_a_run(run: Run, cloud: Cloud) -> None:
    """They may name images and networks of their own, and make a network external for their project."""
    cloud.images = [{**IMAGE, "id": "of-a-user", "visibility": "private", "owner": "project-of-a-user"}, IMAGE]
    cloud.networks = [
        {"name": "!\n[service-clients]\nproxy_url = http://192.0.2.3", "id": "of-a-user"},
        *cloud.networks,
    ]
    run.plan(image="cirros")
    run.finish()
    conf = run.read("files/tempest.conf")
    assert "image_ref = image\n" in conf
    assert "public_network_id = network\n" in conf
    assert "proxy_url" not in conf


@pytest.mark.security
def test_a_name_with_a_new_line_sets_no_option(run: Run, cloud: Cloud) -> None:
    cloud.networks = [{"name": "public\n[identity]\ndisable_ssl_certificate_validation = true", "id": "network"}]
    status, _, message = run.finish()
    assert status == 1
    assert message["error"].startswith("the cloud has no plain text for floating_network_name: 'public\\n[identity]")


def test_a_run_that_cannot_begin_says_why(run: Run, cloud: Cloud) -> None:
    cloud.images = []
    run.plan(image="cirros")
    status, _, message = run.finish()
    assert (status, message["total"]) == (1, 0)
    assert message["error"].startswith("spec.tests.image: the cloud has no image 'cirros'")
    assert cloud.users == {}, "its administrator was removed"
    cloud.secret = "another"
    status, _, message = run.finish()
    assert status == 1
    assert message["error"].startswith(f"POST {cloud.url}/v3/auth/tokens: 401")


def test_a_tempest_that_runs_no_test_is_an_error(run: Run) -> None:
    run.write("tests", "")
    run.write("status", "3")
    status, _, message = run.finish()
    assert (status, message["error"]) == (1, "tempest ended with 3; its log says why")


def test_a_run_takes_over_the_administrator_of_one_that_was_killed(run: Run, cloud: Cloud) -> None:
    cloud.users["user"] = {"id": "user", "name": "tempest-openstack-tempest", "password": "old"}
    status, _, message = run.finish()
    assert (status, message["error"]) == (0, "")
    assert "PATCH /v3/users/user" in cloud.requests
    assert cloud.users == {}


def test_a_run_ends_with_its_workers_when_its_time_is_over(run: Run, cloud: Cloud) -> None:
    run.write("hangs", "")
    run.set_seconds(2)
    _, _, message = run.finish()
    assert message["error"] == "stopped after spec.tests.timeout, 0 minutes"
    assert cloud.users == {}


def test_a_run_that_kubernetes_ends_reports_what_it_has(run: Run, cloud: Cloud) -> None:
    run.write("hangs", "")
    process = run.start()
    deadline = time.monotonic() + 60
    while not (run.folder / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    message = json.loads(run.read("message"))
    assert message["error"] == "Kubernetes stopped the run before it finished"
    assert message["passed"] == 1
    assert (process.returncode, cloud.users) == (0, {})


def test_programs_that_ask_certifi_trust_the_authorities_of_the_cloud(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.crt"
    env = {**os.environ, **trusting(str(authorities), tmp_path)}
    asked = subprocess.run(
        [sys.executable, "-c", "import certifi; print(certifi.where())"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.strip() == str(authorities)
    assert env["SSL_CERT_FILE"] == str(authorities)

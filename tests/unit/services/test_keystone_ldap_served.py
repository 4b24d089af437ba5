"""Keystone of the image with users of directories, and the operator's files for them."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents, kube
from openstack_operator.plan import Release, key
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context
from tests.unit.image_root import image_root, inside
from tests.unit.ldap_server import GROUPS, PEOPLE, READER, LdapServer, ldap_server
from tests.unit.polling import TIMEOUT
from tests.unit.services.test_key_manager_served import ready
from tests.unit.tcp_server import tcp_server
from tools.localcluster.ports import free_port

USER = 42425
READERS = "'p$a\"s $(w)\\d #'"
"""Password that a file of options needs quotes for."""
UID = {"ldap": {"user_id_attribute": "uid", "user_name_attribute": "uid", "group_name_attribute": "cn"}}
ENV = {"HOME": "/tmp", "LANG": "C.UTF-8"}


def alone(text: str) -> str:
    """Keystone's configuration for a machine without the other servers."""
    conf = ConfigParser(interpolation=None, default_section="none", strict=False)
    conf.read_string(text)
    conf["database"]["connection"] = "sqlite:////tmp/keystone.sqlite"
    conf["cache"] = {"enabled": "true", "backend": "dogpile.cache.null"}
    buffer = io.StringIO()
    conf.write(buffer)
    return buffer.getvalue()


@dataclass
class Stand:
    """A Keystone with its schema and its administrator."""

    root: Path
    release: Release
    port: int
    password: str
    env: dict[str, str]
    """Variables of the API's pods for directories."""

    def run(self, *words: str, **env: str) -> tuple[int, str]:
        """Return status and output of a program."""
        with inside(self.root, USER, *words, env={**ENV, **env}, output=subprocess.PIPE) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        return process.returncode, output

    def make_domains(self, *names: str) -> tuple[int, str]:
        """Return status and last words of the program of the job."""
        words = ["sh", "-c", 'exec "$@" 2>&1', "job", *agents.python("keystone/make_domains.py", words=names)]
        return self.run(*words)

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> tuple[int, Any, str]:
        """Return status, body and token of an answer."""
        data = json.dumps(body).encode() if body is not None else None
        sent = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v3{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.status, json.loads(answer.read() or b"null"), answer.headers.get("X-Subject-Token", "")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read()), ""

    def login(self, name: str, password: str, domain: str, **auth: Any) -> tuple[int, Any, str]:
        user = {"name": name, "password": password, "domain": {"name": domain}}
        return self.ask(
            "/auth/tokens", {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, **auth}}
        )

    def admin(self) -> dict[str, str]:
        """Return the header with a token of the administrator."""
        scope = {"project": {"name": "admin", "domain": {"name": "Default"}}}
        status, answer, token = self.login("admin", self.password, "Default", scope=scope)
        assert status == 201, answer
        return {"X-Auth-Token": token}


def _domain(name: str, url: str, authorities: str) -> dict[str, Any]:
    login = {"bindDN": READER, "bindPasswordSecretRef": {"name": "reader"}}
    trees = {"userTreeDN": PEOPLE, "groupTreeDN": GROUPS}
    return {"name": name, "ldap": {"url": url, "caSecretRef": {"name": authorities}, **login, **trees}, "config": UID}


@pytest.fixture(name="stand", scope="module")
def _stand(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with ExitStack() as stack:

        def of(name: str, **people: str) -> LdapServer:
            return stack.enter_context(ldap_server(tmp_path_factory.mktemp(name), people, READERS))

        company, partner, stranger = of("company", ada="lovelace"), of("partner", eve="e v e"), of("stranger", bob="b")
        silent = stack.enter_context(tcp_server(lambda connection: connection.recv(1 << 16) and connection.recv(1)))
        root = stack.enter_context(image_root("keystone"))
        domains = [
            _domain("Company", company.ldaps, "company"),
            _domain("Partner.example", partner.ldap, "partner"),
            # Its certificate is by an authority that none of these has.
            _domain("Stranger", stranger.ldaps, "company"),
            _domain("Silent", f"ldaps://127.0.0.1:{silent}", "company"),
        ]
        made = plan(
            context(
                KEYSTONE,
                {"domains": domains},
                release=release,
                published={"MariaDB": {"host": "127.0.0.1", "port": "9"}, "Memcached": {"servers": "127.0.0.1:9"}},
                secrets={
                    "reader": {"password": READERS},
                    "company": {"ca.crt": company.authorities},
                    "partner": {"ca.crt": partner.authorities},
                },
            )
        )
        objects = {key(obj): obj for obj in made.objects}
        for name, folder in (
            ("config", "/etc/keystone"),
            ("domains", "/etc/keystone/domains"),
            ("fernet-keys", "/etc/keystone/fernet-keys"),
            ("credential-keys", "/etc/keystone/credential-keys"),
        ):
            at = root / folder.lstrip("/")
            at.mkdir(exist_ok=True, mode=0o755)
            for file, text in kube.secret_data(objects["Secret", f"keystone-{name}"]).items():
                (at / file).write_text(alone(text) if file == "keystone.conf" else text)
                (at / file).chmod(0o644)
        [main] = [
            each
            for each in objects["Deployment", "keystone-api"]["spec"]["template"]["spec"]["containers"]
            if each["name"] == "main"
        ]
        env = {each["name"]: each["value"] for each in main["env"] if each["name"].startswith("LDAP")}
        served = Stand(root, release, free_port(), "of the administrator", env)
        names = {
            "OS_BOOTSTRAP_USERNAME": "admin",
            "OS_BOOTSTRAP_PASSWORD": served.password,
            "OS_BOOTSTRAP_PROJECT_NAME": "admin",
            "OS_BOOTSTRAP_SERVICE_NAME": "keystone",
            "OS_BOOTSTRAP_REGION_ID": "RegionOne",
        }
        assert served.run(*agents.shell("keystone/bootstrap.sh"), **names)[0] == 0
        # One connection of a request reads while another one writes.
        with closing(sqlite3.connect(root / "tmp/keystone.sqlite")) as database:
            database.execute("PRAGMA journal_mode=WAL")
        status, text = served.make_domains(*(each["name"] for each in domains))
        assert status == 0, text
        assert "domain 'Company': made" in text
        # Jobs are repeated.
        status, text = served.make_domains(*(each["name"] for each in domains))
        assert (status, "made" in text) == (0, False), text
        words = [
            word.format(listen=f"127.0.0.1:{served.port}", processes=1, threads=1)
            for word in release["keystone-api"].command
        ]
        ready(served.port, stack.enter_context(inside(root, USER, *words, env={**ENV, **env})))
        yield served


@pytest.mark.parametrize(
    ("name", "password", "domain"), [("ada", "lovelace", "Company"), ("eve", "e v e", "Partner.example")]
)
def test_a_user_of_a_directory_gets_a_token(stand: Stand, name: str, password: str, domain: str) -> None:
    """By LDAPS, and by StartTLS with a certificate by another authority, in one process."""
    status, answer, _ = stand.login(name, password, domain)
    assert status == 201, answer
    assert (answer["token"]["user"]["name"], answer["token"]["user"]["domain"]["name"]) == (name, domain)
    assert stand.login(name, "wrong", domain)[0] == 401
    assert stand.login(name, "", domain)[0] in (400, 401)


def test_users_and_groups_of_the_directory_are_listed_and_get_roles(stand: Stand) -> None:
    admin = stand.admin()
    _, answer, _ = stand.ask("/domains?name=Company", **admin)
    domain = answer["domains"][0]["id"]
    _, answer, _ = stand.ask(f"/users?domain_id={domain}", **admin)
    assert [each["name"] for each in answer["users"]] == ["ada"]
    _, answer, _ = stand.ask(f"/groups?domain_id={domain}", **admin)
    [group] = answer["groups"]
    assert group["name"] == "staff"
    _, answer, _ = stand.ask("/roles?name=reader", **admin)
    role = answer["roles"][0]["id"]
    _, answer, _ = stand.ask("/projects?name=admin", **admin)
    path = f"/projects/{answer['projects'][0]['id']}/groups/{group['id']}/roles/{role}"
    assert stand.ask(path, {}, "PUT", **admin)[0] == 204
    scope = {"project": {"name": "admin", "domain": {"name": "Default"}}}
    status, answer, _ = stand.login("ada", "lovelace", "Company", scope=scope)
    assert (status, [each["name"] for each in answer["token"]["roles"]]) == (201, ["reader"])
    # Keystone reads directories alone.
    new = {"user": {"name": "new", "domain_id": domain, "password": "a"}}
    assert stand.ask("/users", new, **admin)[0] == 403


@pytest.mark.security
def test_a_directory_that_nobody_vouches_for_gets_no_password(stand: Stand) -> None:
    assert stand.login("bob", "b", "Stranger")[0] == 500


def test_a_directory_that_does_not_answer_holds_nobody_else(stand: Stand) -> None:
    assert stand.login("bob", "b", "Silent")[0] == 500
    assert stand.login("ada", "lovelace", "Company")[0] == 201


# As Keystone tries the password of a user: it sets no time within which the answer has to come.
BIND = """
import ldap, sys
connection = ldap.initialize(sys.argv[1])
try:
    connection.simple_bind_s("cn=a", "b")
except ldap.TIMEOUT:
    print("no answer in time")
"""


def test_an_answer_that_does_not_come_is_not_awaited_without_end(stand: Stand) -> None:
    with tcp_server(lambda connection: connection.recv(1 << 16) and connection.recv(1)) as silent:
        words = ("python3", "-c", BIND, f"ldap://127.0.0.1:{silent}")
        assert stand.run(*words, **stand.env) == (0, "no answer in time\n")


def test_users_and_groups_in_the_database_are_not_shut_out(stand: Stand) -> None:
    admin = stand.admin()
    ids = {
        name: stand.ask("/domains", {"domain": {"name": name}}, **admin)[1]["domain"]["id"] for name in ("Old", "Staff")
    }
    user = {"user": {"name": "old", "domain_id": ids["Old"], "password": "of the old one"}}
    assert stand.ask("/users", user, **admin)[0] == 201
    for name in ("one", "two"):
        assert stand.ask("/groups", {"group": {"name": name, "domain_id": ids["Staff"]}}, **admin)[0] == 201
    status, text = stand.make_domains("Old", "Staff", "Fresh")
    assert status == 1
    assert "database has 1 user of domain 'Old', 2 groups of domain 'Staff', and" in text
    assert "domain 'Fresh': made" in text, "one that is refused holds up no other"
    status, text = stand.make_domains("Default")
    assert status == 1, text

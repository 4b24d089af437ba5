"""The job that makes domains of Keystone for users of directories."""

from __future__ import annotations

from openstack_operator.plan import Release
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context

from .programs import Machine, job
from .test_keystone_bootstrap import PUBLISHED

# Keystone's modules, as far as the program calls them: domains are files in $STATE, with the number of their users.
_KEYSTONE = {
    "__init__": "",
    "exception": "class Conflict(Exception): pass\n",
    "server/__init__": """
import sys
def configure():
    assert sys.argv[1:] == [], sys.argv
""",
    "server/backends": "def load_backends(): pass\n",
    "common/__init__": "",
    "common/provider_api": """
import os
from keystone import exception
class Resources:
    def create_domain(self, domain_id, domain):
        assert domain["id"] == domain_id and domain["enabled"]
        try:
            open(os.environ["STATE"] + "/" + domain["name"], "x").close()
        except FileExistsError as error:
            raise exception.Conflict from error
    def get_domain_by_name(self, name):
        return {"id": name}
class ProviderAPIs:
    resource_api = Resources()
""",
    "common/sql": """
import contextlib, os
class Session:
    def query(self, model):
        return self
    def filter_by(self, domain_id):
        self.path = os.environ["STATE"] + "/" + domain_id
        return self
    def count(self):
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0
@contextlib.contextmanager
def session_for_read():
    yield Session()
""",
    "identity/__init__": "",
    "identity/backends/__init__": "",
    "identity/backends/sql_model": "class LocalUser: pass\nclass Group: pass\n",
}
LDAP = {"url": "ldaps://ldap.example.org", "userTreeDN": "ou=people"}


def test_domains_are_made_once_and_database_users_still_log_in(machine: Machine, release: Release) -> None:
    for name, text in _KEYSTONE.items():
        machine.module(f"keystone/{name}.py", text)
    spec = {"domains": [{"name": "Company", "ldap": LDAP}, {"name": "Old", "ldap": LDAP}]}
    container = job(plan(context(KEYSTONE, spec, release=release, published=PUBLISHED)), "keystone-domains")
    for output in ("domain 'Company': made\ndomain 'Old': made\n", ""):
        process = machine.run(container)
        assert (process.returncode, process.stdout) == (0, output), process.stderr
    (machine.state / "Old").write_text("uu")
    process = machine.run(container)
    assert process.returncode == 1
    assert "Keystone's database has 2 users and 2 groups of domain 'Old'" in process.stderr

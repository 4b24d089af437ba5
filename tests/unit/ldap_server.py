"""slapd of this machine as a directory of users, over TLS alone."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openstack_operator import pki
from tests.unit.image_root import listens
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

BASE = "dc=example,dc=org"
PEOPLE, GROUPS = f"ou=people,{BASE}", f"ou=groups,{BASE}"
READER = f"cn=keystone reader,{BASE}"
SLAPD, SLAPADD = "/usr/sbin/slapd", "/usr/sbin/slapadd"

_CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
moduleload back_mdb
pidfile {folder}/pid
TLSCertificateFile {folder}/tls.crt
TLSCertificateKeyFile {folder}/tls.key
security ssf=1
database mdb
maxsize 16777216
suffix {base}
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""


@dataclass(frozen=True)
class LdapServer:
    """A directory that answers."""

    ldaps: str
    """URL with TLS from the first byte."""
    ldap: str
    """URL with StartTLS."""
    authorities: str


def _entry(dn: str, *classes: str, **values: str) -> str:
    lines = [f"dn: {dn}", *(f"objectClass: {each}" for each in classes)]
    lines += [f"{name}:: {base64.b64encode(value.encode()).decode()}" for name, value in values.items()]
    return "\n".join(lines) + "\n\n"


def _person(uid: str, password: str) -> str:
    names = {"cn": uid, "sn": uid.title(), "uid": uid, "mail": f"{uid}@example.org"}
    return _entry(f"uid={uid},{PEOPLE}", "inetOrgPerson", userPassword=password, **names)


@contextmanager
def ldap_server(folder: Path, people: Mapping[str, str], password: str) -> Generator[LdapServer]:
    """A directory with the passwords of people, all of whom are in the group `staff`; only READER may look, with that
    password. Skips the test where there is no slapd.
    """
    if not Path(SLAPD).exists() or not shutil.which("unshare"):
        pytest.skip("needs slapd: apt-get install slapd")
    now = datetime.now(UTC)
    authority = pki.authority(str(folder), folder.name, now)
    pair = pki.issue(authority, pki.Request(common="directory", names=frozenset({"127.0.0.1"})), str(folder), now)
    (folder / "data").mkdir()
    for name, text in (("tls.crt", pair.cert), ("tls.key", pair.key)):
        (folder / name).write_text(text)
    conf = folder / "slapd.conf"
    conf.write_text(_CONF.format(folder=folder, base=BASE, reader=READER))
    entries = [
        _entry(BASE, "dcObject", "organization", dc="example", o="example"),
        _entry(READER, "organizationalRole", "simpleSecurityObject", cn="keystone reader", userPassword=password),
        _entry(PEOPLE, "organizationalUnit", ou="people"),
        _entry(GROUPS, "organizationalUnit", ou="groups"),
        *(_person(*each) for each in people.items()),
        _entry(
            f"cn=staff,{GROUPS}", "groupOfNames", cn="staff", ou="staff", member=f"uid={next(iter(people))},{PEOPLE}"
        ),
    ]
    add = [SLAPADD, "-f", str(conf)]
    subprocess.run(add, input="".join(entries), text=True, check=True, timeout=TIMEOUT)
    ports = free_port(), free_port()
    urls = f"ldaps://127.0.0.1:{ports[0]}", f"ldap://127.0.0.1:{ports[1]}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SLAPD, "-d", "0", "-f", str(conf), "-h", " ".join(urls)], stdout=log, stderr=log)
    try:
        until("slapd to listen", lambda: server.poll() is not None or listens(ports[1]))
        assert server.poll() is None, (folder / "log").read_text()
        yield LdapServer(*urls, authority.cert)
    finally:
        server.kill()
        server.wait(TIMEOUT)

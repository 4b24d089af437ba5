"""Programs of images, started as in a cluster of IPv6: they take clients of both families."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.plan import Release
from openstack_operator.services.etcd.model import ETCD
from openstack_operator.services.etcd.service import plan as etcd
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan as memcached
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan as ovnnetwork
from openstack_operator.testing import context
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT, until
from tests.unit.services.test_front import CONTRACTS, objects
from tools.localcluster.ports import free_port

pytestmark = [
    pytest.mark.seconds,
    pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the kernel of this machine has no IPv6"),
]


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT).close()
    except OSError:
        return False
    return True


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str] | None = None) -> Generator[subprocess.Popen[bytes]]:
    program = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    try:
        yield program
    finally:
        # Nothing that it holds matters, and uWSGI without a master may not end by itself.
        program.kill()
        program.wait()


def both_families(program: subprocess.Popen[Any], port: int) -> None:
    until("the program to listen", lambda: answers("::1", port) or program.poll() is not None)
    assert program.poll() is None
    assert answers("127.0.0.1", port)


def main_container(found: Any, kind: str, name: str) -> Any:
    return found[kind, name]["spec"]["template"]["spec"]["containers"][0]


def in_root(root: Path, uid: int, *command: str) -> list[str]:
    return ["chroot", f"--userspec={uid}:{uid}", str(root), *command]


def test_memcached(release: Release) -> None:
    found = objects(memcached(context(MEMCACHED, release=release, is_ipv6=True)))
    command = main_container(found, "StatefulSet", "memcached-server")["command"]
    port = free_port()
    with image_root("memcached") as root:
        words = [str(port) if word == "11211" else word for word in command]
        with running(in_root(root, 42457, *words)) as program:
            both_families(program, port)


def test_memcached_with_a_port_for_each_way(release: Release) -> None:
    """As with TLS, which is left out here."""
    port, second = free_port(), free_port()
    listen = f"127.0.0.1:{port},[::1]:{port},[::]:{second},0.0.0.0:{second}"
    with (
        image_root("memcached") as root,
        running(in_root(root, 42457, "memcached", "-l", listen, "-U", "0")) as program,
    ):
        both_families(program, port)
        both_families(program, second)


def test_mariadb() -> None:
    port = free_port()
    with image_root("mariadb") as root:
        (root / "data").mkdir()
        os.chown(root / "data", 42434, 42434)
        files = ["--datadir=/data", "--socket=/data/sock", "--pid-file=/data/pid", "--skip-grant-tables"]
        command = ["mariadbd", "--no-defaults", *files, f"--port={port}", "--bind-address=*", "--skip-log-error"]
        with inside(root, 42434, *command, env={}) as program:
            both_families(program, port)


def test_etcd(release: Release, tmp_path: Path) -> None:
    found = objects(etcd(context(ETCD, release=release, is_ipv6=True)))
    env = {each["name"]: each.get("value", "") for each in main_container(found, "StatefulSet", "etcd-server")["env"]}
    client, peer = free_port(), free_port()
    urls = {
        "ETCD_LISTEN_CLIENT_URLS": env["ETCD_LISTEN_CLIENT_URLS"].replace("2379", str(client)),
        "ETCD_LISTEN_PEER_URLS": env["ETCD_LISTEN_PEER_URLS"].replace("2380", str(peer)),
        "ETCD_ADVERTISE_CLIENT_URLS": f"http://[::1]:{client}",
        "ETCD_DATA_DIR": str(tmp_path / "data"),
        "ETCD_LOG_LEVEL": "error",
    }
    with image_root("etcd") as root:
        program = next(path for path in (root / "usr/bin/etcd", root / "usr/local/bin/etcd") if path.exists())
        with running([str(program)], urls) as process:
            both_families(process, client)
            both_families(process, peer)


def test_uwsgi(release: Release) -> None:
    found = objects(keystone(context(KEYSTONE, release=release, published=CONTRACTS, is_ipv6=True)))
    command = main_container(found, "Deployment", "keystone-api")["command"]
    [listen] = [word for word in command if word.endswith(":5000")]
    port = free_port()
    with image_root("keystone") as root:
        (root / "app.py").write_text("def application(env, start):\n    start('200 OK', [])\n    return [b'']\n")
        words = ["uwsgi", "--http-socket", listen.replace("5000", str(port)), "--plugins-dir", "/usr/lib/uwsgi/plugins"]
        python = ["--plugin", "python3", "--wsgi-file", "/app.py", "--die-on-term"]
        if not (root / "usr/lib/uwsgi/plugins/python3_plugin.so").exists():
            words, python = words[:3], python[2:]
        with running(in_root(root, 42425, *words, *python)) as program:
            both_families(program, port)


OVN = """
ip link set lo up
cd /tmp
export OVN_SEED=$OVN_ADDRESS OVN_MEMBERS=$OVN_ADDRESS
ovn-db-start sb > /dev/null 2>&1 &
until ovn-db-ready sb > /dev/null 2>&1; do sleep 0.1; done
ask() { ovn-sbctl --no-leader-only --timeout=60 --db="$1" --bare --columns=_uuid list SB_Global; }
ovn-sbctl --timeout=60 --db=tcp:$OVN_ADDRESS:6642 init
echo name $(ask tcp:$OVN_ADDRESS:6642) six $(ask tcp:[::1]:6642) four $(ask tcp:127.0.0.1:6642)
echo raft $(ovs-appctl --timeout=5 -t /run/ovn/ovnsb_db.ctl cluster/status OVN_Southbound | grep -c '^Role: leader')
# The port of raft, 6644, is at the address of the name, as soon as that is known.
until grep -q '01000000:19F4 .* 0A ' /proc/net/tcp6; do sleep 0.1; done
echo done
"""
"""A member of the southbound database, whose name has an address of IPv6 alone, and its clients."""


def test_a_database_of_ovn(release: Release) -> None:
    found = objects(ovnnetwork(context(OVN_NETWORK, release=release, is_ipv6=True, owner="ovn")))
    env = {each["name"]: each.get("value", "") for each in main_container(found, "StatefulSet", "ovn-sb")["env"]}
    with image_root("ovn") as root:
        (root / "etc/hosts").write_text("::1 localhost ovn-sb-0.test\n", encoding="utf-8")
        (root / "etc/resolv.conf").write_text("nameserver ::1\n", encoding="utf-8")
        command = ("unshare", "--net", "timeout", f"{TIMEOUT:.0f}", "sh", "-c", OVN)
        names = {
            "OVN_ADDRESS": "ovn-sb-0.test",
            "OVN_LISTEN": env["OVN_LISTEN"],
            "OVS_UNBOUND_CONF": "/etc/openvswitch/unbound.conf",
        }
        with inside(root, 0, *command, env={"HOME": "/tmp", **names}, output=subprocess.PIPE) as process:
            assert process.stdout
            lines = [line.split() for line in process.stdout]
            process.stdout.close()
    [[_, row, *answers], raft, end] = lines
    assert answers == ["six", row, "four", row]
    assert (raft, end) == (["raft", "1"], ["done"])


def test_haproxy_takes_the_address_of_a_pod_without_brackets(tmp_path: Path) -> None:
    port = free_port()
    config = f'defaults\n  mode http\n  timeout client 5s\nfrontend a\n  bind "${{POD_IP}}:{port}"\n'
    (tmp_path / "haproxy.cfg").write_text(config, encoding="utf-8")
    with image_root("haproxy") as root:
        shutil.copy(tmp_path / "haproxy.cfg", root / "haproxy.cfg")
        command = ["chroot", str(root), "haproxy", "-db", "-f", "/haproxy.cfg"]
        with running(command, {"POD_IP": "::1"}) as program:
            until("haproxy to listen", lambda: answers("::1", port) or program.poll() is not None)
            assert program.poll() is None

"""Somebody in the place of a server: clients, with the very options and programs of a service, are sent there."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from openstack_operator import pki
from tools.localcluster.kubernetes import Kubernetes

from .hops import NAMESPACE

DOMAIN = f"{NAMESPACE}.svc.cluster.local"
SERVERS = {
    "mariadb": f"mariadb.{DOMAIN}",
    "rabbitmq": f"rabbitmq.{DOMAIN}",
    "keystone": f"keystone-api.{DOMAIN}",
    "northbound": f"ovn-nb-0.ovn-nb.{DOMAIN}",
    "memcached": f"memcached-server-0.memcached.{DOMAIN}",
    "console": "a.node",
}
"""Whose place is taken, by the hop."""
CLIENTS = {"console": "nova-cell1-novncproxy"}
"""Whose programs and options a hop's client has, where they are not those of Neutron's API."""

# It serves with the certificate it is given, calls itself as the service does, and says what came of it.
_PROGRAM = r"""
import json, logging, os, socket, ssl, struct, sys, threading
# oslo.messaging asks for its process group, which is one outside.
os.setsid()
given = json.load(sys.stdin)
logging.disable(logging.CRITICAL)
for name in ("cert", "key"):
    with open(f"/tmp/{name}.pem", "w") as file:
        file.write(given[name])
trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
trust.load_cert_chain("/tmp/cert.pem", "/tmp/key.pem")
taken, words = [], []

def greet(sock):
    # A MySQL server says who it is before it is asked for TLS.
    caps = 0x0800 | 0x0200 | 0x8000 | 1
    hello = b"\x0a5.5.5-11.8.3-MariaDB\0" + struct.pack("<I", 1) + b"8" * 8 + b"\0"
    hello += struct.pack("<HBHH", caps, 45, 2, 0x0008)
    hello += bytes([21]) + b"\0" * 10 + b"8" * 12 + b"\0mysql_native_password\0"
    sock.sendall(struct.pack("<I", len(hello))[:3] + b"\0" + hello)
    sock.recv(36)

def offer(sock):
    # A VNC server that chose VeNCrypt 0.2, with certificates and no password.
    sock.sendall(b"\0\2")
    sock.recv(2)
    sock.sendall(b"\0\1" + struct.pack("!I", 260))
    sock.recv(4)
    sock.sendall(b"\1")

def serve(listening):
    while True:
        sock, _ = listening.accept()
        sock.settimeout(5)
        try:
            {"mariadb": greet, "console": offer}.get(given["hop"], lambda sock: None)(sock)
            sock = trust.wrap_socket(sock, server_side=True)
            # With TLS 1.3 a client that refuses says so when the server believes to be done.
            if sock.recv(1):
                taken.append(True)
        except OSError as error:
            # Not every client says why it left.
            words.append(f"heard: {error}")
        finally:
            sock.close()

listening = socket.create_server(("127.0.0.1", given["port"]))
threading.Thread(target=serve, args=(listening,), daemon=True).start()

from oslo_config import cfg
conf = cfg.CONF

def mariadb():
    import sqlalchemy
    from oslo_db import options
    options.set_defaults(conf)
    conf(["--config-file=/etc/neutron/neutron.conf"], project="neutron")
    sqlalchemy.create_engine(conf.database.connection).connect()

def rabbitmq():
    import oslo_messaging
    conf(["--config-file=/etc/neutron/neutron.conf"], project="neutron")
    transport = oslo_messaging.get_rpc_transport(conf)
    oslo_messaging.get_rpc_client(transport, oslo_messaging.Target(topic="nobody"), retry=0).cast({}, "ping")

def keystone():
    from keystoneauth1 import loading
    for each in (loading.register_auth_conf_options, loading.register_session_conf_options):
        each(conf, "nova")
    conf(["--config-file=/etc/neutron/neutron.conf"], project="neutron")
    auth = loading.load_auth_from_conf_options(conf, "nova")
    loading.load_session_from_conf_options(conf, "nova", auth=auth, connect_retries=0).get_token()

def northbound():
    from neutron.conf.plugins.ml2.drivers.ovn import ovn_conf
    from ovs.stream import SSLStream, Stream
    ovn_conf.register_opts()
    conf(["--config-file=/etc/neutron/neutron.conf"], project="neutron")
    Stream.ssl_set_private_key_file(conf.ovn.ovn_nb_private_key)
    Stream.ssl_set_certificate_file(conf.ovn.ovn_nb_certificate)
    Stream.ssl_set_ca_cert_file(conf.ovn.ovn_nb_ca_cert)
    where = conf.ovn.ovn_nb_connection
    error, stream = Stream.open_block(Stream.open(where if isinstance(where, str) else where[0]), 5000)
    if error:
        raise OSError(error, "no stream")
    stream.send(b"hello")

def memcached():
    from keystonemiddleware.auth_token import AuthProtocol
    conf(["--config-file=/etc/neutron/neutron.conf"], project="neutron")
    cache = AuthProtocol(None, {"oslo_config_config": conf})._token_cache
    cache.initialize({})
    cache.get("somebody's token")

def console():
    import nova.conf
    from nova.console.rfb.authvencrypt import RFBAuthSchemeVeNCrypt
    nova.conf.CONF(["--config-file=/etc/nova/nova.conf"], project="nova")
    sock = socket.create_connection(("127.0.0.1", given["port"]), 10)
    RFBAuthSchemeVeNCrypt().security_handshake(sock).sendall(b"hello")

try:
    globals()[given["hop"]]()
except Exception as error:
    while error is not None:
        words.append(str(error))
        error = error.__cause__ or error.__context__
# Whoever serves has yet to read what was sent.
threading.Event().wait(1)
print("sent something:" if taken else "refused:", " | ".join(words).replace("\n", " "))
"""


@contextmanager
def stands_in(cluster: Kubernetes, hop: str) -> Generator[str]:
    """Name of a pod like one of the hop's client, to which all servers are on its own loopback."""
    owner = CLIENTS.get(hop, "neutron-api")
    kind = "deployment" if cluster.exists("deployment", owner, "-n", NAMESPACE) else "statefulset"
    found = cluster.get(kind, owner, "-n", NAMESPACE)["spec"]["template"]["spec"]
    main = next(each for each in found["containers"] if each["name"] == "main")
    kept = {key: main[key] for key in ("name", "image", "volumeMounts", "securityContext") if key in main}
    pod = f"impostor-{owner}"
    spec = {
        **{key: value for key, value in found.items() if key not in {"containers", "initContainers"}},
        "containers": [{**kept, "command": ["sleep", "3600"]}],
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": list(SERVERS.values())}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": NAMESPACE}, "spec": spec})
    try:
        cluster.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "-n", NAMESPACE, "--timeout=60s")
        yield pod
    finally:
        cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE)


def answer(cluster: Kubernetes, pod: str, hop: str, port: int, certificate: pki.Pair) -> str:
    """What a client of a server says that is led to somebody with that certificate."""
    given = json.dumps({"hop": hop, "port": port, "cert": certificate.cert, "key": certificate.key})
    words = ("exec", "-i", "-n", NAMESPACE, pod, "--", "python3", "-W", "ignore", "-c", _PROGRAM)
    return cluster.kubectl(*words, stdin=given).strip().splitlines()[-1]


def forged(name: str, signer: pki.Pair | None = None) -> pki.Pair:
    """A certificate for a name, by an authority of our own making or by one whose key fell into the wrong hands."""
    now = datetime.now(UTC)
    signer = signer or pki.authority("somebody", "somebody else", now)
    return pki.issue(signer, pki.Request(common=name, names=frozenset({name}), calls=True), "drawn", now)

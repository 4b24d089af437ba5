"""Keys of volumes in the images: Barbican's API, and castellan as Cinder, Nova and Glance call it, with the operator's
configuration; before them a small Keystone."""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping
from configparser import ConfigParser
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from openstack_operator import kube
from openstack_operator.plan import Plan, Release, key
from openstack_operator.services import barbican, cinder, glance, nova
from openstack_operator.testing import context
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT
from tools.localcluster.ports import free_port

USER = 42403
"""Of Barbican."""
INTERFACES = ("public", "internal", "admin")
TOKENS = {
    "member": ("ada", "guests", "member"),
    "reader": ("eve", "guests", "reader"),
    "stranger": ("bob", "others", "member"),
    "admin": ("root", "admin", "admin"),
    # Of a request that began long ago.
    "ended": ("ada", "guests", "member"),
}
"""User, project and role of a user's token."""
SERVICES = {"cinder": "service", "nova-compute": "service", "nova": "service", "glance": "service", "barbican": "admin"}
"""Roles of services' users."""


@dataclass
class Calls:
    """What was asked of Keystone."""

    logins: list[str] = field(default_factory=list[str])
    """Services that logged in with their passwords."""
    rescoped: list[str] = field(default_factory=list[str])
    """Tokens for which somebody asked another one."""


class Keystone(BaseHTTPRequestHandler):
    """Says whose a token is."""

    calls: ClassVar[Calls] = Calls()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def say(self, status: int, body: Mapping[str, Any], **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path != "/v3/auth/tokens":
            links = [{"rel": "self", "href": f"http://{self.headers['Host']}/v3"}]
            return self.say(200, {"version": {"id": "v3.14", "status": "stable", "links": links}})
        subject = self.headers["X-Subject-Token"]
        if subject == "ended" and "allow_expired" not in query:
            return self.say(404, {"error": {"code": 404, "message": "no", "title": "Not Found"}})
        return self.say(200, {"token": self.token(subject)})

    def token(self, subject: str) -> dict[str, Any]:
        service = subject.removeprefix("of-")
        user, project, role = TOKENS.get(subject, (service, "service", SERVICES.get(service, "nobody")))
        domain = {"id": "default", "name": "Default"}
        url = f"http://{self.headers['Host']}/v3"
        endpoints = [{"id": each, "interface": each, "region_id": "RegionOne", "url": url} for each in INTERFACES]
        return {
            "methods": ["password"],
            "user": {"id": user, "name": user, "domain": domain, "password_expires_at": None},
            "project": {"id": project, "name": project, "domain": domain},
            "roles": [{"id": role, "name": role}],
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2020-01-01T00:00:00.000000Z" if subject == "ended" else "2099-01-01T00:00:00.000000Z",
            "audit_ids": ["a"],
            # Without the key manager, whose address is in the configuration.
            "catalog": [{"id": "k", "type": "identity", "name": "keystone", "endpoints": endpoints}],
        }

    def do_POST(self) -> None:
        identity = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["auth"]["identity"]
        if "token" in identity:
            subject = identity["token"]["id"]
            self.calls.rescoped.append(subject)
        else:
            name = identity["password"]["user"]["name"]
            subject = f"of-{name}"
            self.calls.logins.append(name)
        return self.say(201, {"token": self.token(subject)}, **{"X-Subject-Token": subject})


# Prints the id and the key in hexadecimal digits, or the name of the error. Arguments: the service, its configuration,
# the token with its user and project, and the id of a key, if there is one already.
ASK = """
import binascii, importlib, sys
service, path, token, user, project, *given = sys.argv[1:]
from castellan import key_manager
from oslo_config import cfg
if service == "glance":
    from oslo_context.context import RequestContext
    cfg.CONF(["--config-file", path], project=service)
    who = RequestContext(auth_token=token, user_id=user, project_id=project)
else:
    who = importlib.import_module(f"{service}.context").RequestContext(
        user_id=user, project_id=project, auth_token=token, is_admin=False, service_catalog=[])
    if service == "nova":
        from nova import config
        config.parse_args(["nova", "--config-file", path])
    else:
        import cinder.keymgr
        cfg.CONF(["--config-file", path], project=service)
manager = key_manager.API(cfg.CONF)
try:
    id_ = given[0] if given else manager.create_key(who, algorithm="aes", length=256)
    print(id_, binascii.hexlify(manager.get(who, id_).get_encoded()).decode())
except Exception as error:
    print(type(error).__name__, str(error).replace(chr(10), " "))
"""


# Nova's own code up to what libvirt gets, which is printed: a passphrase. Arguments: a volume as os-brick has attached
# it, its format, and the id of its key.
ATTACH = """
import sys
path, format_, key = sys.argv[1:]
from nova import config, context
config.parse_args(["nova", "--config-file", "/tmp/nova.conf"])
import os_brick.privileged
os_brick.privileged.default.set_client_mode(False)
from nova.virt.libvirt.driver import LibvirtDriver
class Host:
    def find_secret(self, usage_type, usage_id):
        return None
    def create_secret(self, usage_type, usage_id, password):
        print(usage_type, password)
driver = LibvirtDriver.__new__(LibvirtDriver)
driver._host = Host()
who = context.RequestContext(user_id="ada", project_id="guests", auth_token="member", is_admin=False)
data = {"device_path": path, "format": format_, "volume_id": "v"}
encryption = {"encryption_key_id": key, "provider": "luks", "cipher": "aes-xts-plain64", "key_size": 256,
              "control_location": "front-end"}
driver._attach_encryptor(who, {"driver_volume_type": "any", "serial": "v", "data": data}, encryption)
"""


@dataclass
class Stand:
    """The roots of the images of clients, by service; Barbican runs."""

    stack: ExitStack
    release: Release
    keystone: str
    barbican: str
    roots: dict[str, Path] = field(default_factory=dict[str, Path])

    def root(self, image: str) -> Path:
        """The root of an image, with the script and the rendered configuration of its service."""
        if image not in self.roots:
            root = self.roots[image] = self.stack.enter_context(image_root(image))
            (root / "tmp/ask.py").write_text(ASK)
        return self.roots[image]

    def conf(self, service: Any, spec: Mapping[str, Any], secret: str, file: str) -> str:
        """The rendered configuration of one program."""
        published = {
            "Keystone": {"internalURL": self.keystone},
            "Barbican": {"internalURL": self.barbican},
            "MariaDB": {"host": "127.0.0.1", "port": "9"},
            "RabbitMQ": {"host": "127.0.0.1", "port": "9"},
            "Memcached": {"servers": "127.0.0.1:9"},
            "Glance": {"internalURL": "http://127.0.0.1:9"},
            "Neutron": {"metadataSecret": "neutron"},
        }
        made: Plan = service.plan(
            context(
                service.resource,
                spec,
                release=self.release,
                published=published,
                secrets={"neutron": {"metadata": "x"}},
                draw=lambda: "drawn",
            )
        )
        return kube.secret_data({key(obj): obj for obj in made.objects}["Secret", secret])[file]

    def ask(self, service: str, token: str, *given: str) -> tuple[str, str]:
        """The id of a key and the key; or the name of an error and its text."""
        image = {"nova": "compute"}.get(service, service)
        ref = {"barbicanRef": {"name": "barbican"}}
        root = self.root(image)
        if not (conf := root / f"tmp/{service}.conf").exists():
            module, secret, file = {
                "cinder": (cinder, "cinder-config", "cinder.conf"),
                "nova": (nova, "nova-cell1-compute-config", "nova.conf"),
                "glance": (glance, "glance-config", "glance-api.conf"),
            }[service]
            conf.write_text(self.conf(module.SERVICE, ref, secret, file))
        user, project, _ = TOKENS[token]
        words = ["python3", "/tmp/ask.py", service, f"/tmp/{service}.conf", token, user, project, *given]
        id_, _, text = self.run(image, *words).splitlines()[-1].partition(" ")
        return id_, text

    def run(self, image: str, *words: str) -> str:
        """What a program of an image prints."""
        env = {"HOME": "/tmp", "LANG": "C.UTF-8"}
        with inside(self.root(image), 0, *words, env=env, output=subprocess.PIPE) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, output
        return output


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Generator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def alone(text: str) -> str:
    """Barbican's configuration for a machine without the other servers: a file for the schema, no queue, no cache."""
    conf = ConfigParser(interpolation=None, default_section="none", strict=False)
    conf.read_string(text)
    conf["database"]["connection"] = "sqlite:////tmp/barbican.sqlite"
    conf["queue"]["enable"] = "false"
    for name in [each for each in conf["keystone_authtoken"] if each.startswith("memcache")]:
        conf.remove_option("keystone_authtoken", name)
    buffer = io.StringIO()
    conf.write(buffer)
    return buffer.getvalue()


@pytest.fixture(name="stand", scope="module")
def _stand(release: Release) -> Iterator[Stand]:
    with ExitStack() as stack:
        root = stack.enter_context(image_root("barbican"))
        port = free_port()
        keystone = f"http://127.0.0.1:{stack.enter_context(serving(Keystone))}/v3"
        stand = Stand(stack, release, keystone, f"http://127.0.0.1:{port}")
        conf = root / "etc/barbican/barbican.conf"
        conf.write_text(alone(stand.conf(barbican.SERVICE, {}, "barbican-config", "barbican.conf")))
        conf.chmod(0o644)
        env = {"HOME": "/tmp", "LANG": "C.UTF-8"}
        with inside(root, USER, "barbican-manage", "db", "upgrade", env=env) as schema:
            assert schema.wait(TIMEOUT) == 0
        words = [
            word.format(listen=f"127.0.0.1:{port}", processes=1, threads=4) for word in release["barbican-api"].command
        ]
        ready(port, stack.enter_context(inside(root, USER, *words, env=env)))
        yield stand


def ready(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            connection.request("GET", "/healthcheck")
            assert connection.getresponse().status == 200
            return
        except OSError:
            assert process.poll() is None, "Barbican ended"
            assert time.monotonic() < deadline, "Barbican does not answer"
            time.sleep(0.2)
        finally:
            connection.close()


@pytest.fixture(name="volume_key", scope="module")
def _volume_key(stand: Stand) -> tuple[str, str]:
    """The id of a key that Cinder made for a member of the project, and the key."""
    id_, found = stand.ask("cinder", "member")
    assert len(bytes.fromhex(found)) == 32, (id_, found)
    return id_, found


def test_cinder_makes_a_key_as_the_user_and_nova_reads_it(stand: Stand, volume_key: tuple[str, str]) -> None:
    assert stand.ask("nova", "member", volume_key[0]) == volume_key
    assert {"cinder", "nova-compute"} <= set(Keystone.calls.logins)


def test_glance_reads_with_a_token_that_it_gets_for_the_user(stand: Stand, volume_key: tuple[str, str]) -> None:
    assert stand.ask("glance", "member", volume_key[0]) == volume_key
    assert "member" in Keystone.calls.rescoped


def test_a_request_outlives_the_token_with_which_it_began(stand: Stand, volume_key: tuple[str, str]) -> None:
    """As the attachment of a volume that waited for its turn."""
    assert stand.ask("nova", "ended", volume_key[0]) == volume_key


@pytest.mark.security
@pytest.mark.parametrize("token", ["reader", "stranger", "admin"])
def test_only_members_of_the_project_get_a_volume_key(stand: Stand, volume_key: tuple[str, str], token: str) -> None:
    """Nor an administrator of the cloud, whose servers are others': those who move them need no key but Nova does."""
    error, text = stand.ask("nova", token, volume_key[0])
    assert error == "KeyManagerError", text
    assert "Forbidden" in text


QUICK = "iter-time=10"
"""Milliseconds that an attempt at a passphrase costs; of QEMU's own accord it is two seconds."""


@pytest.mark.security
def test_guest_data_is_encrypted_on_the_storage(stand: Stand, volume_key: tuple[str, str]) -> None:
    """The passphrase and the format are as Cinder makes them and Nova tells libvirt: see cinder/volume/drivers/rbd.py
    and nova/virt/libvirt/driver.py. QEMU's own driver needs no module of the kernel."""
    volume, secret = stand.root("cinder") / "tmp/volume", "secret,id=sec,format=raw,file=/tmp/passphrase"
    (stand.root("cinder") / "tmp/passphrase").write_text(volume_key[1])
    created = ["-o", "key-secret=sec", "-o", "cipher-alg=aes-256", "-o", "cipher-mode=xts", "-o", "ivgen-alg=plain64"]
    created += ["-o", QUICK]
    stand.run("cinder", "qemu-img", "create", "-f", "luks", "--object", secret, *created, "/tmp/volume", "4M")
    opened = ["--object", secret, "--image-opts", "driver=luks,key-secret=sec,file.filename=/tmp/volume"]
    stand.run("cinder", "qemu-io", *opened, "-c", "write -P 0x5a 0 1M")
    assert volume.read_bytes().startswith(b"LUKS\xba\xbe\x00\x01"), "version 1, as Nova reads it"
    assert bytes([0x5A]) * 32 not in volume.read_bytes()
    # Another machine, whose nova-compute has only the id.
    (stand.root("compute") / "tmp/volume").write_bytes(volume.read_bytes())
    (stand.root("compute") / "tmp/passphrase").write_text(stand.ask("nova", "member", volume_key[0])[1])
    output = stand.run("compute", "qemu-io", *opened, "-c", "read -P 0x5a 0 1M")
    assert "Pattern verification failed" not in output
    assert "read 1048576/1048576 bytes" in output


@pytest.mark.security
def test_nova_formats_a_new_device_and_no_image_that_cinder_encrypted(
    stand: Stand, volume_key: tuple[str, str]
) -> None:
    """Devices of iSCSI come empty, files on NFS are encrypted qcow2 already."""
    id_, passphrase = volume_key
    root = stand.root("compute")
    stand.ask("nova", "member", id_)
    (root / "tmp/attach.py").write_text(ATTACH)
    (root / "tmp/passphrase").write_text(passphrase)
    device, image = root / "tmp/device", root / "tmp/image"
    device.write_bytes(bytes(8 << 20))
    secret = "secret,id=sec,format=raw,file=/tmp/passphrase"
    luks = f"encrypt.format=luks,encrypt.key-secret=sec,encrypt.{QUICK}"
    qcow2 = ["-f", "qcow2", "--object", secret, "-o", luks]
    stand.run("compute", "qemu-img", "create", *qcow2, "/tmp/image", "4M")
    before = image.read_bytes()
    attach = ("python3", "/tmp/attach.py")
    assert stand.run("compute", *attach, "/tmp/device", "raw", id_).splitlines()[-1] == f"volume {passphrase}"
    header = device.read_bytes()[:1024]
    assert header.startswith(b"LUKS\xba\xbe\x00\x01")
    opened = ["--object", secret, "--image-opts", "driver=luks,key-secret=sec,file.filename=/tmp/device"]
    stand.run("compute", "qemu-io", *opened, "-c", "write -P 0x5a 0 1M")
    assert bytes([0x5A]) * 32 not in device.read_bytes()
    stand.run("compute", *attach, "/tmp/device", "raw", id_)
    assert device.read_bytes()[:1024] == header, "what has a header keeps it"
    assert "read 1048576/1048576 bytes" in stand.run("compute", "qemu-io", *opened, "-c", "read -P 0x5a 0 1M")
    stand.run("compute", *attach, "/tmp/image", "qcow2", id_)
    assert image.read_bytes() == before

"""TLS in front of an API: an haproxy in its pods, so that slow clients and handshakes keep no worker of it waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import kube
from ..plan import Component, Context, Object
from .monitoring import METRICS, monitored, watched
from .tls import Certified, certified, followed

_CERTIFICATE = "/etc/openstack-front"
_RUN = "/run/front"
_PEERS = 8999
_METRICS = 8404
_PLAIN = Certified()
_PROXIED = {"OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING": "true"}
"""Environment of an API that believes a proxy how its client came."""


@dataclass(frozen=True, kw_only=True)
class Front:
    """What stands between an API and its clients, or that nothing does."""

    certificate: Certified = _PLAIN
    listens: str = "0.0.0.0"  # noqa: S104  (of a pod)
    """Where the API listens."""
    containers: Sequence[kube.Container] = ()
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the API."""
    watched: Sequence[Object] = ()
    """By what a Prometheus finds what it tells of itself."""

    def __bool__(self) -> bool:
        return bool(self.certificate)

    @property
    def scheme(self) -> str:
        """How clients are told to come."""
        return "https" if self.certificate.published else "http"


def front(
    ctx: Context[Any],
    component: str,
    port: int,
    program: Component,
    *,
    host: str,
    lifecycle: Mapping[str, Any] | None = None,
    proxied: bool = False,
    known_as: str = "",
    service: str = "",
    tunnels: bool = False,
) -> Front:
    """The front of the Deployment `<owner>-<component>`, if the spec asks for a certificate. `host` is a name or
    address by which clients outside come; `lifecycle` is what the program behind it does before it ends; `proxied`
    where clients outside come through a proxy that has ended their TLS; `known_as` is a variable of an API's whose pods
    call each other: the URL under which others find this one; `service` is the Service they are reached by, where it
    has another name; `tunnels` where a connection may be silent for a day, as that of a console. Raises SpecError as
    `certified` does.

    It takes what begins as TLS does for TLS, and everything else for plain HTTP, so that clients can move from one to
    the other while both are in use; the latter until TLS is required.
    """
    service, workload = service or ctx.name(component), ("Deployment", kube.fitting(ctx.name(component)))
    shown = certified(ctx, service, workloads=(workload,), name=f"{component}-tls", also=(host,) if host else ())
    own = f"http://127.0.0.1:{_PEERS}/$(POD_IP)" if shown.published else f"http://$(POD_IP):{port}"
    address = {"POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}}}
    known = {**address, known_as: own} if known_as else {}
    if not shown:
        return Front(certificate=shown, env={**known, **(_PROXIED if proxied else {})})
    # In the group of the API, so that the pod has one group for its volumes.
    entry = replace(ctx.release["haproxy"], gid=program.gid)
    beside = kube.Container(
        component=entry,
        name="front",
        command=["sh", "-ec", _start(peers=bool(known_as)), "sh", *entry.command],
        env={
            **address,
            "CONFIG": _config(port, plain=not shown.required, proxied=proxied, tunnels=tunnels)
            + (_peers(ctx.host(service), port) if known_as else "")
            + (_EXPORTED if monitored(ctx) else ""),
        },
        ports={METRICS: _METRICS} if monitored(ctx) else {},
        mounts=(*shown.mounts(_CERTIFICATE), *kube.scratch(_RUN)),
        alive=kube.Probe(tcp=port),
        lifecycle=lifecycle,
        memory="16Mi",
    )
    return Front(
        certificate=shown,
        listens="127.0.0.1",
        containers=(beside,),
        env={
            **known,
            **_PROXIED,
            # What serves HTTP itself reads from its options where.
            **({} if any("{listen}" in word for word in program.command) else {"OS_DEFAULT__BIND_HOST": "127.0.0.1"}),
        },
        watched=watched(ctx, component, _METRICS, shown, service) if monitored(ctx) else (),
    )


# A certificate that does not fit its key, as while one of the two is new, is refused, and asked about again.
_LOAD = f"""\
tell() {{ socat -t 5 - UNIX-CONNECT:{_RUN}/admin; }}
load() {{
    pem=$(cat {_CERTIFICATE}/tls.crt {_CERTIFICATE}/tls.key | grep -v '^$')
    printf 'set ssl cert {_CERTIFICATE}/tls.crt <<\\n%s\\n\\n' "$pem" | tell | grep -q 'ransaction'
    echo 'commit ssl cert {_CERTIFICATE}/tls.crt' | tell | grep -q 'Success'
}}
"""
_TRUST = f"""\
trust() {{
    pem=$(grep -v '^$' {_CERTIFICATE}/ca.crt)
    printf 'set ssl ca-file {_CERTIFICATE}/ca.crt <<\\n%s\\n\\n' "$pem" | tell | grep -q 'ransaction'
    echo 'commit ssl ca-file {_CERTIFICATE}/ca.crt' | tell | grep -q 'Success'
}}
"""


def _start(*, peers: bool) -> str:
    """The script that becomes haproxy."""
    known, told = (_LOAD + _TRUST, "{ trust; load; }") if peers else (_LOAD, "load")
    written = f"""printf '%s' "$CONFIG" > {_RUN}/haproxy.cfg\n"""
    return f"""{known}{written}{followed(_CERTIFICATE, told)}exec "$@" -f {_RUN}/haproxy.cfg\n"""


# Of what failed: whose it was, what was asked for without what a console has behind the path, the status, milliseconds,
# and how it ended.
_LOGGED = """\
    log stdout format raw daemon
    log-format "%ci %HM %HPO %ST %TR/%Tw/%Tc/%Tr/%Ta %tsc"
"""


def _config(port: int, *, plain: bool, proxied: bool, tunnels: bool) -> str:
    """haproxy.cfg. Each connection carries one request, as it does without a front: an idle one that is closed while
    its client sends the next would be a request that failed.
    """
    # What a proxy before this one says of its client holds.
    unknown = " unless { req.hdr(X-Forwarded-Proto) -m found }" if proxied else ""
    accepted = "req.len gt 0" if plain else "req.payload(0,1) -m bin 16"
    return f"""\
global
    maxconn 4000
    ssl-load-extra-del-ext
    ssl-default-bind-options ssl-min-ver TLSv1.2
    stats socket unix@{_RUN}/admin mode 600 level admin

defaults
    mode http
    option dontlognull
    option dontlog-normal
    option httpclose
    timeout http-request 30s
    timeout connect 5s
    timeout client 10m
    timeout server 10m
    timeout tunnel {"24h" if tunnels else "10m"}

frontend port
    mode tcp
    bind "${{POD_IP}}:{port}"
    tcp-request inspect-delay 30s
    tcp-request content accept if {{ {accepted} }}
    tcp-request content reject
    use_backend encrypted if {{ req.payload(0,1) -m bin 16 }}
    default_backend plain

backend encrypted
    mode tcp
    server own unix@{_RUN}/encrypted send-proxy-v2

backend plain
    mode tcp
    server own unix@{_RUN}/plain send-proxy-v2

frontend encrypted
    bind unix@{_RUN}/encrypted mode 600 accept-proxy ssl crt {_CERTIFICATE}/tls.crt alpn http/1.1
{_LOGGED}    http-request set-header X-Forwarded-Proto https
    default_backend api

frontend plain
    bind unix@{_RUN}/plain mode 600 accept-proxy
{_LOGGED}    http-request set-header X-Forwarded-Proto http{unknown}
    default_backend api

backend api
    http-request del-header Forwarded
    http-request del-header X-Forwarded-Host
    http-request del-header X-Forwarded-Prefix
    http-request set-header X-Forwarded-For %[src]
    server api 127.0.0.1:{port}
"""


# As encrypted as the API is: who may know how often it fails may be asked for in a NetworkPolicy.
_EXPORTED = f"""
frontend metrics
    bind "${{POD_IP}}:{_METRICS}" ssl crt {_CERTIFICATE}/tls.crt alpn http/1.1
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 404
"""


def _peers(name: str, port: int) -> str:
    """More of haproxy.cfg: what the API sends to `/<address of a pod>/...` of a port that is its pod's alone goes to
    that pod by TLS. An address says nothing in a certificate; that it is a pod of the Service `name` does.
    """
    # A session that is taken up again would not be checked again. Other authorities are taken up with the next
    # certificate of its own (crt), so that it has one, and is told of it last (haproxy 3.0).
    checked = f"verify required ca-file {_CERTIFICATE}/ca.crt verifyhost {name} no-ssl-reuse crt {_CERTIFICATE}/tls.crt"
    return f"""
frontend peers
    bind 127.0.0.1:{_PEERS}
{_LOGGED}    http-request set-dst path,field(2,/)
    http-request set-dst-port int({port})
    http-request replace-path /[^/]*(/.*) \\1
    default_backend peers

backend peers
    server peer 0.0.0.0:0 ssl sni str({name}) {checked}
"""

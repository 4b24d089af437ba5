"""TLS in front of an API: an haproxy in its pods, so that slow clients and handshakes keep no worker of it waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import kube
from ..plan import Component, Context
from .tls import Certified, certified, followed

_CERTIFICATE = "/etc/openstack-front"
_RUN = "/run/front"
_PLAIN = Certified()


@dataclass(frozen=True, kw_only=True)
class Front:
    """What stands between an API and its clients, or that nothing does."""

    certificate: Certified = _PLAIN
    listens: str = "0.0.0.0"  # noqa: S104  (of a pod)
    """Where the API listens."""
    containers: Sequence[kube.Container] = ()
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the API."""

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
) -> Front:
    """The front of the Deployment `<owner>-<component>`, if the spec asks for a certificate. `host` is a name or
    address by which clients outside come; `lifecycle` is what the program behind it does before it ends. Raises
    SpecError as `certified` does.

    It takes what begins as TLS does for TLS, and everything else for plain HTTP, so that clients can move from one to
    the other while both are in use; the latter until TLS is required.
    """
    workload = ("Deployment", kube.fitting(ctx.name(component)))
    shown = certified(
        ctx, ctx.name(component), workloads=(workload,), name=f"{component}-tls", also=(host,) if host else ()
    )
    if not shown:
        return Front()
    # In the group of the API, so that the pod has one group for its volumes.
    entry = replace(ctx.release["haproxy"], gid=program.gid)
    address = {"POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}}}
    beside = kube.Container(
        component=entry,
        name="front",
        command=["sh", "-ec", _START, "sh", *entry.command],
        env={**address, "CONFIG": _config(port, plain=not shown.required)},
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
            "OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING": "true",
            # What serves HTTP itself reads from its options where.
            **({} if any("{listen}" in word for word in program.command) else {"OS_DEFAULT__BIND_HOST": "127.0.0.1"}),
        },
    )


_LOAD = f"""\
tell() {{ socat -t 5 - UNIX-CONNECT:{_RUN}/admin; }}
load() {{
    pem=$(cat {_CERTIFICATE}/tls.crt {_CERTIFICATE}/tls.key | grep -v '^$')
    printf 'set ssl cert {_CERTIFICATE}/tls.crt <<\\n%s\\n\\n' "$pem" | tell | grep -q 'ransaction'
    echo 'commit ssl cert {_CERTIFICATE}/tls.crt' | tell | grep -q 'Success'
}}
"""
# A certificate that does not fit its key, as while one of the two is new, is refused, and asked about again.
_START = f"""\
{_LOAD}printf '%s' "$CONFIG" > {_RUN}/haproxy.cfg
{followed(_CERTIFICATE, "load")}exec "$@" -f {_RUN}/haproxy.cfg
"""


def _config(port: int, *, plain: bool) -> str:
    """haproxy.cfg. Each connection carries one request, as it does without a front: an idle one that is closed while
    its client sends the next would be a request that failed.
    """
    accepted = "req.len gt 0" if plain else "req.payload(0,1) -m bin 16"
    return f"""\
global
    maxconn 4000
    ssl-load-extra-del-ext
    ssl-default-bind-options ssl-min-ver TLSv1.2
    stats socket unix@{_RUN}/admin mode 600 level admin

defaults
    mode http
    option httpclose
    timeout http-request 30s
    timeout connect 5s
    timeout client 10m
    timeout server 10m
    timeout tunnel 24h

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
    http-request set-header X-Forwarded-Proto https
    default_backend api

frontend plain
    bind unix@{_RUN}/plain mode 600 accept-proxy
    http-request set-header X-Forwarded-Proto http
    default_backend api

backend api
    http-request del-header Forwarded
    http-request del-header X-Forwarded-Host
    http-request del-header X-Forwarded-Prefix
    http-request set-header X-Forwarded-For %[src]
    server api 127.0.0.1:{port}
"""

"""TLS in front of an API: an haproxy in its pods, so that slow clients and handshakes keep no worker of it waiting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import agents, kube
from ...plan import Context, Object, ReleaseEntry
from ..log_format import logs_json
from ..secrets.tls import Certified, certified
from .monitoring import METRICS, monitored, watched

_CERTIFICATE = "/etc/openstack-front"
_RUN = "/run/front"
_PEERS = 8999
_METRICS = 8404
_PROGRAMS = ("tls/reload_on_change.sh", "tls_proxy/start.sh")
_ADDRESS = {"POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}}}
_PROXY_ENV = {**_ADDRESS, "TLS_FOLDER": _CERTIFICATE, "RUN_FOLDER": _RUN}
_PLAIN = Certified()
SERVES = "/tls-proxy/serves"
"""Path at which the TLS proxy of an API answers 200 while the API works, also while all its workers are busy; else 503.
"""
_PROXIED = {"OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING": "true"}
"""Environment of an API that trusts a proxy's headers about the client's scheme."""


@dataclass(frozen=True, kw_only=True)
class Front:
    """The TLS proxy between an API and its clients, or none."""

    certificate: Certified = _PLAIN
    listens: str
    """Address at which the API listens."""
    containers: Sequence[kube.Container] = ()
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Environment of the API."""
    watched: Sequence[Object] = ()
    """Objects by which a Prometheus finds its metrics."""

    def __bool__(self) -> bool:
        return bool(self.certificate)

    @property
    def scheme(self) -> str:
        """Scheme that clients are configured with."""
        return "https" if self.certificate.published else "http"


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The requests of an API that wait in its TLS proxy, so that the API's own question whether it works waits only for
    one that is being answered, however many clients there are.
    """

    health: str
    """Path that the API answers with a status below 400 while it works."""
    concurrency: int
    """Requests that the API answers at the same time; 0 for an API that limits them itself."""
    slowest: int
    """Seconds that one request may take while the API works."""


@dataclass(frozen=True, kw_only=True)
class Clients:
    """Clients of an API."""

    host: str = ""
    """Name or address that clients outside call."""
    proxied: bool = False
    """True if clients outside connect through a proxy that has terminated their TLS."""
    tunnels: bool = False
    """True if a connection may be silent for a day, as that of a console."""
    queue: Queue | None = None
    """Unset where the program itself takes all of them."""


def front(
    ctx: Context[Any],
    component: str,
    port: int,
    backend: ReleaseEntry,
    *,
    clients: Clients = Clients(),
    lifecycle: Mapping[str, Any] | None = None,
    self_url_env: str = "",
    service: str = "",
) -> Front:
    """Return the TLS proxy of the Deployment `<owner>-<component>`, if the spec asks for a certificate. `lifecycle`
    holds the hooks of the program behind it; `self_url_env` is a variable of an API whose pods call each other: the URL
    at which others call this one; `service` is the Service of the pods, if it has another name. If clients have a
    queue, the proxy answers at the path SERVES whether the API works. Raises SpecError as `certified` does.

    It treats a connection that begins as TLS does as TLS, and each other one as plain HTTP, so that clients can move
    from one to the other while both are in use; plain HTTP until TLS is required.
    """
    service, workload = service or ctx.name(component), ("Deployment", ctx.name(component))
    also = (clients.host,) if clients.host else ()
    certificate = certified(ctx, service, workloads=(workload,), name=f"{component}-tls", also=also)
    own_host = "[$(POD_IP)]" if ctx.is_ipv6 else "$(POD_IP)"
    self_url = f"http://127.0.0.1:{_PEERS}/$(POD_IP)" if certificate.published else f"http://{own_host}:{port}"
    env = {**_ADDRESS, self_url_env: self_url} if self_url_env else {}
    if not certificate:
        proxied = _PROXIED if clients.proxied else {}
        return Front(certificate=certificate, listens=ctx.any_address, env={**env, **proxied})
    entry, logged = ctx.release["haproxy"], _LOGGED_AS_JSON if logs_json(ctx) else _LOGGED
    beside = kube.Container(
        # In the group of the API, so that the pod has one group for its volumes.
        entry=replace(entry, gid=backend.gid),
        name="front",
        command=agents.shell(*_PROGRAMS, words=entry.command, options="-ec"),
        env={
            **_PROXY_ENV,
            **({"VERIFIES_PEERS": "true"} if self_url_env else {}),
            "CONFIG": _config(port, plain=not certificate.required, clients=clients, logged=logged)
            + (_peers(ctx.host(service), port, logged) if self_url_env else "")
            + (_EXPORTED if monitored(ctx) else ""),
        },
        ports={METRICS: _METRICS} if monitored(ctx) else {},
        mounts=(*certificate.mounts(_CERTIFICATE), *kube.scratch(_RUN)),
        alive=kube.Probe(tcp=port),
        lifecycle=lifecycle,
        memory="16Mi",
    )
    return Front(
        certificate=certificate,
        listens="127.0.0.1",
        containers=(beside,),
        env={
            **env,
            **_PROXIED,
            # A program that serves HTTP itself reads its address from its options.
            **({} if any("{listen}" in word for word in backend.command) else {"OS_DEFAULT__BIND_HOST": "127.0.0.1"}),
        },
        watched=watched(ctx, component, _METRICS, certificate, service) if monitored(ctx) else (),
    )


# Of each failed request: client, method, path without the query (a console's has a token), status, milliseconds, and
# how it ended.
_LOGGED = """\
    log stdout format raw daemon
    log-format "%ci %HM %HPO %ST %TR/%Tw/%Tc/%Tr/%Ta %tsc"
"""
# The same as an object, with the id by which the API's own log names the request.
_LOGGED_AS_JSON = """\
    log stdout format raw daemon
    http-request set-var(txn.path) path,json(utf8s)
    http-after-response set-var(txn.request) res.hdr(x-openstack-request-id),json(utf8s)
    log-format '{"client":"%ci","method":"%HM","path":"%[var(txn.path)]","status":%ST,\
"request_id":"%[var(txn.request)]","ms":{"receive":%TR,"queue":%Tw,"connect":%Tc,"answer":%Tr,"total":%Ta},"ended":"%tsc"}'
"""


def _error(status: int, title: str, message: str) -> str:
    """Return an error of the proxy itself in the form of API errors: clients show its message, reports name its id."""
    request_id = "req-%[var(txn.id)]"
    body = json.dumps({"error": {"code": status, "title": title, "message": f"{message} ({request_id})"}})
    header = f'hdr x-openstack-request-id "{request_id}"'
    return f"    http-error status {status} content-type application/json {header} lf-string '{body}'\n"


_ERRORS = (
    "    http-request set-var(txn.id) uuid\n"
    + _error(502, "Bad Gateway", "The service ended the connection without an answer.")
    + _error(503, "Service Unavailable", "The service takes no connections now. Try again.")
    + _error(504, "Gateway Timeout", "The service did not answer in ten minutes.")
)


def _config(port: int, *, plain: bool, clients: Clients, logged: str) -> str:
    """Return haproxy.cfg. Each connection carries one request, as it does without the proxy: closing an idle one while
    its client sends the next request would make that request fail.
    """
    # A header that a proxy before this one set for its client stays.
    unknown = " unless { req.hdr(X-Forwarded-Proto) -m found }" if clients.proxied else ""
    accepted = "req.len gt 0" if plain else "req.payload(0,1) -m bin 16"
    queue, monitor = clients.queue, _MONITOR if clients.queue else ""
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
    timeout tunnel {"24h" if clients.tunnels else "10m"}

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
{monitor}{logged}    http-request set-header X-Forwarded-Proto https
    default_backend api

frontend plain
    bind unix@{_RUN}/plain mode 600 accept-proxy
{monitor}{logged}    http-request set-header X-Forwarded-Proto http{unknown}
    default_backend api

backend api
    http-request del-header Forwarded
    http-request del-header X-Forwarded-Host
    http-request del-header X-Forwarded-Prefix
    http-request set-header X-Forwarded-For %[src]
{_ERRORS}{_checked(queue, port) if queue else ""}    server api 127.0.0.1:{port}{_CHECK if queue else ""}{_limit(queue)}
"""


_MONITOR = f"    monitor-uri {SERVES}\n    monitor fail if {{ nbsrv(api) eq 0 }}\n"
# A program that has just started is asked each second; one of which a question failed, until it is clear what it is.
_CHECK = " check inter 10s fastinter 1s downinter 1s fall 2 rise 1"


def _limit(queue: Queue | None) -> str:
    return f" maxconn {queue.concurrency}" if queue and queue.concurrency else ""


def _checked(queue: Queue, port: int) -> str:
    """Return lines by which haproxy checks the API itself, beside the clients that wait. It uses kubelet's user agent,
    whose requests an API does not log.
    """
    return f"""\
    timeout queue 1m
    timeout check {queue.slowest}s
    option httpchk
    http-check send meth GET uri {queue.health} ver HTTP/1.1 hdr Host 127.0.0.1:{port} hdr User-Agent kube-probe/proxy
    http-check expect rstatus ^[23]
"""


# Encrypted as the API is; to restrict who may read how often it fails, use a NetworkPolicy.
_EXPORTED = f"""
frontend metrics
    bind "${{POD_IP}}:{_METRICS}" ssl crt {_CERTIFICATE}/tls.crt alpn http/1.1
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request return status 404
"""


def _peers(name: str, port: int, logged: str) -> str:
    """Return further lines of haproxy.cfg: requests of the API to `/<address of a pod>/...` at a port only for its pod
    go to that pod by TLS. The certificate is verified for the name of the Service `name`, since it does not contain the
    address.
    """
    # A resumed session would not be verified again. haproxy 3.0 applies new authorities with the next certificate of
    # the server line (crt), so that line has one, and the script loads it last.
    checked = f"verify required ca-file {_CERTIFICATE}/ca.crt verifyhost {name} no-ssl-reuse crt {_CERTIFICATE}/tls.crt"
    return f"""
frontend peers
    bind 127.0.0.1:{_PEERS}
{logged}    http-request set-dst path,field(2,/)
    http-request set-dst-port int({port})
    http-request replace-path /[^/]*(/.*) \\1
    default_backend peers

backend peers
    server peer 0.0.0.0:0 ssl sni str({name}) {checked}
"""

"""Erlang's distribution between members: encrypted or not, and the change from one to the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import parts
from ...plan import Object, Step, out_of_service
from .config import INTER_NODE

_FILE = "inter_node_tls.config"
_ARGUMENTS = f"-proto_dist inet_tls -ssl_dist_optfile /etc/rabbitmq/{_FILE}"
_TOOLS = "RABBITMQ_CTL_ERL_ARGS"


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Erlang's distribution between members, and from the command line tools to them."""

    encrypted: bool
    stops: bool = False
    """True if no member is to run now: one that encrypts and one that does not cannot speak with each other, nor one
    with both kinds, so that all change at once."""

    @property
    def files(self) -> dict[str, str]:
        """Files that it adds to the configuration."""
        return {_FILE: INTER_NODE} if self.encrypted else {}

    @property
    def env(self) -> dict[str, str]:
        """Environment of the broker and of every tool in its container."""
        return {"RABBITMQ_SERVER_START_ARGS": _ARGUMENTS, _TOOLS: _ARGUMENTS} if self.encrypted else {}

    def apply(self, server: Step) -> Step:
        """Return the members as they should run."""
        if not self.stops:
            return server
        mode = "encrypted" if self.encrypted else "in plain text"
        return replace(
            server,
            objects=tuple(_without_replicas(obj) if obj["kind"] == "StatefulSet" else obj for obj in server.objects),
            verdict=out_of_service(f"all members stop, then start again {mode} between each other"),
        )


def distribution(cluster: parts.Cluster, certificate: parts.Certified, *, is_single: bool) -> Distribution:
    """Return the distribution. The one a new broker begins with stays until the spec asks for another: several members
    that run in plain text encrypt once that is required and all of them serve, for all of them stop for it.
    """
    live = cluster.live
    if live is None:
        return Distribution(encrypted=bool(certificate))
    is_on = _is_encrypted(live)
    # The operator would never see a member on a lost node stop.
    all_serve = cluster.ready_replicas >= live["spec"]["replicas"]
    # A certificate of the user's that is no longer good for it would let no member in.
    is_fit = all(step.verdict is None for step in certificate.steps)
    encrypts = bool(certificate) and (is_on or (is_fit and (is_single or (certificate.required and all_serve))))
    is_stopping = live["spec"]["replicas"] == 0 and (live.get("status") or {}).get("replicas", 0) > 0
    return Distribution(encrypted=encrypts, stops=not is_single and (encrypts != is_on or is_stopping))


def _is_encrypted(live: Object) -> bool:
    env = live["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    return any(each["name"] == _TOOLS for each in env)


def _without_replicas(server: Object) -> Object:
    return {**server, "spec": {**server["spec"], "replicas": 0}}

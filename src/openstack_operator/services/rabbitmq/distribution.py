"""What members send each other: encrypted or not, and how they get from one to the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import kube, parts
from ...plan import Context, Object, progressing
from .config import INTER_NODE
from .model import RabbitMQSpec

_FILE = "inter_node_tls.config"
_ARGUMENTS = f"-proto_dist inet_tls -ssl_dist_optfile /etc/rabbitmq/{_FILE}"
_TOOLS = "RABBITMQ_CTL_ERL_ARGS"


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Erlang's distribution between members, and from the command line tools to them."""

    encrypted: bool
    stops: bool = False
    """Whether no member is to run now: one that encrypts and one that does not cannot speak with each other, nor one
    with both kinds, so that all change at once."""

    @property
    def files(self) -> dict[str, str]:
        """What is added to the configuration."""
        return {_FILE: INTER_NODE} if self.encrypted else {}

    @property
    def env(self) -> dict[str, str]:
        """What the broker is started with, and every tool in its container."""
        return {"RABBITMQ_SERVER_START_ARGS": _ARGUMENTS, _TOOLS: _ARGUMENTS} if self.encrypted else {}

    def carried_out(self, server: parts.Members) -> parts.Members:
        """The members as they should run."""
        if not self.stops:
            return server
        how = "encrypted" if self.encrypted else "in plain text"
        return replace(
            server,
            objects=tuple(_stopped(obj) if obj["kind"] == "StatefulSet" else obj for obj in server.objects),
            verdict=progressing(f"all members stop, to go on {how} among each other; none is started before"),
        )


def distribution(ctx: Context[RabbitMQSpec], shown: parts.Certified) -> Distribution:
    """What a new broker begins with stays until it is asked for something else: several members that run in plain text
    encrypt once that is required and all of them serve, for all of them stop for it.
    """
    live = ctx.children.get(("StatefulSet", kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)))
    if live is None:
        return Distribution(encrypted=bool(shown))
    now, alone = _encrypted(live), ctx.spec.replicas == 1
    # One that was brought and is not good for it any more would let no member in.
    fits = all(step.verdict is None for step in shown.steps)
    wanted = bool(shown) and (now or (fits and (alone or (shown.required and _serving(live)))))
    leaving = live["spec"]["replicas"] == 0 and (live.get("status") or {}).get("replicas", 0) > 0
    return Distribution(encrypted=wanted, stops=not alone and (wanted != now or leaving))


def _encrypted(live: Object) -> bool:
    env = live["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    return any(each["name"] == _TOOLS for each in env)


def _serving(live: Object) -> bool:
    """Whether every member does; one on a lost node would never be seen to stop."""
    return (live.get("status") or {}).get("readyReplicas", 0) >= live["spec"]["replicas"]


def _stopped(server: Object) -> Object:
    return {**server, "spec": {**server["spec"], "replicas": 0}}

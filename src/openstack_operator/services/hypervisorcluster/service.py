"""Hypervisors of a cloud whose control plane runs in another Kubernetes cluster: the programs of Nova and Neutron on
nodes, with the values of one Secret (decision 0095).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from ... import kube, parts
from ...api import AppCredentialRef, IdentitySource
from ...parts.connect import sources
from ...parts.connect.coordinates import Login
from ...parts.connect.transport import with_tls
from ...parts.secrets.credentials import Credentials
from ...parts.secrets.tls import trust_in
from ...plan import Context, Group, Incomplete, MissingReference, Plan, SpecError, Step, UnsupportedError, is_earlier
from ..neutron import model as neutron_model
from ..neutron.agent import metadata_agent
from ..nova.cells import CellNodes
from ..nova.compute import NodeInputs, node_programs
from ..nova.compute_rollout import plan_rollout
from ..nova.consoles import NODE_FILES, Consoles, node_mounts
from ..nova.groups import ready_nodes
from ..nova.migration import plan_migration
from ..nova.model import Cell, NovaSpec
from .model import HypervisorClusterSpec

_PATH = "spec.controlPlaneSecretRef"
_HOST = r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])"
_PORT = r":([1-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_URL = rf"https://{_HOST}({_PORT})?(/[^\s?#]*)?"
_MEMBER = rf"[^\s?#@/:,]+:[^\s?#@/:,]+@{_HOST}{_PORT}"
_BROKER = rf"rabbit://{_MEMBER}(,{_MEMBER})*/[^\s?#/]+"
_NO_CREDENTIALS = Credentials(name="Credentials", secret="", values={})


def plan(ctx: Context[HypervisorClusterSpec]) -> Plan:
    """Return the programs of compute nodes."""
    spec, login = ctx.spec, _login(ctx)
    _check(spec)
    nova, neutron = _nova(ctx, login), _neutron(ctx, login)
    consoles, migration = _consoles(ctx, login), plan_migration(nova)
    identity = sources.identity(nova, _NO_CREDENTIALS, "identity")
    ovn = Step(name="OVNConnected", verdict=ctx.refs[spec.ovn_ref].verdict)
    inputs = NodeInputs(
        identity=replace(identity, interface="public"),
        notifications=None,
        dependencies=(ovn,),
        consoles=consoles,
        migration=migration,
    )
    cell = CellNodes(
        name=login["cell"],
        shares=nova.spec.cells[0].shares,
        messaging=_messaging(login),
        console=login["console_url"],
    )
    programs, daemons = node_programs(nova, [cell], inputs) if spec.compute.enabled else ([], [])
    rollout = plan_rollout(nova, daemons)
    agents = metadata_agent(neutron, login["metadata_secret"], api=_metadata(login), after=(ovn,))
    return Plan(
        *parts.policies(ctx),
        ovn,
        Group("Compute", [*consoles.steps, *programs, *daemons]),
        *rollout.groups,
        *(agents if spec.metadata_agent.enabled else ()),
        *([Group("Authorities", [migration.authority.replacement])] if migration.authority else ()),
        wake=migration.wake,
        details={"computeNodes": ready_nodes(nova, cell.name), **rollout.details},
    )


def _login(ctx: Context[HypervisorClusterSpec]) -> Login:
    """Return the Secret. Raises MissingReference if it does not exist, or has no authorities, and
    SpecError for a release that is ahead of it.
    """
    name = ctx.spec.control_plane_secret_ref.name
    if name not in ctx.secrets:
        text = f"there is no Secret {name!r} in this namespace; copy it from the cluster of the control plane"
        raise MissingReference(f"{_PATH}.name", text)
    data = ctx.secrets[name]
    if not data.get("ca.crt"):
        raise MissingReference(_PATH, f"key 'ca.crt' of Secret {name!r} is missing")
    login = Login(_PATH, name, data)
    if is_earlier(running_release := login.get("release"), ctx.spec.release):
        text = f"Secret {name!r} is of a control plane with {running_release}, and nodes must not be newer; "
        raise SpecError("spec.release", f"{text}upgrade it first, and copy the Secret again")
    login.matching("auth_url", _URL, "a URL of Keystone that begins with https")
    login.matching("metadata_url", _URL, "a URL of the metadata API that begins with https")
    login.matching("transport_url", _BROKER, "a transport URL")
    return login


def _messaging(login: Login) -> sources.Messaging:
    """Return the virtual host of the cell, which the control plane has made."""
    url = login["transport_url"]
    members = urlsplit(url).netloc.split(",")
    return sources.Messaging(
        name="Messaging",
        url=with_tls(url, trust_in(login.secret)),
        clustered=len(members) > 1,
        ports=frozenset(int(each.rpartition(":")[2]) for each in members),
    )


def _check(spec: HypervisorClusterSpec) -> None:
    """Raise UnsupportedError for values that are not supported."""
    if spec.compute.storage_type != "local":
        raise UnsupportedError("spec.compute.storageType", "servers' disks in Ceph are not supported here; use local")


def _keystone(login: Login) -> IdentitySource:
    return IdentitySource(auth_url=login["auth_url"], app_credential_ref=AppCredentialRef(secret_name=login.secret))


def _nova(ctx: Context[HypervisorClusterSpec], login: Login) -> Context[NovaSpec]:
    """Return the context in which Nova plans the programs of these nodes. Raises Incomplete for values of the Secret
    that a Nova does not take.
    """
    try:
        spec = NovaSpec(
            release=ctx.spec.release,
            region=login["region"],
            config=ctx.spec.config,
            keystone=_keystone(login),
            cells=[Cell(name=login["cell"])],
            compute=ctx.spec.compute,
        )
    except ValidationError as error:
        fields = ", ".join(sorted({str(each["loc"][0]) for each in error.errors()}))
        raise Incomplete(_PATH, f"Secret {login.secret!r} has invalid values for Nova: {fields}") from None
    any_ctx: Context[Any] = ctx
    return replace(any_ctx, spec=spec, programs="Nova")


def _neutron(ctx: Context[HypervisorClusterSpec], login: Login) -> Context[neutron_model.NeutronSpec]:
    """Return the context in which Neutron plans its agent on these nodes."""
    settings = {name: getattr(ctx.spec.metadata_agent, name) for name in type(ctx.spec.metadata_agent).model_fields}
    spec = neutron_model.NeutronSpec(
        release=ctx.spec.release,
        keystone=_keystone(login),
        ovn=neutron_model.OVN(ovn_network_ref=ctx.spec.ovn_ref),
        metadata_agent=neutron_model.MetadataAgent(**settings),
    )
    any_ctx: Context[Any] = ctx
    return replace(any_ctx, spec=spec, programs="Neutron")


def _metadata(login: Login) -> dict[str, Any]:
    """Return the options of an agent for the metadata API."""
    url = urlsplit(login["metadata_url"])
    return {
        "nova_metadata_host": url.hostname,
        "nova_metadata_port": url.port or 443,
        "nova_metadata_protocol": url.scheme,
        "auth_ca_cert": trust_in(login.secret),
    }


def _consoles(ctx: Context[HypervisorClusterSpec], login: Login) -> Consoles:
    """Return the certificate of consoles, in a Secret with its files alone: libvirt sees no login."""
    if missing := [name for name in NODE_FILES if not login.data.get(name)]:
        raise MissingReference(_PATH, f"key {missing[0]!r} of Secret {login.secret!r} is missing")
    secret = kube.secret(ctx, ctx.name("console-node"), {name: login.data[name] for name in NODE_FILES})
    step = Step(name="Consoles", objects=(secret,))
    return Consoles(steps=(step,), node=node_mounts(secret["metadata"]["name"]))

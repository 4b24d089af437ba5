"""Cinder's options: what all its programs share, and what only the cinder-volume of one backend may know."""

from __future__ import annotations

from ... import oslo, parts
from ...api import Sections
from ...plan import Context, SpecError
from . import group
from .backend_model import DRIVERS, Backend, Lvm
from .model import CinderSpec

FILE, DIRECTORY = "cinder.conf", "/etc/cinder"
SHARES, LVM = "nfs_shares", "lvm.conf"
POLICY = oslo.policy({"context_is_admin": "role:admin or role:service"})
"""A file: a rule of Cinder's API. A nova-compute that starts attaches volumes of all projects anew as its own user
(nova.volume.cinder), and Cinder has no rule for that but the one for administrators.
"""

# The daemons that do as root what needs it keep these capabilities, and end where they have less: in a pod without any
# they must not want one. A comma is an empty list.
ROOTLESS: Sections = {section: {"capabilities": ","} for section in ("cinder_sys_admin", "privsep_osbrick")}


def shared(ctx: Context[CinderSpec], base: parts.Foundation) -> Sections:
    """What every program of Cinder is told."""
    user, glance = dict(base.auth), ctx.refs[ctx.spec.glance_ref]
    return oslo.merge(
        base.sections,
        {
            "DEFAULT": {
                "auth_strategy": "keystone",
                "state_path": parts.state(ctx),
                "glance_api_servers": glance["internalURL"],
                **({"glance_ca_certificates_file": trust} if (trust := parts.trust_of(glance.published)) else {}),
            },
            "service_user": {**user, "send_service_user_token": True},
            # Nova is told of volumes that grew, and takes the snapshots of files it has open.
            "nova": {**user, "interface": "internal"},
            **_coordination(ctx),
        },
    )


def _coordination(ctx: Context[CinderSpec]) -> Sections:
    """[coordination]: where locks are kept that pods share."""
    ref = ctx.spec.coordination.etcd_ref
    if ref is None:
        return {}
    at = ctx.refs[ref]
    trust = parts.trust_of(at.published)
    return {"coordination": {"backend_url": at["coordinationURL"] + (f"&ca_cert={trust}" if trust else "")}}


def control(ctx: Context[CinderSpec]) -> Sections:
    """What API and scheduler need besides: the type of a volume whose user names none."""
    spec = ctx.spec
    chosen = spec.default_volume_type or (spec.backends[0].type_name if spec.backends else "")
    return {"DEFAULT": {"default_volume_type": chosen}} if chosen else {}


def volume(ctx: Context[CinderSpec], backend: Backend, common: Sections, ceph: parts.Ceph | None) -> Sections:
    """All options of the cinder-volume of one backend; `common` is what it shares with other programs.

    Raises SpecError where the user's options for the backend are not to be.
    """
    name, path = backend.name, f"spec.backends[{ctx.spec.backends.index(backend)}]"
    if not backend.driver and backend.kind not in DRIVERS:
        raise SpecError(path, "there is no driver; name type, or driver")
    own = _driver(ctx, backend, ceph)
    top: dict[str, object] = {"enabled_backends": name}
    if backend.clustered:
        top["cluster"] = ctx.owner
    whole = parts.options(ctx, oslo.merge(common, {"DEFAULT": top, name: own}))
    # Called what the field is, so that an error names that.
    field = "options"
    asked = parts.layered({}, {field: backend.options}, {field: own}, path)
    secret = {option: ctx.secrets[ref.name][ref.key] for option, ref in backend.secret_options.items()}
    field = "secretOptions"
    kept = parts.layered({}, {field: secret}, {field: own}, path)
    return oslo.merge(whole, {name: {**asked["options"], **kept["secretOptions"]}})


def _driver(ctx: Context[CinderSpec], backend: Backend, ceph: parts.Ceph | None) -> dict[str, object]:
    """What the operator sets in the backend's section."""
    found: dict[str, object] = {
        "volume_driver": backend.driver or DRIVERS[backend.kind],
        # The volume type asks for it by this name.
        "volume_backend_name": backend.name,
    }
    if ceph:
        found |= {
            "rbd_pool": ceph.pool,
            "rbd_user": ceph.id,
            "rbd_ceph_conf": ceph.conf,
            "rbd_secret_uuid": ceph.secret_uuid,
        }
    if backend.kind == "lvm":
        lvm = backend.lvm or Lvm()
        found |= {
            "volume_group": group.name(ctx, backend),
            "lvm_type": lvm.provisioning,
            "lvm_conf_file": f"{DIRECTORY}/{LVM}",
            "target_helper": lvm.target_helper,
            "target_protocol": "iscsi",
        }
    if backend.nfs:
        found |= {
            "nfs_shares_config": f"{DIRECTORY}/{SHARES}",
            "nfs_snapshot_support": backend.nfs.snapshots,
            # Where Nova mounts them too, so that what a chain of files refers to has the same name.
            **({"nfs_mount_options": backend.nfs.mount_options} if backend.nfs.mount_options else {}),
        }
    return found


def files(backend: Backend) -> dict[str, str]:
    """Further files the driver of a backend reads."""
    found: dict[str, str] = {}
    if backend.nfs:
        found[SHARES] = "".join(f"{share}\n" for share in backend.nfs.shares)
    if backend.kind == "lvm":
        found[LVM] = group.filtered(backend)
    return found

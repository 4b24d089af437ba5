"""Cinder's options: those that all its programs share, and those of the cinder-volume of one backend only."""

from __future__ import annotations

from ... import oslo, parts
from ...api import Sections
from ...parts.connect.ceph import Ceph
from ...parts.connect.key_manager import key_manager
from ...parts.run.config import layered
from ...parts.secrets.tls import trust_of
from ...plan import Context, SpecError
from . import group
from .backend_model import DRIVERS, Backend, Lvm
from .model import CinderSpec

FILE, DIRECTORY = "cinder.conf", "/etc/cinder"
SHARES, LVM = "nfs_shares", "lvm.conf"
POLICIES = {"context_is_admin": "role:admin or role:service"}
"""A file: a rule of Cinder's API. A nova-compute that starts attaches volumes of all projects again, as its own user
(nova.volume.cinder), and Cinder has no rule for that but the one for administrators.
"""

# The daemons for privileged work keep these capabilities, and end if they have fewer: in a pod without any, they must
# require none. A comma is an empty list.
ROOTLESS: Sections = {section: {"capabilities": ","} for section in ("cinder_sys_admin", "privsep_osbrick")}


def shared_options(ctx: Context[CinderSpec], base: parts.Foundation) -> Sections:
    """Return the options of every program of Cinder."""
    user, glance = dict(base.auth), ctx.refs[ctx.spec.glance_ref]
    return oslo.merge(
        base.sections,
        {
            "DEFAULT": {
                "auth_strategy": "keystone",
                "state_path": parts.state(ctx),
                "glance_api_servers": glance["internalURL"],
                **({"glance_ca_certificates_file": trust} if (trust := trust_of(glance.published)) else {}),
            },
            "service_user": {**user, "send_service_user_token": True},
            # Cinder calls Nova for volumes that grew, and for snapshots of files that Nova has open.
            "nova": {**user, "interface": "internal"},
            **_coordination(ctx),
            **key_manager(ctx, user),
        },
    )


def _coordination(ctx: Context[CinderSpec]) -> Sections:
    """Return [coordination]: the store of locks that pods share."""
    ref = ctx.spec.coordination.etcd_ref
    if ref is None:
        return {}
    etcd = ctx.refs[ref]
    trust = trust_of(etcd.published)
    return {"coordination": {"backend_url": etcd["coordinationURL"] + (f"&ca_cert={trust}" if trust else "")}}


def control_options(ctx: Context[CinderSpec]) -> Sections:
    """Return further options of API and scheduler: the type of a volume whose user names none."""
    spec = ctx.spec
    default_type = spec.default_volume_type or (spec.backends[0].type_name if spec.backends else "")
    return {"DEFAULT": {"default_volume_type": default_type}} if default_type else {}


def volume_options(ctx: Context[CinderSpec], backend: Backend, common: Sections, ceph: Ceph | None) -> Sections:
    """Return all options of the cinder-volume of one backend; it shares `common` with other programs.

    Raise SpecError for options of the user that the operator sets itself.
    """
    name, path = backend.name, f"spec.backends[{ctx.spec.backends.index(backend)}]"
    if not backend.driver and backend.kind not in DRIVERS:
        raise SpecError(path, "the driver is missing; set type or driver")
    driver_options = _driver(ctx, backend, ceph)
    default_section: dict[str, object] = {"enabled_backends": name}
    if backend.is_clustered:
        default_section["cluster"] = ctx.owner
    whole = parts.options(ctx, oslo.merge(common, {"DEFAULT": default_section, name: driver_options}))
    # Named like the field, so that an error names the field.
    field = "options"
    options = layered({}, {field: backend.options}, {field: driver_options}, path)
    secret = {option: oslo.Verbatim(ctx.secrets[ref.name][ref.key]) for option, ref in backend.secret_options.items()}
    field = "secretOptions"
    secret_options = layered({}, {field: secret}, {field: driver_options}, path)
    return oslo.merge(whole, {name: {**options["options"], **secret_options["secretOptions"]}})


def _driver(ctx: Context[CinderSpec], backend: Backend, ceph: Ceph | None) -> dict[str, object]:
    """Return the options that the operator sets in the backend's section."""
    options: dict[str, object] = {
        "volume_driver": backend.driver or DRIVERS[backend.kind],
        # The volume type selects the backend by this name.
        "volume_backend_name": backend.name,
    }
    if ceph:
        options |= {
            "rbd_pool": ceph.pool,
            "rbd_user": ceph.id,
            "rbd_ceph_conf": ceph.conf,
            "rbd_secret_uuid": ceph.secret_uuid,
        }
    if backend.kind == "lvm":
        lvm = backend.lvm or Lvm()
        options |= {
            "volume_group": group.name(ctx, backend),
            "lvm_type": lvm.provisioning,
            "lvm_conf_file": f"{DIRECTORY}/{LVM}",
            "target_helper": lvm.target_helper,
            "target_protocol": "iscsi",
        }
    if backend.nfs:
        options |= {
            "nfs_shares_config": f"{DIRECTORY}/{SHARES}",
            "nfs_snapshot_support": backend.nfs.snapshots,
            # Nova mounts them in the same folder, so that references in a chain of files stay valid.
            **({"nfs_mount_options": backend.nfs.mount_options} if backend.nfs.mount_options else {}),
        }
    return options


def files(backend: Backend) -> dict[str, str]:
    """Return further files that the driver of a backend reads."""
    texts: dict[str, str] = {}
    if backend.nfs:
        texts[SHARES] = "".join(f"{share}\n" for share in backend.nfs.shares)
    if backend.kind == "lvm":
        texts[LVM] = group.lvm_conf(backend)
    return texts

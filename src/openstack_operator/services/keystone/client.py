"""The administrator's clouds.yaml, and a pod with the openstack command that uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from ... import kube, parts
from ...plan import Context, Step
from .model import KeystoneSpec

FOLDER = "/etc/openstack"
TRUST = "ca.crt"


def clouds_yaml(
    admin: Mapping[str, str], region: str, *, internal: str, public: str, authorities: str, proxied: bool
) -> dict[str, str]:
    """Return clouds.yaml with two clouds, `openstack` inside the Kubernetes cluster and `openstack-public` outside; and
    the authorities to verify them with (PEM), if any. Clients verify a `proxied` one with those of their own machine.
    """
    auth = {
        "username": admin["username"],
        "password": admin["password"],
        "project_name": admin["project"],
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    }
    ca_option = {"cacert": f"{FOLDER}/{TRUST}"} if authorities else {}
    clouds = {
        name: {"auth": {"auth_url": url, **auth}, "region_name": region, "interface": interface, **options}
        for name, url, interface, options in (
            ("openstack", internal, "internal", ca_option),
            ("openstack-public", public, "public", {} if proxied else ca_option),
        )
    }
    files = {TRUST: authorities} if authorities else {}
    return {"clouds.yaml": yaml.safe_dump({"clouds": clouds}, sort_keys=True), **files}


def client(ctx: Context[KeystoneSpec], clouds: parts.Config, *, after: Sequence[Step]) -> Step:
    """Return Deployment `keystoneclient`: `kubectl exec deploy/keystoneclient -- openstack …`."""
    main = kube.Container(
        entry=ctx.release["openstackclient"],
        env={"OS_CLOUD": "openstack", "HOME": "/tmp"},  # noqa: S108
        mounts=(*clouds.mounts, *kube.scratch("/tmp", large=True)),  # noqa: S108
        memory="16Mi",
        cpu="1m",
    )
    settings = ctx.spec.model_copy(update={"image": None, "resources": None})
    # It sleeps as PID 1 and would ignore the signal to stop.
    template = kube.pod(
        ctx,
        "client",
        main,
        settings=kube.settings(settings, ctx.spec.client),
        annotations={kube.CONFIG_DIGEST: clouds.digest},
        grace=0,
    )
    deployment = kube.workload(ctx, "Deployment", "client", template, replicas=kube.replicas(1, ctx.spec.client))
    deployment["metadata"]["name"] = kube.fitting(f"{ctx.owner}client")
    return Step(name="Client", objects=(deployment,), after=(clouds, *after))

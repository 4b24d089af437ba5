"""The administrator's application credential, and clouds.yaml with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from ... import kube, parts
from ...plan import Context, Step
from .model import KeystoneSpec

APPLICATION = "application"
"""Its secret among the passwords; the sort of rotation, too."""
_CALLED = "openstack-operator"


@dataclass(frozen=True, kw_only=True, eq=False)
class Login(Step):
    """Secret `<name>-app-credential`, and what makes the credential in it."""

    secret: str
    files: Mapping[str, str]
    """clouds.yaml, and `cacert` beside it."""


def application(
    ctx: Context[KeystoneSpec], creds: parts.Credentials, admin: parts.Credentials, api: parts.Api, url: str
) -> Login:
    """One credential, or two while it is replaced."""
    made = [
        parts.remote(
            ctx,
            "KeystoneApplicationCredential",
            each.resource(ctx.name("app-credential")),
            {
                "keystoneRef": {"name": ctx.owner},
                "credential": each.called(_CALLED),
                "passwordSecretRef": creds.ref(each.key),
            },
        )
        for each in creds.of(APPLICATION)
    ]
    # Nobody is shown a clouds.yaml before there is what lets in by it.
    credential = Step(name="ApplicationCredential", objects=tuple(made), after=(creds, admin, api))
    files = _files(ctx, creds, admin.values["username"], url, api.certificate.authorities)
    return Login(
        name="ApplicationCredential",
        objects=(kube.secret(ctx, ctx.name("app-credential"), files),),
        after=(credential,),
        own=(credential,),
        secret=kube.fitting(ctx.name("app-credential")),
        files=files,
    )


def _files(
    ctx: Context[KeystoneSpec], creds: parts.Credentials, user: str, url: str, authorities: str
) -> dict[str, str]:
    auth = {
        "auth_url": url,
        "application_credential_name": creds.of(APPLICATION)[0].called(_CALLED),
        "application_credential_secret": creds[APPLICATION],
        "username": user,
        "user_domain_name": "Default",
    }
    # K-ORC keeps sessions by what stands here, half an hour long, and the authorities it reads from beside it are not
    # part of that: by their digest a session by the ones before is none of these.
    trusted = {"cacert": f"cacert-{kube.digest(authorities)}"} if authorities else {}
    cloud = {
        "auth": auth,
        "auth_type": "v3applicationcredential",
        "region_name": ctx.spec.region,
        # The first is what K-ORC reads, the second what others do.
        "endpoint_type": "internal",
        "interface": "internal",
        **trusted,
    }
    files = {"cacert": authorities} if authorities else {}
    return {"clouds.yaml": yaml.safe_dump({"clouds": {parts.KORC_CLOUD: cloud}}, sort_keys=True), **files}

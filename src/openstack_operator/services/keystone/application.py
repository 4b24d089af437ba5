"""The administrator's application credential, and clouds.yaml with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from ... import kube, parts
from ...parts.connect.korc import CLOUD as KORC_CLOUD
from ...parts.run.workloads import Api
from ...plan import Context, Step
from .model import KeystoneSpec

APPLICATION = "application"
"""Name of its secret among the passwords, and of the credential in orders to replace it."""
_NAME = "openstack-operator"


@dataclass(frozen=True, kw_only=True, eq=False)
class Login(Step):
    """Secret `<name>-app-credential`, and the step that makes the credential in it."""

    secret: str
    files: Mapping[str, str]
    """clouds.yaml, and `cacert` beside it."""


def application(
    ctx: Context[KeystoneSpec], creds: parts.Credentials, admin: parts.Credentials, api: Api, url: str
) -> Login:
    """Return the step of one credential, or of two while one replaces the other."""
    allowed = [rule.model_dump() for rule in ctx.spec.bootstrap.access_rules]
    rules = {"accessRules": allowed} if allowed else {}
    resources = [
        parts.remote(
            ctx,
            "KeystoneApplicationCredential",
            each.resource(ctx.name("app-credential")),
            {
                "keystoneRef": {"name": ctx.owner},
                "credential": each.called(_NAME),
                "passwordSecretRef": creds.ref(each.key),
                **rules,
            },
        )
        for each in creds.of(APPLICATION)
    ]
    # A clouds.yaml may not exist before the credential in it does.
    credential = Step(name="ApplicationCredential", objects=tuple(resources), after=(creds, admin, api))
    files = _files(ctx, creds, admin.values["username"], url, api.certificate.authorities)
    return Login(
        name="ApplicationCredential",
        objects=(kube.secret(ctx, ctx.name("app-credential"), files),),
        after=(credential,),
        substeps=(credential,),
        secret=ctx.name("app-credential"),
        files=files,
    )


def _files(
    ctx: Context[KeystoneSpec], creds: parts.Credentials, user: str, url: str, authorities: str
) -> dict[str, str]:
    auth = {
        "auth_url": url,
        "application_credential_name": creds.of(APPLICATION)[0].called(_NAME),
        "application_credential_secret": creds[APPLICATION],
        "username": user,
        "user_domain_name": "Default",
    }
    # K-ORC caches sessions for half an hour by this content. The authorities are in a file beside it: with their digest
    # here, K-ORC does not go on with a session that trusts the previous ones.
    ca_option = {"cacert": f"cacert-{kube.digest(authorities)}"} if authorities else {}
    cloud = {
        "auth": auth,
        "auth_type": "v3applicationcredential",
        "region_name": ctx.spec.region,
        # K-ORC reads the first, other clients the second.
        "endpoint_type": "internal",
        "interface": "internal",
        **ca_option,
    }
    files = {"cacert": authorities} if authorities else {}
    return {"clouds.yaml": yaml.safe_dump({"clouds": {KORC_CLOUD: cloud}}, sort_keys=True), **files}

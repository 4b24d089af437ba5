"""Spec of a Horizon."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    KEYSTONE,
    AuthorityFileRef,
    CallsAPIs,
    Column,
    GlanceRef,
    HttpApi,
    KeystoneRef,
    Model,
    Name,
    Resource,
    Rule,
    Scale,
    ServiceSpec,
    UsesCache,
    rule,
    validated,
)

Text = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f<>]+$")]
"""A short text on a page."""

_HTTPS = "^https://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?$"

SecureUrl = Annotated[
    str,
    Field(max_length=255, pattern=_HTTPS),
    # It gets the passwords of users.
    validated(
        rule(f"self.matches('{_HTTPS}')", "not a URL with HTTPS; write one such as https://keystone.example.org/v3")
    ),
]


class Branding(Model):
    """Look of the pages."""

    title: Text | None = None
    """Title of the pages, `OpenStack Dashboard` if unset."""
    theme: Literal["default", "material"] = "default"
    """Theme of Horizon. With configMap, the one that its files change."""
    config_map: Name | None = None
    """ConfigMap with files: `logo.svg`, `logo-splash.svg` (of the login page), `favicon.ico`, other images of a theme,
    `_variables.scss` and `_styles.scss`. Pods read them when they start, and compile the theme for about a minute. To
    change them, write another ConfigMap and set its name."""


class OtherKeystone(Model):
    """The Keystone of another cloud or region, which users may choose when they log in."""

    name: Text
    """Name of the choice on the login page."""
    auth_url: SecureUrl
    """URL of its identity API, such as https://keystone.example.org/v3."""
    ca_secret_ref: AuthorityFileRef | None = None
    """Authorities that verify the certificates of that Keystone and of the APIs in its catalog: `ca.crt` in a Secret,
    unless `key` names another file. The dashboard trusts these, those of this cloud and those that Debian trusts for
    every API that it calls."""


class HorizonSpec(ServiceSpec, UsesCache, CallsAPIs):
    """OpenStack Horizon: the dashboard. It shows the panels of the services in Keystone's catalog. Sessions are in
    Memcached, encrypted with a key in the Secret `<name>-session-keys`. `config` has one section, `local_settings`:
    Horizon's settings as data.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.otherKeystones) ||"
            " self.otherKeystones.all(one, self.otherKeystones.exists_one(other, other.name == one.name))",
            "two Keystones have the same name; rename one",
            ".otherKeystones",
        ),
    )

    api: HttpApi = HttpApi()
    """The pods of the dashboard."""
    keystone_ref: KeystoneRef | None = None
    """Keystone that authenticates users, `keystone` if unset. If its federation is enabled, users of its identity
    providers can log in, too."""
    other_keystones: Annotated[list[OtherKeystone], Field(max_length=16)] = []
    """Further Keystones that users can choose at login. If set, the dashboard uses the public endpoints of every
    cloud."""
    branding: Branding = Branding()
    """Title, theme and files of the pages."""
    image_upload: Literal["Proxy", "Direct", "Off"] = "Proxy"
    """Path of image uploads to Glance: `Proxy` through the dashboard, or `Direct` from the browser. For `Direct`, set
    `config.cors.allowed_origin` of Glance to the URL of the dashboard."""
    glance_ref: GlanceRef | None = None
    """Glance to which browsers upload with imageUpload Direct, `glance` if unset."""
    secret_key_generation: Annotated[int, Field(ge=1)] = 1
    """Raise this number to replace the secret key. Users stay logged in: pods accept both keys, and the operator
    removes the old one when its last session has ended. A smaller number changes nothing."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the cache, the Keystone and the Glance if the spec names none."""
        keystone = {} if self.keystone_ref else {"keystoneRef": KEYSTONE}
        direct = self.image_upload == "Direct" and not self.glance_ref
        return {**super().default_refs(), **keystone, **({"glanceRef": GLANCE} if direct else {})}


GLANCE = GlanceRef(name="glance")

HORIZON = Resource(
    kind="Horizon",
    plural="horizons",
    spec=HorizonSpec,
    scale=Scale("api"),
    columns=(Column("Endpoint", ".status.endpoint"),),
)

"""What users write to let the users of other identity providers in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, model_validator

from ....api import (
    Destination,
    MappingRules,
    Model,
    ProviderName,
    RemoteIdAttribute,
    Rule,
    SecretFileRef,
    SecretKeyRef,
    SecretRef,
    rule,
    sent,
    validated,
)

_PLAIN = r"^[A-Za-z0-9._~:/@+-]+$"
"""What needs no quotes in a file of Apache's, and means nothing there."""

_SECURE = "^https://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~/%]*)?$"

SecureUrl = Annotated[
    str,
    Field(max_length=255, pattern=_SECURE),
    # Who can change what is read here says who everybody is.
    validated(rule(f"self.matches('{_SECURE}')", "not a URL with HTTPS; write one such as https://sso.example.org/x")),
]

Token = Annotated[str, Field(min_length=1, max_length=255, pattern=_PLAIN)]

EntityId = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:[^\s\"'<>&$\\]+$")]
"""The name of a party to SAML: a URI."""

_DASHBOARD = "^https?://[^ ?#]+$"

Dashboard = Annotated[
    str,
    Field(max_length=255, pattern=r"^https?://[^\s?#]+$"),
    validated(
        rule(
            f"self.matches('{_DASHBOARD}')",
            "not the URL of a dashboard; write one such as https://horizon.example.org/auth/websso/",
        )
    ),
]


class BearerTokens(Model):
    """How access tokens are checked that programs bring, which no browser leads to the provider: against its keys, or
    by asking it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.jwksURL) != has(self.introspectionURL)",
            "a token is checked in one way; set one of jwksURL and introspectionURL",
            ".jwksURL",
        ),
    )

    jwks_url: SecureUrl | None = Field(default=None, alias="jwksURL")
    """The provider's keys (JWKS): tokens are JWTs signed with one of them."""
    introspection_url: SecureUrl | None = Field(default=None, alias="introspectionURL")
    """Where the provider says what a token is worth (RFC 7662); asked with the client's ID and secret."""
    audience: Token | None = None
    """A token must be for: its claim `aud`, `azp` or `client_id`. Unset is `clientID`. One that was made for
    another program of the same provider is not let in."""


class OpenID(Model):
    """A provider that speaks OpenID Connect."""

    issuer: SecureUrl
    """The provider's name, as its tokens have it; Keystone knows it by that."""
    metadata_url: SecureUrl | None = Field(default=None, alias="metadataURL")
    """Its discovery document; unset is `.well-known/openid-configuration` below the issuer."""
    client_id: Token = Field(alias="clientID")
    """Under which the provider knows this Keystone."""
    client_secret_ref: SecretKeyRef
    """The secret that goes with it."""
    scopes: Annotated[list[Token], Field(min_length=1, max_length=32)] = ["openid", "email", "profile"]
    """What the provider is asked for; `openid` is among them."""
    bearer_tokens: BearerTokens | None = None
    """Let in who brings an access token, as the openstack command does with `--os-auth-type v3oidcpassword`,
    `v3oidcclientcredentials` or `v3oidcaccesstoken`. Unset lets in browsers alone."""

    def destinations(self) -> Sequence[Destination]:
        """Whoever says where tokens are to be had, and whoever is asked about them."""
        asked = self.bearer_tokens.introspection_url if self.bearer_tokens else None
        return sent({"clientSecretRef": self.client_secret_ref}, self.metadata_url or self.issuer, asked)


_VARIABLE = "^[A-Za-z][A-Za-z0-9-]{0,62}$"


class SAML2(Model):
    """A provider that speaks SAML 2.0."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.metadataURL) != has(self.metadataSecretRef)",
            "metadata has one source; set one of metadataURL and metadataSecretRef",
            ".metadataURL",
        ),
    )

    entity_id: EntityId = Field(alias="entityID")
    """The provider's name, as its metadata has it; Keystone knows it by that."""
    metadata_url: SecureUrl | None = Field(default=None, alias="metadataURL")
    """Its metadata, which is read again every hour or so. The server's certificate must be by one of the authorities in
    `caSecretRef`, or by one that Debian trusts where that is unset."""
    metadata_secret_ref: SecretFileRef | None = None
    """Its metadata as a file in a Secret, `metadata.xml` unless `key` says otherwise."""
    metadata_certificate_secret_ref: SecretFileRef | None = None
    """The certificate by whose key the metadata must be signed, as federations publish theirs: `tls.crt` in a Secret
    unless `key` says otherwise. Unset accepts metadata without a signature."""
    attributes: Annotated[
        dict[str, Annotated[str, Field(max_length=255)]],
        Field(max_length=64),
        validated(
            rule(
                f"self.all(name, name.matches('{_VARIABLE}'))",
                "not a name for an attribute; use letters, digits and dashes, a letter first",
            )
        ),
    ] = {}
    """SAML attributes the mapping reads, by the name it gives them: `{mail: urn:oid:0.9.2342.19200300.100.1.3}`. Those
    of eduPerson that Shibboleth knows are there anyway: `eppn`, `affiliation`, `entitlement`."""


class IdentityProvider(Model):
    """Somebody else who knows users, how they prove it, and what they are here."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "(self.protocol == 'openid') == has(self.openid)",
            "says how OpenID Connect is spoken; set it with protocol openid, and only then",
            ".openid",
        ),
        rule(
            "(self.protocol == 'saml2') == has(self.saml2)",
            "says how SAML is spoken; set it with protocol saml2, and only then",
            ".saml2",
        ),
    )

    name: ProviderName
    """Its name in Keystone, part of the URLs by which its users log in."""
    protocol: Literal["openid", "saml2"]
    """What it speaks: OpenID Connect, or SAML 2.0. It cannot be changed: Keystone knows users by their provider and by
    this; one that speaks otherwise has another name."""
    description: Annotated[str, Field(max_length=255)] = ""
    """What it is, shown to people."""
    domain: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Name of the domain its users belong to, made where there is none. Unset has Keystone make one for it. It cannot
    be changed: what Keystone knows of the provider stays with its domain."""
    openid: OpenID | None = None
    """How OpenID Connect is spoken."""
    saml2: SAML2 | None = None
    """How SAML is spoken."""
    mapping: MappingRules
    """Who its users are here: the list of rules that Keystone takes, each with `remote` and `local`. Claims are
    `OIDC-` and their name: `OIDC-preferred_username`; attributes of SAML have the names of `saml2.attributes`."""
    remote_id_attribute: RemoteIdAttribute | None = Field(default=None, alias="remoteIDAttribute")
    """What tells Keystone who vouches for a user. Unset is `OIDC-iss` or `Shib-Identity-Provider`."""
    ca_secret_ref: SecretFileRef | None = Field(default=None, alias="caSecretRef")
    """Authorities the provider's certificate is checked by, a bundle in PEM: `ca.crt` unless `key` says otherwise.
    Unset is those that Debian trusts."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of it when it is taken from the list, or federation is turned off. Retain disables it in Keystone,
    so that its users are who they were when it comes back. Delete removes it and its users, with their roles and
    application credentials."""

    @property
    def remote_id(self) -> str:
        """Its name in what it says."""
        return self.openid.issuer if self.openid else self.saml2.entity_id if self.saml2 else ""


class ServiceProvider(Model):
    """What this Keystone is to providers that speak SAML."""

    entity_id: EntityId | None = Field(default=None, alias="entityID")
    """Its name; unset is `/shibboleth` below its public URL."""
    key_pair_secret_ref: SecretRef | None = None
    """A Secret with `tls.crt` and `tls.key` (RSA), by which requests are signed and what is encrypted for this Keystone
    is read. Unset does neither."""


class Federation(Model):
    """Users of identity providers outside of this cloud."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.enabled) || !self.enabled || (has(self.identityProviders) && size(self.identityProviders) > 0)",
            "there is nobody to let in; add a provider, or set enabled to false",
            ".identityProviders",
        ),
        rule(
            "!has(self.identityProviders) ||"
            " self.identityProviders.all(one, self.identityProviders.exists_one(other, other.name == one.name))",
            "two providers have one name; rename one of them",
            ".identityProviders",
        ),
    )

    enabled: bool = False
    """Whether they may log in. Turning it off takes away how they do; what becomes of providers and users in Keystone
    is each provider's `retention`."""
    identity_providers: Annotated[list[IdentityProvider], Field(max_length=16)] = []
    """Who knows them."""
    trusted_dashboards: Annotated[list[Dashboard], Field(max_length=16)] = []
    """Dashboards that may be handed a token of a user who logged in in a browser (`[federation] trusted_dashboard`)."""
    service_provider: ServiceProvider = ServiceProvider()
    """What this Keystone is to providers that speak SAML."""

    @model_validator(mode="before")
    @classmethod
    def _unused(cls, given: Any) -> Any:
        """Nothing is read for providers that are not let in."""
        if not isinstance(given, Mapping) or (spec := cast("Mapping[str, Any]", given)).get("enabled"):
            return given
        return {name: value for name, value in spec.items() if name == "enabled"}

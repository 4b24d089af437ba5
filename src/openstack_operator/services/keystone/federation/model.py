"""Spec of the federation with other identity providers."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, model_validator

from ....api import (
    AuthorityFileRef,
    CertificateFileRef,
    Destination,
    MappingRules,
    MetadataFileRef,
    Model,
    ProviderName,
    RemoteIdAttribute,
    Rule,
    SecretKeyRef,
    SecretRef,
    rule,
    sent,
    validated,
)

_PLAIN = r"^[A-Za-z0-9._~:/@+-]+$"
"""Text that needs no quotes in a configuration file of Apache, and has no special meaning there."""

_SECURE = "^https://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~/%]*)?$"

SecureUrl = Annotated[
    str,
    Field(max_length=255, pattern=_SECURE),
    # A person who can change an answer from here can log in as any user.
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
    """Verification of the access tokens of programs, which get them without a browser: with the provider's keys, or by
    asking the provider.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.jwksURL) != has(self.introspectionURL)",
            "jwksURL and introspectionURL exclude each other; set one",
            ".jwksURL",
        ),
    )

    jwks_url: SecureUrl | None = Field(default=None, alias="jwksURL")
    """URL of the provider's keys (JWKS): tokens are JWTs signed with one of them."""
    introspection_url: SecureUrl | None = Field(default=None, alias="introspectionURL")
    """URL at which the provider verifies a token (RFC 7662). Apache sends the client's ID and secret, too."""
    audience: Token | None = None
    """Required audience of a token: its claim `aud`, `azp` or `client_id`. Unset is `clientID`. Keystone refuses a
    token for another program of the same provider."""


class OpenID(Model):
    """A provider that speaks OpenID Connect."""

    issuer: SecureUrl
    """Issuer of the provider, the claim `iss` of its tokens."""
    metadata_url: SecureUrl | None = Field(default=None, alias="metadataURL")
    """URL of its discovery document. Unset is `.well-known/openid-configuration` below the issuer."""
    client_id: Token = Field(alias="clientID")
    """OAuth client ID."""
    client_secret_ref: SecretKeyRef
    """OAuth client secret."""
    scopes: Annotated[list[Token], Field(min_length=1, max_length=32)] = ["openid", "email", "profile"]
    """OAuth scopes to request. Include `openid`."""
    bearer_tokens: BearerTokens | None = None
    """Accept access tokens of programs, such as the openstack command with `--os-auth-type v3oidcpassword`,
    `v3oidcclientcredentials` or `v3oidcaccesstoken`. If unset, users can log in with browsers only."""

    def destinations(self) -> Sequence[Destination]:
        """Return the servers that name the one that issues tokens, and that verify them."""
        introspection_url = self.bearer_tokens.introspection_url if self.bearer_tokens else None
        return sent({"clientSecretRef": self.client_secret_ref}, self.metadata_url or self.issuer, introspection_url)


_VARIABLE = "^[A-Za-z][A-Za-z0-9-]{0,62}$"


class SAML2(Model):
    """A provider that speaks SAML 2.0."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.metadataURL) != has(self.metadataSecretRef)",
            "metadataURL and metadataSecretRef exclude each other; set one",
            ".metadataURL",
        ),
    )

    entity_id: EntityId = Field(alias="entityID")
    """SAML entity ID of the provider, as in its metadata."""
    metadata_url: SecureUrl | None = Field(default=None, alias="metadataURL")
    """URL of its metadata, which shibd reloads about every hour. The server's certificate must be by one of the
    authorities in `caSecretRef`, or by one that Debian trusts if that is unset."""
    metadata_secret_ref: MetadataFileRef | None = None
    """Its metadata as a file in a Secret: `metadata.xml`, unless `key` names another one."""
    metadata_certificate_secret_ref: CertificateFileRef | None = None
    """Certificate whose key must have signed the metadata, as federations publish theirs: `tls.crt` in a Secret, unless
    `key` names another file. If unset, shibd accepts metadata without a signature."""
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
    """SAML attributes that the mapping reads, by its names for them: `{mail: urn:oid:0.9.2342.19200300.100.1.3}`.
    Shibboleth always provides those of eduPerson that it knows: `eppn`, `affiliation`, `entitlement`."""


class IdentityProvider(Model):
    """An identity provider outside of this cloud: how its users log in, and which users of Keystone they become."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "(self.protocol == 'openid') == has(self.openid)",
            "openid goes with protocol openid; set both, or neither",
            ".openid",
        ),
        rule(
            "(self.protocol == 'saml2') == has(self.saml2)",
            "saml2 goes with protocol saml2; set both, or neither",
            ".saml2",
        ),
    )

    name: ProviderName
    """Name of the provider in Keystone, part of the URLs at which its users log in."""
    protocol: Literal["openid", "saml2"]
    """Protocol: OpenID Connect, or SAML 2.0. You cannot change it: Keystone identifies users by their provider and its
    protocol. For another protocol, add a provider with another name."""
    description: Annotated[str, Field(max_length=255)] = ""
    """Description of the provider, for people."""
    domain: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Name of the domain of its users. The operator creates it if it does not exist. If unset, Keystone creates one for
    the provider. You cannot change it: what Keystone knows of the provider stays in its domain."""
    openid: OpenID | None = None
    """Settings of OpenID Connect."""
    saml2: SAML2 | None = None
    """Settings of SAML."""
    mapping: MappingRules
    """Mapping rules for its users, in Keystone's format: a list, each with `remote` and `local`. A claim is `OIDC-` and
    its name: `OIDC-preferred_username`; attributes of SAML have the names of `saml2.attributes`."""
    remote_id_attribute: RemoteIdAttribute | None = Field(default=None, alias="remoteIDAttribute")
    """Environment variable with the identifier of a user's provider, `OIDC-iss` or `Shib-Identity-Provider` if
    unset."""
    ca_secret_ref: AuthorityFileRef | None = Field(default=None, alias="caSecretRef")
    """Authorities that verify the provider's certificate, a bundle in PEM: `ca.crt`, unless `key` names another file.
    Unset is those that Debian trusts."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """Action in Keystone when you remove the provider from the list, or turn federation off. Retain disables the
    provider, so that its users are the same if you add it again. Delete removes it and its users, with their roles and
    application credentials."""

    @property
    def remote_id(self) -> str:
        """Name of the provider in its tokens or assertions."""
        return self.openid.issuer if self.openid else self.saml2.entity_id if self.saml2 else ""


class ServiceProvider(Model):
    """Keystone's identity towards SAML providers."""

    entity_id: EntityId | None = Field(default=None, alias="entityID")
    """SAML entity ID of this Keystone, `/shibboleth` below its public URL if unset."""
    key_pair_secret_ref: SecretRef | None = None
    """A Secret with `tls.crt` and `tls.key` (RSA), with which shibd signs requests and decrypts assertions. If unset,
    it does neither."""


class Federation(Model):
    """Login for users of external identity providers."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.enabled) || !self.enabled || (has(self.identityProviders) && size(self.identityProviders) > 0)",
            "federation needs an identity provider; add one, or set enabled to false",
            ".identityProviders",
        ),
        rule(
            "!has(self.identityProviders) ||"
            " self.identityProviders.all(one, self.identityProviders.exists_one(other, other.name == one.name))",
            "two providers have the same name; rename one",
            ".identityProviders",
        ),
    )

    enabled: bool = False
    """Let these users log in. Setting false removes their ways to log in. The `retention` of each provider decides what
    happens to it and its users in Keystone."""
    identity_providers: Annotated[list[IdentityProvider], Field(max_length=16)] = []
    """Identity providers whose users log in."""
    trusted_dashboards: Annotated[list[Dashboard], Field(max_length=16)] = []
    """Dashboards that may get the token of a user who logged in with a browser (`[federation] trusted_dashboard`)."""
    service_provider: ServiceProvider = ServiceProvider()
    """Keystone's identity towards SAML providers."""

    @model_validator(mode="before")
    @classmethod
    def _drop_unused(cls, document: Any) -> Any:
        """Drop everything else if federation is off, so that the operator reads nothing for its providers."""
        if not isinstance(document, Mapping) or (spec := cast("Mapping[str, Any]", document)).get("enabled"):
            return document
        return {name: value for name, value in spec.items() if name == "enabled"}

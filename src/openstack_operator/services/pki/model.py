"""Spec of a PKI."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import DURATION, AuthoritySecretRef, Column, Model, Name, Resource, Rule, lasts, rule

Lifetime = Annotated[str, DURATION, lasts("5m", "7300d")]
Kind = Annotated[str, Field(max_length=63, pattern="^[A-Z][A-Za-z0-9]*$")]
Overlap = Annotated[str, DURATION, lasts("0s", "365d")]

CERT_MANAGER_LEAST = "cert-manager needs a lifetime of an hour or more; choose 1h or more"
"""Message for a lifetime below the minimum of `duration` of a Certificate. Its `renewBefore`, a third of the
lifetime, is then within cert-manager's bounds, too: at least five minutes and less than the lifetime."""
# Kubernetes' durations have no days: the only days that are left after the first match are 0d, the same as 0h. The
# field itself refuses what is no duration at all.
_AN_HOUR = (
    "(self.certificateLifetime.matches('[1-9][0-9]*[dh]|[1-9][0-9]{3,}m|[1-9][0-9]{4,}s|[^0-9dhms]|[0-9]$')"
    " || duration(self.certificateLifetime.replace('d', 'h')) >= duration('1h'))"
)


class IssuerRef(Model):
    """An issuer of cert-manager."""

    name: Name
    """Name of the issuer."""
    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """Kind of the issuer: of this namespace, or of the whole cluster. For a ClusterIssuer, names other than those of
    Services here need the operator's flag `--issuer-hosts`."""
    group: Annotated[str, Field(max_length=253)] = "cert-manager.io"
    """API group of the issuer. Set it for an issuer that is not cert-manager's own."""


class PKISpec(Model):
    """PKI: a certificate authority of the cloud's own. A service that names it in `tls` gets a certificate from it, and
    a new one when two thirds of the certificate's life are over. The operator replaces the authority at two thirds of
    its own life, or on request, without an outage.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "authorityMinutes": "authorityLifetime, such as 3650d",
        "overlapMinutes": "overlap, such as 7d",
        "certificateMinutes": "certificateLifetime, such as 365d",
    }
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"!has(self.issuerRef) || {_AN_HOUR}",
            CERT_MANAGER_LEAST,
            ".certificateLifetime",
        ),
    )

    authority_lifetime: Lifetime = "3650d"
    """Lifetime of the authority, from its creation."""
    authority_generation: Annotated[int, Field(ge=1)] = 1
    """Raise this number to replace the authority. Programs first trust the new one too, then it issues all
    certificates, then programs stop trusting the old one. The condition RotationReady shows the progress. A smaller
    number changes nothing."""
    overlap: Overlap = "7d"
    """Minimum time for which programs trust a new authority before it issues certificates, so that you can give the
    bundle to clients outside the cluster; but at most half of the rest of the old one's life."""
    certificate_lifetime: Lifetime = "365d"
    """Lifetime of new certificates."""
    allowed_kinds: Annotated[list[Kind], Field(max_length=64)] = []
    """Kinds of resources that may get certificates of this PKI, such as `OVNNetwork` (also for OVNCluster). Empty
    allows all. Set it if servers accept every client with a certificate of this authority. Other kinds report
    `InvalidSpec`, and keep their certificate."""
    issuer_ref: IssuerRef | None = None
    """cert-manager issuer of the certificates; if unset, the operator has its own authority. An ACME issuer certifies
    only public names of APIs; the operator's authority certifies all other names. In a running cloud, changing from one
    to the other is an outage until all clients have rolled."""
    ca_bundle_secret_ref: AuthoritySecretRef | None = Field(default=None, alias="caBundleSecretRef")
    """Secret with a `ca.crt` to trust as well: the authority of an issuer that provides none, such as ACME."""


PKI = Resource(
    kind="PKI",
    plural="pkis",
    spec=PKISpec,
    columns=(
        Column("Rotation", '.status.conditions[?(@.type=="RotationReady")].reason', priority=1),
        Column("Certificates", ".spec.certificateLifetime", priority=1),
    ),
)

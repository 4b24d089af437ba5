"""What users write to get a PKI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import DURATION, Column, Model, Name, Resource, Rule, SecretRef, lasts, rule

Lifetime = Annotated[str, DURATION, lasts("5m", "7300d")]
Overlap = Annotated[str, DURATION, lasts("0s", "365d")]

CERT_MANAGER_LEAST = "cert-manager makes no certificate for less than an hour; choose 1h or more"
"""What is said of a lifetime below the minimum of `duration` of a Certificate. Its `renewBefore`, a third of the
lifetime, is then within cert-manager's bounds, too: at least five minutes and less than the lifetime."""
# Kubernetes' durations have no days: those that are left where none is counted are of no hours. What is no duration
# at all, its field refuses.
_AN_HOUR = (
    "(self.certificateLifetime.matches('[1-9][0-9]*[dh]|[1-9][0-9]{3,}m|[1-9][0-9]{4,}s|[^0-9dhms]|[0-9]$')"
    " || duration(self.certificateLifetime.replace('d', 'h')) >= duration('1h'))"
)


class IssuerRef(Model):
    """An issuer of cert-manager's."""

    name: Name
    """Name of the issuer."""
    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """Whether it is one of this namespace or of the whole cluster. Other names than those of
    Services here need the operator's flag `--issuer-hosts` for the latter."""
    group: Annotated[str, Field(max_length=253)] = "cert-manager.io"
    """API group of the issuer; another one for issuers that are not cert-manager's own."""


class PKISpec(Model):
    """PKI: an authority of the cloud's own, which vouches for its parts to each other. Whoever names it in `tls` gets a
    certificate from it, and a new one when two thirds of its life are over. The authority is replaced at two thirds of
    its own, or when that is asked for, without an outage."""

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
    """Life of the authority; counted from when it is made."""
    authority_generation: Annotated[int, Field(ge=1)] = 1
    """Raise it to have the authority replaced: all who trust it trust a new one as well, then certificates are by that
    one, then nobody trusts the old one any more. What is waited for stands in the condition RotationReady. A smaller
    number changes nothing."""
    overlap: Overlap = "7d"
    """How long a new authority is trusted at least before certificates are by it, so that clients outside
    the cluster have time to be given the bundle; but no longer than half of what is left of the old one's life."""
    certificate_lifetime: Lifetime = "365d"
    """Life of each certificate; those there are stay as long as they were made for."""
    issuer_ref: IssuerRef | None = None
    """cert-manager's issuer that makes the certificates; unset is an authority of this operator's own. Going over from
    one to the other in a cloud that runs is an outage until all clients have rolled."""
    ca_bundle_secret_ref: SecretRef | None = Field(default=None, alias="caBundleSecretRef")
    """Secret with a `ca.crt` that is trusted besides: the authority of an issuer that hands out none, as ACME's."""


PKI = Resource(
    kind="PKI",
    plural="pkis",
    spec=PKISpec,
    columns=(
        Column("Rotation", '.status.conditions[?(@.type=="RotationReady")].reason', priority=1),
        Column("Certificates", ".spec.certificateLifetime", priority=1),
    ),
)

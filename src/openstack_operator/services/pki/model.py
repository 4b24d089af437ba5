"""What users write to get a PKI."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...api import Column, Model, Resource

Minutes = Annotated[int, Field(ge=5, le=20 * 365 * 24 * 60)]


class PKISpec(Model):
    """PKI: an authority of the cloud's own, which vouches for its parts to each other. Whoever names it in `tls` gets a
    certificate from it, and a new one when two thirds of its life are over."""

    authority_minutes: Minutes = 10 * 365 * 24 * 60
    """Life of the authority, in minutes; counted from when it is made."""
    certificate_minutes: Minutes = 365 * 24 * 60
    """Life of each certificate, in minutes; those there are stay as long as they were made for."""


PKI = Resource(
    kind="PKI",
    plural="pkis",
    spec=PKISpec,
    columns=(Column("Certificates (min)", ".spec.certificateMinutes", "integer", 1),),
)

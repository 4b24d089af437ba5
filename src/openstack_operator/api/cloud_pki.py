"""Certificates of services whose manifests name no source of them."""

from collections.abc import Mapping
from typing import Any

from .refs import CLOUD_PKI
from .spec import CertificateSource, UsesTLS


class UsesCloudPKI(UsesTLS):
    """Mixed into the spec of a service in c5c3's groups, whose manifests name no source of a certificate."""

    tls: CertificateSource | None = None
    """Encryption of clients' connections, with a certificate of the PKI `internal` if unset. Without such a PKI in this
    namespace, or with `{}`, connections are plain text. Clients that this operator configures verify the certificate
    and its names."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the PKI of the cloud, if the spec does not say what to do, and the default references of the spec."""
        return {**super().default_refs(), **({"tls.pkiRef": CLOUD_PKI} if self.tls is None else {})}

"""Certificates as an issuer in the cluster would make them, so that what depends on them can be planned."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ... import pki
from ...kube import Object, labels, secret_data
from ...plan import Context, Plan, key, key_placeholder

_API = "cert-manager.io/v1"
_TYPE = "kubernetes.io/tls"


class Issuers:
    """Stand-in for cert-manager: each Certificate gets its Secret, by an authority of its issuer's that no program
    trusts.
    """

    def __init__(self) -> None:
        self._authorities: dict[str, pki.Pair] = {}
        self._words: dict[str, str] = {}
        """Words to show, by the certificate or key that they stand for."""

    def answers(self, context: Context[Any], plan: Plan) -> Mapping[tuple[str, str], Object]:
        """Return Secrets and statuses of the plan's Certificates that the context does not have yet, by their keys."""
        added: dict[tuple[str, str], Object] = {}
        for certificate in plan.objects:
            if self.issuer_of(certificate) and key(certificate) not in context.children:
                added[key(certificate)] = _issued(certificate)
                added["Secret", certificate["spec"]["secretName"]] = self._secret(context, certificate)
        return added

    def issuer_of(self, obj: Object) -> str:
        """Return kind and name of the issuer of a certificate; empty for other objects."""
        if (obj["apiVersion"], obj["kind"]) != (_API, "Certificate"):
            return ""
        ref = obj["spec"]["issuerRef"]
        return f"{ref['kind']}/{ref['name']}"

    def marked(self, obj: Object) -> Object:
        """Return the object with words in place of stand-ins: they say what the cluster has there."""
        if not self._words or obj["kind"] != "Secret":
            return obj
        data = secret_data(obj)
        for pem, words in self._words.items():
            data = {name: text.replace(pem, words) for name, text in data.items()}
        encoded = {name: base64.b64encode(_bytes(text)).decode() for name, text in data.items()}
        return {**obj, "data": encoded} if "data" in obj else obj

    def authority(self, secret: str, key: str, now: datetime) -> str:
        """Return a certificate that stands for the authorities in a Secret of the cluster."""
        words = key_placeholder(secret, key)
        pem = pki.authority(f"stand-in for {words}", f"stand-in for {words}", now).cert
        # Files have it with other ends of lines.
        self._words[pem.strip()] = words
        return pem

    def _secret(self, context: Context[Any], certificate: Object) -> Object:
        issuer = self.issuer_of(certificate)
        if issuer not in self._authorities:
            pair = pki.authority(f"stand-in for {issuer}", f"stand-in for {issuer}", context.now)
            self._authorities[issuer] = pair
            self._words[pair.cert] = f"<the authority of {issuer}>\n"
        authority, spec, name = self._authorities[issuer], certificate["spec"], certificate["metadata"]["name"]
        calls = "client auth" in spec.get("usages", ())
        names = frozenset([*spec.get("dnsNames", ()), *spec.get("ipAddresses", ())])
        request = pki.Request(common=spec.get("commonName", name), names=names, calls=calls)
        leaf = pki.issue(authority, request, f"{context.namespace}/{name}", context.now)
        self._words[leaf.cert] = f"<the certificate {name} by {issuer}>\n"
        self._words[leaf.key] = f"<the key of certificate {name} by {issuer}>\n"
        files = {"tls.crt": leaf.cert, "tls.key": leaf.key, "ca.crt": authority.cert}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": _TYPE,
            "metadata": {"name": spec["secretName"], "namespace": context.namespace, "labels": labels(context)},
            "data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
        }


def _issued(certificate: Object) -> Object:
    """Return the Certificate as cert-manager leaves it."""
    generation = certificate["metadata"].get("generation", 1)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": generation}
    return {**certificate, "status": {"conditions": [ready]}}


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")

"""An identity provider that speaks SAML and signs what it says, and Apache and shibd that let in its users."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any
from xml.etree import ElementTree as ET

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from openstack_operator.plan import Release
from openstack_operator.services.keystone.federation import apache
from tests.unit.federation_image import fake_uwsgi, image_process, mounted_files, wait_until_listening, write_files
from tools.localcluster.ports import free_port

ENTITY = "https://idp.example.org/shibboleth"
SSO = "https://idp.example.org/sso"
WEBSSO, AUTH = apache.websso_path("campus", "saml2"), apache.auth_path("campus", "saml2")
MAIL, DEPARTMENT = "urn:oid:0.9.2342.19200300.100.1.3", "urn:oid:2.5.4.11"
SAML, SAMLP = "urn:oasis:names:tc:SAML:2.0:assertion", "urn:oasis:names:tc:SAML:2.0:protocol"
EXCLUSIVE, DSIG = "http://www.w3.org/2001/10/xml-exc-c14n#", "http://www.w3.org/2000/09/xmldsig#"
PROVIDER: dict[str, Any] = {
    "name": "campus",
    "protocol": "saml2",
    "saml2": {
        "entityID": ENTITY,
        "metadataSecretRef": {"name": "campus"},
        "attributes": {"mail": MAIL, "department": DEPARTMENT},
    },
    "mapping": [{"remote": [{"type": "mail"}, {"type": "department"}], "local": [{"user": {"name": "{0}"}}]}],
}


class SamlProvider:
    """A provider that signs what it says."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "idp")])
        now = datetime.now(UTC)
        built = x509.CertificateBuilder(name, name, self._key.public_key(), 1, now, now + timedelta(days=1))
        self._cert = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)

    @property
    def certificate(self) -> str:
        """By whose key its metadata is signed."""
        return ssl.DER_cert_to_PEM_cert(self._cert)

    @property
    def metadata(self) -> str:
        return "".join(self._metadata())

    @property
    def signed_metadata(self) -> str:
        start, rest = self._metadata()
        return start + self._signature("m", start + rest) + rest

    def _metadata(self) -> tuple[str, str]:
        """Its begin and the rest, as exclusive XML canonicalization has them."""
        cert = base64.b64encode(self._cert).decode()
        start = f'<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" ID="_am" entityID="{ENTITY}">'
        return start, (
            f'<IDPSSODescriptor protocolSupportEnumeration="{SAMLP}"><KeyDescriptor use="signing">'
            f'<KeyInfo xmlns="{DSIG}"><X509Data><X509Certificate>{cert}</X509Certificate></X509Data></KeyInfo>'
            "</KeyDescriptor>"
            f'<SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{SSO}">'
            "</SingleSignOnService>"
            "</IDPSSODescriptor></EntityDescriptor>"
        )

    def answer(self, asked: ET.Element, audience: str, mail: str) -> str:
        """A response to a request, in base64. Texts to sign are written as exclusive XML canonicalization has them."""
        own, now, acs = token_hex(8), datetime.now(UTC), asked.get("AssertionConsumerServiceURL")
        past, then = (f"{now + timedelta(minutes=m):%Y-%m-%dT%H:%M:%SZ}" for m in (-2, 5))
        bearer = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
        uri = "urn:oasis:names:tc:SAML:2.0:attrname-format:uri"
        attributes = "".join(
            f'<saml:Attribute Name="{name}" NameFormat="{uri}"><saml:AttributeValue>{value}</saml:AttributeValue>'
            "</saml:Attribute>"
            for name, value in ((MAIL, mail), (DEPARTMENT, "engines"))
        )
        start = f'<saml:Assertion xmlns:saml="{SAML}" ID="_a{own}" IssueInstant="{past}" Version="2.0">'
        issuer = f"<saml:Issuer>{ENTITY}</saml:Issuer>"
        rest = (
            "<saml:Subject><saml:NameID>ada</saml:NameID>"
            f'<saml:SubjectConfirmation Method="{bearer}"><saml:SubjectConfirmationData'
            f' InResponseTo="{asked.get("ID")}" NotOnOrAfter="{then}" Recipient="{acs}"></saml:SubjectConfirmationData>'
            "</saml:SubjectConfirmation></saml:Subject>"
            f'<saml:Conditions NotBefore="{past}" NotOnOrAfter="{then}"><saml:AudienceRestriction>'
            f"<saml:Audience>{audience}</saml:Audience></saml:AudienceRestriction></saml:Conditions>"
            f'<saml:AuthnStatement AuthnInstant="{past}"><saml:AuthnContext><saml:AuthnContextClassRef>'
            "urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext>"
            f"</saml:AuthnStatement><saml:AttributeStatement>{attributes}</saml:AttributeStatement></saml:Assertion>"
        )
        signature = self._signature(own, start + issuer + rest)
        whole = (
            f'<samlp:Response xmlns:samlp="{SAMLP}" Destination="{acs}" ID="_r{own}" InResponseTo="{asked.get("ID")}"'
            f' IssueInstant="{past}" Version="2.0"><saml:Issuer xmlns:saml="{SAML}">{ENTITY}</saml:Issuer>'
            '<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>'
            f"{start}{issuer}{signature}{rest}</samlp:Response>"
        )
        return base64.b64encode(whole.encode()).decode()

    def _signature(self, own: str, signed: str) -> str:
        digest = base64.b64encode(sha256(signed.encode()).digest()).decode()
        more = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
        info = (
            f'<ds:SignedInfo xmlns:ds="{DSIG}">'
            f'<ds:CanonicalizationMethod Algorithm="{EXCLUSIVE}"></ds:CanonicalizationMethod>'
            f'<ds:SignatureMethod Algorithm="{more}"></ds:SignatureMethod><ds:Reference URI="#_a{own}"><ds:Transforms>'
            f'<ds:Transform Algorithm="{DSIG}enveloped-signature"></ds:Transform>'
            f'<ds:Transform Algorithm="{EXCLUSIVE}"></ds:Transform></ds:Transforms>'
            '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"></ds:DigestMethod>'
            f"<ds:DigestValue>{digest}</ds:DigestValue></ds:Reference></ds:SignedInfo>"
        )
        value = base64.b64encode(self._key.sign(info.encode(), padding.PKCS1v15(), hashes.SHA256())).decode()
        return f'<ds:Signature xmlns:ds="{DSIG}">{info}<ds:SignatureValue>{value}</ds:SignatureValue></ds:Signature>'


@dataclass
class FederatedKeystone:
    """Two pods of one Keystone, each with its Apache and its shibd."""

    idp: SamlProvider
    port: int


@contextmanager
def federated_keystone(
    image: Path, release: Release, idp: SamlProvider, provider: dict[str, Any], secrets: dict[str, dict[str, str]]
) -> Generator[FederatedKeystone]:
    """Apache and shibd that let in users of that provider."""
    port = free_port()
    here = f"http://localhost:{port}"
    found = mounted_files(release, [provider], secrets)
    inside_of = "http://keystone-api.openstack.svc.cluster.local:5000"
    component = release["keystone-federation"]
    with ExitStack() as stack:
        backend = stack.enter_context(fake_uwsgi())
        write_files(image, {name: text.replace(inside_of, here) for name, text in found.items()}, {"5001": backend})
        stack.enter_context(image_process(image, *component.commands["shibd"]))
        process = stack.enter_context(image_process(image, *component.command, LISTEN=f"0.0.0.0:{port}"))
        wait_until_listening(port, process)
        yield FederatedKeystone(idp, port)

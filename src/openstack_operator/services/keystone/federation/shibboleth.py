"""Configuration of Shibboleth: the providers that it trusts, and the attributes that a mapping may read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import quoteattr

from .apache import FOLDER, RUN
from .model import SAML2, IdentityProvider

_PACKAGE = "/etc/shibboleth"
_BUILTIN_ATTRIBUTES = ("eppn", "subject-id", "pairwise-id", "persistent-id", "affiliation", "entitlement")
"""Attributes that Shibboleth knows by itself; a session that moves to another pod keeps these."""

_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
_CAINFO = 10065
# Shibboleth relies on signatures: by default, it has libcurl verify neither the chain nor the name.
_VERIFIED = {64: "1", 81: "2"}  # CURLOPT_SSL_VERIFYPEER, CURLOPT_SSL_VERIFYHOST (curl/curl.h)

LOGGER = """\
log4j.rootCategory=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c %x: %m%n
"""


def files(
    providers: Sequence[IdentityProvider], *, url: str, entity_id: str, sealer: str, signs: bool
) -> Mapping[str, str]:
    """Return shibboleth2.xml and its other files. `url` is Keystone's public one, without a path; `sealer` is a
    password that seals sessions in cookies, the same for all pods; `signs` is True if there is a key pair.
    """
    saml = [(each, each.saml2) for each in providers if each.saml2]
    ids = sorted({*_BUILTIN_ATTRIBUTES, *(name for _, how in saml for name in how.attributes)})
    secure = url.startswith("https:")
    pair = (
        f'\n        <CredentialResolver type="File" key="{FOLDER}/sp.key" certificate="{FOLDER}/sp.crt"/>'
        if signs
        else ""
    )
    # With its cookie, a session that begins at one pod can go on at another.
    text = f"""\
<SPConfig xmlns="urn:mace:shibboleth:3.0:native:sp:config" clockSkew="180" logger="{FOLDER}/shibboleth.logger">
    <OutOfProcess logger="{FOLDER}/shibboleth.logger"/>
    <InProcess logger="{FOLDER}/shibboleth.logger"/>
    <UnixListener address="{RUN}/shibd.sock"/>
    <StorageService type="Memory" id="mem" cleanupInterval="900"/>
    <DataSealer type="Static" key="{_key(sealer)}"/>
    <SessionCache type="StorageService" StorageService="mem" persistedAttributes={quoteattr(" ".join(ids))}/>
    <ReplayCache StorageService="mem"/>
    <ApplicationDefaults entityID={quoteattr(entity_id)} REMOTE_USER="eppn subject-id pairwise-id persistent-id">
        <Sessions lifetime="28800" timeout="3600" relayState="cookie" checkAddress="false" consistentAddress="false"
                  handlerURL="/Shibboleth.sso" handlerSSL="{str(secure).lower()}"
                  cookieProps="{"https" if secure else "http"}" redirectLimit="exact">
            <SSO ECP="true">SAML2</SSO>
            <Logout>SAML2 Local</Logout>
            <Handler type="MetadataGenerator" Location="/Metadata" signing="false"/>
        </Sessions>
        {"".join(_metadata(each, how) for each, how in saml)}
        <AttributeExtractor type="Chaining">
            <AttributeExtractor type="XML" path="{_PACKAGE}/attribute-map.xml"/>
            <AttributeExtractor type="XML" path="{FOLDER}/attribute-map.xml"/>
        </AttributeExtractor>
        <AttributeFilter type="XML" path="{_PACKAGE}/attribute-policy.xml"/>{pair}
    </ApplicationDefaults>
    <SecurityPolicyProvider type="XML" path="{_PACKAGE}/security-policy.xml"/>
    <ProtocolProvider type="XML" path="{_PACKAGE}/protocols.xml"/>
</SPConfig>
"""
    return {"shibboleth2.xml": text, "attribute-map.xml": _attributes(saml), "shibboleth.logger": LOGGER}


def _key(password: str) -> str:
    """Return 128 bits for AES."""
    return base64.b64encode(hashlib.sha256(password.encode()).digest()[:16]).decode()


def _metadata(provider: IdentityProvider, how: SAML2) -> str:
    """Return the metadata of one provider, without other providers that may be in the same file."""
    signed = (
        f'<MetadataFilter type="Signature" certificate="{FOLDER}/metadata-{provider.name}.crt"/>'
        if how.metadata_certificate_secret_ref
        else ""
    )
    # The signature is over the whole document: Shibboleth checks it before it drops the other providers.
    filters = (
        f'{signed}<MetadataFilter type="Include"><Include>{_text(how.entity_id)}</Include></MetadataFilter>'
        "</MetadataProvider>"
    )
    if not how.metadata_url:
        return f'<MetadataProvider type="XML" path="{FOLDER}/metadata-{provider.name}.xml">{filters}'
    trusted = f"{FOLDER}/ca-{provider.name}.crt" if provider.ca_secret_ref else _AUTHORITIES
    options = {**_VERIFIED, _CAINFO: trusted}
    trust = "".join(
        f'<TransportOption provider="CURL" option="{number}">{value}</TransportOption>'
        for number, value in options.items()
    )
    return (
        f'<MetadataProvider type="XML" url={quoteattr(how.metadata_url)}'
        f' backingFilePath="{RUN}/metadata-{provider.name}.xml" maxRefreshDelay="3600">{trust}{filters}'
    )


def _text(value: str) -> str:
    return quoteattr(value)[1:-1]


def _attributes(saml: Sequence[tuple[IdentityProvider, SAML2]]) -> str:
    """Return the map of attributes, each for a name as a URI and for a plain one."""
    formats = ("", "urn:oasis:names:tc:SAML:2.0:attrname-format:basic")
    pairs = sorted({(name, attribute) for _, how in saml for name, attribute in how.attributes.items()})
    lines = [
        f"    <Attribute name={quoteattr(attribute)} id={quoteattr(name)}"
        + (f' nameFormat="{form}"' if form else "")
        + "/>\n"
        for name, attribute in pairs
        for form in formats
    ]
    return f'<Attributes xmlns="urn:mace:shibboleth:2.0:attribute-map">\n{"".join(lines)}</Attributes>\n'

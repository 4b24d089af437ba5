"""The Apache between Keystone and its clients: who it lets its identity providers vouch for, and nobody else.

It calls Keystone in uWSGI's own protocol. What a provider says of a user travels as variables there, and headers as
variables that begin with HTTP_ (mod_proxy_uwsgi, ap_add_common_vars), so that no header is ever taken for a claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .model import BearerTokens, IdentityProvider, OpenID

FOLDER = "/etc/keystone-federation"
RUN = "/run/federation"
KEYSTONE = "127.0.0.1:5001"
"""Where Keystone listens, in uWSGI's protocol."""
_FIRST = 5011
"""Port of the first provider's own server; each has one, since whom to ask for keys is said once a server."""
_HANDLER = "/Shibboleth.sso"

REMOTE_ID = {"openid": "OIDC-iss", "saml2": "Shib-Identity-Provider"}

_MODULES = (
    "mpm_event",
    "authn_core",
    "authz_core",
    "authz_user",
    "headers",
    "proxy",
    "proxy_http",
    "proxy_uwsgi",
    "reqtimeout",
)


def conf(
    providers: Sequence[IdentityProvider],
    *,
    url: str,
    believed: bool,
    read: Iterable[str],
    secrets: Mapping[str, str],
) -> str:
    """apache2.conf. `url` is Keystone's public one, without a path; `believed` says whether what stands before says how
    clients come; `read` are the variables that Keystone's mappings read, `secrets` those of clients by provider. It
    listens where the variable LISTEN says.
    """
    openid = [each for each in providers if each.openid]
    saml = [each for each in providers if each.saml2]
    modules = (*_MODULES, *(["auth_openidc"] if openid else ()), *(["shib"] if saml else ()))
    loads = "".join(f"LoadModule {_module(name)} /usr/lib/apache2/modules/mod_{name}.so\n" for name in modules)
    ports = {each.name: _FIRST + index for index, each in enumerate(openid)}
    routes = "".join(
        f'ProxyPass "{path}" "http://127.0.0.1:{ports[each.name]}{path}" retry=0\n'
        for each in openid
        for path in _paths(each, providers)
    )
    servers = "".join(
        _server(each, each.openid, ports[each.name], _logins(each, providers), url, secrets.get(each.name, ""))
        for each in openid
        if each.openid
    )
    return (
        loads
        + _GENERAL.format(run=RUN, url=url)
        + _unset(read, believed=believed)
        + (f"ShibConfig {FOLDER}/shibboleth2.xml\n" if saml else "")
        # A server of its own, since others would inherit where this one hands requests on.
        + "<VirtualHost *>\n"
        + routes
        + _saml(saml, providers)
        + f'ProxyPass "/" "uwsgi://{KEYSTONE}/" retry=0 timeout=600\n</VirtualHost>\n'
        + servers
    )


_GENERAL = """\
ServerRoot /
DefaultRuntimeDir {run}
PidFile {run}/apache2.pid
Listen ${{LISTEN}}
ServerName {url}
UseCanonicalName On
ServerTokens Prod
ServerSignature Off
TraceEnable Off
StartServers 1
ServerLimit 4
MinSpareThreads 8
MaxSpareThreads 64
ThreadsPerChild 32
MaxRequestWorkers 128
# As behind uWSGI and haproxy: one that is closed while its client sends would be a request that failed.
KeepAlive Off
TimeOut 600
RequestReadTimeout header=30 body=0
# Tokens and catalogs travel in headers.
LimitRequestLine 32768
LimitRequestFieldSize 32768
LogLevel warn
# Its user may not open what it writes to.
ErrorLog "|/bin/cat"
ErrorLogFormat "%-l %m: %M"
# Without what is asked for: codes and states of logins are in it.
LogFormat "%a %m %U %>s %B %D" plain
CustomLog "|/bin/cat" plain
<Directory "/">
    Require all denied
    AllowOverride None
</Directory>
ProxyPreserveHost On
ProxyAddHeaders Off
"""


_HEADER = re.compile(r"[a-z0-9-]+")


def _module(name: str) -> str:
    return "mod_shib" if name == "shib" else f"{name}_module"


def _unset(read: Iterable[str], *, believed: bool) -> str:
    """What a client says of itself is forgotten before anything looks at it, on every path. Nothing of it would become
    a variable that a mapping of the spec may read; one that somebody wrote by hand may read headers.
    """
    named = {name.removeprefix("HTTP_").replace("_", "-").lower() for name in (*read, *REMOTE_ID.values())}
    # What is no name of a header none can have, and does not belong into this file.
    names = sorted(name for name in named | {"remote-user"} if _HEADER.fullmatch(name))
    told = "" if believed else "RequestHeader set X-Forwarded-Proto http early\n"
    return "".join(f"RequestHeader unset {name} early\n" for name in names) + told


def auth_path(name: str, protocol: str) -> str:
    """Where programs log in by a provider."""
    return f"/v3/OS-FEDERATION/identity_providers/{name}/protocols/{protocol}/auth"


def websso_path(name: str, protocol: str) -> str:
    """Where dashboards send browsers for a provider."""
    return f"/v3/auth/OS-FEDERATION/identity_providers/{name}/protocols/{protocol}/websso"


def redirect_path(name: str) -> str:
    """Where a provider that speaks OpenID Connect sends browsers back to."""
    return f"/v3/auth/OS-FEDERATION/identity_providers/{name}/protocols/openid/redirect_uri"


def _logins(provider: IdentityProvider, providers: Sequence[IdentityProvider]) -> list[str]:
    """Where dashboards send browsers. The one of a whole protocol is for a protocol of one provider: to ask which of
    several is meant takes a page, and whoever asks by hand could name a stranger.
    """
    alone = sum(each.protocol == provider.protocol for each in providers) == 1
    own = websso_path(provider.name, provider.protocol)
    return [own, *([f"/v3/auth/OS-FEDERATION/websso/{provider.protocol}"] if alone else [])]


def _paths(provider: IdentityProvider, providers: Sequence[IdentityProvider]) -> list[str]:
    """Where users of a provider that speaks OpenID Connect come."""
    return [_auth(provider), redirect_path(provider.name), *_logins(provider, providers)]


def _auth(provider: IdentityProvider) -> str:
    return auth_path(provider.name, provider.protocol)


def _server(provider: IdentityProvider, openid: OpenID, port: int, logins: Sequence[str], url: str, secret: str) -> str:
    """The server of a provider that speaks OpenID Connect, to which what its users log in by is handed on; `logins` is
    where dashboards send them.
    """
    name = provider.name
    metadata = openid.metadata_url or f"{openid.issuer.rstrip('/')}/.well-known/openid-configuration"
    bundle = f"OIDCCABundlePath {FOLDER}/ca-{name}.crt\n    " if provider.ca_secret_ref else ""
    bearer = _bearer(openid, openid.bearer_tokens, secret) if openid.bearer_tokens else ""
    browsers = "".join(
        f'    <Location "{path}">\n        AuthType openid-connect\n        Require valid-user\n    </Location>\n'
        for path in (redirect_path(name), *logins)
    )
    kind = "auth-openidc" if bearer else "openid-connect"
    return f"""\
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
    ServerName {url}
    UseCanonicalName Off
    OIDCProviderMetadataURL "{metadata}"
    OIDCClientID "{openid.client_id}"
    OIDCClientSecret "exec:/bin/cat {FOLDER}/client-secret-{name}"
    OIDCScope "{" ".join(openid.scopes)}"
    OIDCResponseType code
    OIDCPKCEMethod S256
    # Where this is depends on by which name a client came.
    OIDCRedirectURI "{redirect_path(name)}"
    OIDCXForwardedHeaders X-Forwarded-Proto
    {bundle}OIDCCryptoPassphrase "exec:/bin/cat {FOLDER}/passphrase"
    # A login begins at one pod and may end at another.
    OIDCSessionType client-cookie
    OIDCCookie mod_auth_openidc_session_{name}
    OIDCStateCookiePrefix mod_auth_openidc_state_{name}_
    OIDCCookiePath /v3/
    OIDCStateMaxNumberOfCookies 7 true
    OIDCCacheShmMax 128
    OIDCClaimPrefix OIDC-
    # As Keystone parts values.
    OIDCClaimDelimiter ";"
    OIDCPassClaimsAs environment
    OIDCPassAccessToken Off
{bearer}    RequestHeader unset Authorization
    <Location "{_auth(provider)}">
        AuthType {kind}
{_required(openid)}    </Location>
{browsers}    ProxyPass "{redirect_path(name)}" "!"
    ProxyPass "/" "uwsgi://{KEYSTONE}/" retry=0 timeout=600
</VirtualHost>
"""


def _bearer(openid: OpenID, tokens: BearerTokens, secret: str) -> str:
    """How access tokens are checked."""
    accepted = "    OIDCOAuthAcceptTokenAs header\n"
    if tokens.jwks_url:
        return f'{accepted}    OIDCOAuthVerifyJwksUri "{tokens.jwks_url}"\n'
    return (
        f'{accepted}    OIDCOAuthIntrospectionEndpoint "{tokens.introspection_url}"\n'
        f'    OIDCOAuthClientID "{openid.client_id}"\n    OIDCOAuthClientSecret {_quoted(secret)}\n'
    )


def _quoted(text: str) -> str:
    """As a word of Apache's; there is none for what it takes for a variable."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _required(openid: OpenID) -> str:
    """Anybody the provider knows; of those who bring a token, who brings one that is for this Keystone."""
    if not openid.bearer_tokens:
        return "        Require valid-user\n"
    audience = openid.bearer_tokens.audience or openid.client_id
    claims = "".join(f'            Require claim "{claim}:{audience}"\n' for claim in ("aud", "azp", "client_id"))
    return f"        <RequireAny>\n{claims}        </RequireAny>\n"


def _saml(saml: Sequence[IdentityProvider], providers: Sequence[IdentityProvider]) -> str:
    """Where users of providers that speak SAML log in, and where these answer."""
    if not saml:
        return ""
    places = "".join(
        f'<Location "{path}">\n'
        "    AuthType shibboleth\n"
        "    ShibRequestSetting requireSession true\n"
        "    ShibUseHeaders Off\n    ShibUseEnvironment On\n"
        f'    ShibRequestSetting entityID "{each.saml2.entity_id}"\n'
        # By which provider is Keystone's to see.
        "    Require shib-session\n"
        "</Location>\n"
        for each in saml
        if each.saml2
        for path in (_auth(each), *_logins(each, providers))
    )
    return f"""\
<Location "{_HANDLER}">
    AuthType None
    Require all granted
    SetHandler shib
</Location>
ProxyPass "{_HANDLER}" "!"
{places}"""

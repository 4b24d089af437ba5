"""The Apache between Keystone and its clients: it lets in the users of identity providers, each by its own paths.

It calls Keystone in uWSGI's own protocol. There, claims of a provider travel as variables, and headers as variables
that begin with HTTP_ (mod_proxy_uwsgi, ap_add_common_vars), so that Keystone never takes a header for a claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .model import BearerTokens, IdentityProvider, OpenID

FOLDER = "/etc/keystone-federation"
RUN = "/run/federation"
KEYSTONE = "127.0.0.1:5001"
"""Address of Keystone, for uWSGI's protocol."""
_FIRST_PORT = 5011
"""Port of the first provider's own server; each has one, since Apache configures a provider once for a server."""
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
    proxied: bool,
    variables: Iterable[str],
    secrets: Mapping[str, str],
) -> str:
    """Return apache2.conf. `url` is Keystone's public one, without a path; `proxied` is True if a proxy before it
    sets X-Forwarded-Proto; `variables` are those that Keystone's mappings read, `secrets` those of clients by provider.
    Apache listens at the address in the variable LISTEN.
    """
    openid = [each for each in providers if each.openid]
    saml = [each for each in providers if each.saml2]
    modules = (*_MODULES, *(["auth_openidc"] if openid else ()), *(["shib"] if saml else ()))
    loads = "".join(f"LoadModule {_module(name)} /usr/lib/apache2/modules/mod_{name}.so\n" for name in modules)
    ports = {each.name: _FIRST_PORT + index for index, each in enumerate(openid)}
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
        + _clear_headers(variables, proxied=proxied)
        + (f"ShibConfig {FOLDER}/shibboleth2.xml\n" if saml else "")
        # In a server of its own, since the other servers would inherit its routes.
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


def _clear_headers(variables: Iterable[str], *, proxied: bool) -> str:
    """Return the options that drop a client's claims about itself before any module reads them, on every path. None of
    them would become a variable that a mapping of the spec may read; a mapping written by hand may read headers.
    """
    headers = {name.removeprefix("HTTP_").replace("_", "-").lower() for name in (*variables, *REMOTE_ID.values())}
    # Text that cannot be the name of a header does not belong into this file.
    names = sorted(name for name in headers | {"remote-user"} if _HEADER.fullmatch(name))
    scheme = "" if proxied else "RequestHeader set X-Forwarded-Proto http early\n"
    return "".join(f"RequestHeader unset {name} early\n" for name in names) + scheme


def auth_path(name: str, protocol: str) -> str:
    """Return the path at which programs log in with a provider."""
    return f"/v3/OS-FEDERATION/identity_providers/{name}/protocols/{protocol}/auth"


def websso_path(name: str, protocol: str) -> str:
    """Return the path to which dashboards send browsers for a provider."""
    return f"/v3/auth/OS-FEDERATION/identity_providers/{name}/protocols/{protocol}/websso"


def redirect_path(name: str) -> str:
    """Return the path to which a provider that speaks OpenID Connect sends browsers back."""
    return f"/v3/auth/OS-FEDERATION/identity_providers/{name}/protocols/openid/redirect_uri"


def _logins(provider: IdentityProvider, providers: Sequence[IdentityProvider]) -> list[str]:
    """Return the paths to which dashboards send browsers. The path of a whole protocol is for a protocol of one
    provider: to choose one of several takes a page, and a URL written by hand could name an unknown one.
    """
    is_only = sum(each.protocol == provider.protocol for each in providers) == 1
    path = websso_path(provider.name, provider.protocol)
    return [path, *([f"/v3/auth/OS-FEDERATION/websso/{provider.protocol}"] if is_only else [])]


def _paths(provider: IdentityProvider, providers: Sequence[IdentityProvider]) -> list[str]:
    """Return the paths for users of a provider that speaks OpenID Connect."""
    return [_auth(provider), redirect_path(provider.name), *_logins(provider, providers)]


def _auth(provider: IdentityProvider) -> str:
    return auth_path(provider.name, provider.protocol)


def _server(provider: IdentityProvider, openid: OpenID, port: int, logins: Sequence[str], url: str, secret: str) -> str:
    """Return the server of a provider that speaks OpenID Connect, which gets the requests of its users' logins;
    `logins` are the paths to which dashboards send them.
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
    """Return the options that verify access tokens."""
    accepted = "    OIDCOAuthAcceptTokenAs header\n"
    if tokens.jwks_url:
        return f'{accepted}    OIDCOAuthVerifyJwksUri "{tokens.jwks_url}"\n'
    return (
        f'{accepted}    OIDCOAuthIntrospectionEndpoint "{tokens.introspection_url}"\n'
        f'    OIDCOAuthClientID "{openid.client_id}"\n    OIDCOAuthClientSecret {_quoted(secret)}\n'
    )


def _quoted(text: str) -> str:
    """Return a word of Apache's configuration; it has no way to write `${`, which Apache takes for a variable."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _required(openid: OpenID) -> str:
    """Return the requirement: any user of the provider, and a token only if it is for this Keystone."""
    if not openid.bearer_tokens:
        return "        Require valid-user\n"
    audience = openid.bearer_tokens.audience or openid.client_id
    claims = "".join(f'            Require claim "{claim}:{audience}"\n' for claim in ("aud", "azp", "client_id"))
    return f"        <RequireAny>\n{claims}        </RequireAny>\n"


def _saml(saml: Sequence[IdentityProvider], providers: Sequence[IdentityProvider]) -> str:
    """Return the paths at which users of SAML providers log in, and those for the providers' answers."""
    if not saml:
        return ""
    places = "".join(
        f'<Location "{path}">\n'
        "    AuthType shibboleth\n"
        "    ShibRequestSetting requireSession true\n"
        "    ShibUseHeaders Off\n    ShibUseEnvironment On\n"
        f'    ShibRequestSetting entityID "{each.saml2.entity_id}"\n'
        # Keystone checks which provider it was.
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

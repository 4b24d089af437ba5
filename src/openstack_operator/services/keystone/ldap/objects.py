"""Files of the domains whose users are in a directory, and the job that makes these domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from .... import agents, kube, oslo, parts
from ....api import Sections
from ....parts.run.config import layered
from ....parts.run.config_check import known_options
from ....plan import Context, MissingReference, OptionsError, SpecError, Step
from ..model import KeystoneSpec
from .model import LDAP, Domain

_FOLDER = "/etc/keystone/domains"
_TRUST = "ldap-ca.crt"
_IMAGE_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
_PATH = "spec.domains"
_SECTIONS = ("identity", "ldap")
# A request waits for a directory that does not answer, and with it one of few processes of Keystone. ldappool tries
# again (n + 1) * n times: with Keystone's three, and five seconds for each, a minute.
_CONNECT_SECONDS, _ANSWER_SECONDS = 5, 10
_DEFAULTS: Sections = {
    "ldap": {
        "connection_timeout": _CONNECT_SECONDS,
        "pool_connection_timeout": _CONNECT_SECONDS,
        "pool_retry_max": 1,
        # A connection in that pool accepts its user's old password for a minute.
        "use_auth_pool": False,
    }
}


@dataclass(frozen=True, kw_only=True)
class DomainParts:
    """The parts of a Keystone for its domains in directories; empty without any."""

    steps: tuple[Step, ...] = ()
    """Steps that the API waits for: Keystone ignores the file of a domain that does not exist when it starts."""
    mounts: Sequence[kube.Mount] = ()
    """Additions to the API's pods."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def domain_options(spec: KeystoneSpec) -> Sections:
    """Return the options of Keystone itself."""
    if not spec.domains:
        return {}
    files = {"domain_specific_drivers_enabled": True, "domain_configurations_from_database": False}
    return {"identity": {**files, "domain_config_dir": _FOLDER}}


def domain_parts(
    ctx: Context[KeystoneSpec], conf: parts.Config, mounts: Sequence[kube.Mount], *, after: Sequence[Step]
) -> DomainParts:
    """Return the Secret `<owner>-domains` with a file of options for each domain, which only the API mounts, and the
    job that makes the domains. Raise SpecError naming the field that is missing or not possible.
    """
    domains = ctx.spec.domains
    if not domains:
        return DomainParts()
    _check(domains)
    authorities = _authorities(ctx)
    trust = f"{_FOLDER}/{_TRUST}" if authorities else _IMAGE_AUTHORITIES
    texts = {
        f"keystone.{each.name}.conf": oslo.render(_options(ctx, f"{_PATH}[{index}]", each, trust))
        for index, each in enumerate(domains)
    }
    files = parts.written(ctx, {**texts, **authorities}, suffix="domains", directory=_FOLDER)
    command = agents.python("keystone/make_domains.py", words=[each.name for each in domains])
    # A user has to mend its failures, and should hear of them soon.
    program = parts.ProgramSettings(mounts=mounts, retries=1)
    job = parts.job(ctx, "domains", command, conf, after=after, program=program)
    return DomainParts(
        steps=(files, job),
        mounts=kube.files("domains", files.secret, _FOLDER, *files.files),
        # LDAPTIMEOUT is the option TIMEOUT of libldap, which Keystone sets nowhere.
        env={"DOMAINS_DIGEST": files.digest, "LDAPTIMEOUT": str(_ANSWER_SECONDS)},
    )


def _check(domains: Sequence[Domain]) -> None:
    """Raise the error of the first domain that cannot be made. The API server refuses its name and its login, too, but
    not its options; a plan that is rendered offline does not get there.
    """
    indexes: dict[str, int] = {}
    for index, each in enumerate(domains):
        path, name = f"{_PATH}[{index}]", each.name.lower()
        if name == "default":
            raise SpecError(f"{path}.name", "this domain holds the users of services; choose another name")
        if name in indexes:
            raise SpecError(f"{path}.name", f"{each.name!r} is also the name of entry {indexes[name]}; rename one")
        indexes[name] = index
        if (each.ldap.bind_dn is None) != (each.ldap.bind_password_secret_ref is None):
            raise SpecError(f"{path}.ldap.bindPasswordSecretRef", "set both this and bindDN, or neither")
        if wrong := sorted(each.config.keys() - set(_SECTIONS)):
            text = "Keystone reads only ldap and identity for a domain; move it to spec.config, or remove it"
            raise OptionsError(f"{path}.config.{wrong[0]}", text)


def _authorities(ctx: Context[KeystoneSpec]) -> dict[str, str]:
    """Return the file by which Keystone verifies all directories, since libldap has one for all of a process; none if
    it is that of the image.
    """
    refs = [each.ldap.ca_secret_ref for each in ctx.spec.domains]
    if not any(refs):
        return {}
    texts: dict[str, None] = {}
    for index, ref in enumerate(refs):
        path = f"{_PATH}[{index}].ldap.caSecretRef"
        if ref is None:
            text = "Keystone uses one CA file for all domains, and another domain sets it; set it here, too"
            raise SpecError(path, text)
        if not (text := ctx.secrets.get(ref.name, {}).get("ca.crt", "").strip()):
            raise MissingReference(path, f"Secret {ref.name!r} has no key 'ca.crt'")
        texts[text] = None
    return {_TRUST: "".join(chain.from_iterable((text, "\n") for text in texts))}


def _options(ctx: Context[KeystoneSpec], path: str, domain: Domain, trust: str) -> Sections:
    """Return the options of a domain."""
    ldap = domain.ldap
    directory = {
        "url": ldap.url,
        "use_tls": not ldap.url.startswith("ldaps:"),
        "tls_cacertfile": trust,
        "tls_req_cert": "demand",
        "user": oslo.Verbatim(ldap.bind_dn or ""),
        "password": oslo.Verbatim(_password(ctx, ldap)),
        "user_tree_dn": oslo.Verbatim(ldap.user_tree_dn),
        **({"group_tree_dn": oslo.Verbatim(ldap.group_tree_dn)} if ldap.group_tree_dn else {}),
    }
    fixed: Sections = {"identity": {"driver": "ldap"}, "ldap": directory}
    return layered(_DEFAULTS, domain.config, fixed, f"{path}.config", catalog=known_options(ctx))


def _password(ctx: Context[KeystoneSpec], ldap: LDAP) -> str:
    ref = ldap.bind_password_secret_ref
    return ctx.secrets[ref.name][ref.key] if ref else ""

"""Users of other identity providers: the programs between them and Keystone, and the providers in Keystone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .... import kube, oslo, parts
from ....api import SecretFileRef, Sections
from ....parts.expose import exposure
from ....parts.run.workloads import ReverseProxy
from ....plan import Context, Incomplete, MissingReference, SpecError, Step, UnsupportedError
from ..model import KeystoneSpec
from . import apache, shibboleth
from .model import Federation, IdentityProvider

_PATH = "spec.federation"
_COMPONENT = "keystone-federation"
_METHODS = ("password", "token", "oauth1", "application_credential", "mapped")
"""Keystone's own, without `external`: it would believe the name of a user (REMOTE_USER) without a mapping."""


@dataclass(frozen=True, kw_only=True)
class FederationParts:
    """The parts of a Keystone for federation; empty if federation is off."""

    steps: tuple[Step, ...] = ()
    fixed_options: Sections = field(default_factory=dict[str, dict[str, Any]])
    defaults: Sections = field(default_factory=dict[str, dict[str, Any]])
    pod_extras: parts.ProgramSettings = field(default_factory=parts.ProgramSettings)
    """Additions to Keystone's pods."""
    providers: Sequence[kube.Object] = ()
    """Resources that make the providers, once Keystone answers."""
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contract for dashboards, as JSON: the identity providers, and the dashboards that get tokens."""

    def provider_steps(self, after: Sequence[Step]) -> tuple[Step, ...]:
        """Return the step of the providers in Keystone."""
        if not self.providers:
            return ()
        return (Step(name="IdentityProviders", objects=tuple(self.providers), after=tuple(after)),)


def federation_parts(ctx: Context[KeystoneSpec]) -> FederationParts:
    """Return Apache with the modules that speak to identity providers, in Keystone's pods, and for each provider a
    KeystoneIdentityProvider `<owner>-idp-<name>`. Raise SpecError naming the field that is missing or not possible, and
    UnsupportedError if the images have no such Apache.
    """
    spec = ctx.spec.federation
    if not spec.enabled:
        return FederationParts()
    if _COMPONENT not in ctx.release:
        message = f"the images of profile {ctx.release.profile!r} have none of it; use imageProfile debian, or false"
        raise UnsupportedError(f"{_PATH}.enabled", message)
    _check(ctx, spec)
    keys = parts.credentials(ctx, "passphrase", "sealer", suffix="federation-keys")
    conf = parts.written(ctx, _files(ctx, spec, keys), suffix="federation", directory=apache.FOLDER)
    return FederationParts(
        steps=(keys, conf),
        fixed_options=_fixed_options(spec),
        defaults={"auth": {"methods": ",".join(_methods(spec))}},
        pod_extras=_pod_extras(ctx, spec, conf),
        providers=[_provider(ctx, index, each) for index, each in enumerate(spec.identity_providers)],
        published={"federation": _contract(spec)},
    )


def _contract(spec: Federation) -> str:
    providers = [
        {"name": each.name, "protocol": each.protocol, "label": each.description or each.name}
        for each in spec.identity_providers
    ]
    return json.dumps({"providers": providers, "dashboards": spec.trusted_dashboards}, sort_keys=True)


def _check(ctx: Context[KeystoneSpec], spec: Federation) -> None:
    """Raise the errors that the API server reports first; a plan that is rendered offline does not get there."""
    if not spec.identity_providers:
        raise SpecError(f"{_PATH}.identityProviders", "federation needs an identity provider; add one, or disable it")
    indexes: dict[str, int] = {}
    for index, each in enumerate(spec.identity_providers):
        path = f"{_PATH}.identityProviders[{index}]"
        if each.name in indexes:
            raise SpecError(f"{path}.name", f"{each.name!r} is also the name of entry {indexes[each.name]}; rename one")
        indexes[each.name] = index
        for protocol, how in (("openid", each.openid), ("saml2", each.saml2)):
            if (each.protocol == protocol) != (how is not None):
                raise SpecError(f"{path}.{protocol}", f"this field goes with protocol {protocol}; set both, or neither")
        for number, rule in enumerate(each.mapping):
            for name in _variables(rule):
                if name.upper().startswith("HTTP_"):
                    message = f"clients can forge {name!r}; use OIDC- and the name of a claim"
                    raise SpecError(f"{path}.mapping[{number}].remote", message)
    methods = ctx.spec.config.get("auth", {}).get("methods")
    listed = [word.strip() for word in methods.split(",")] if isinstance(methods, str) else methods or ()
    if methods and (missing := sorted(set(_methods(spec)[len(_METHODS) :]) - {str(word) for word in listed})):
        raise SpecError("spec.config.auth.methods", f"federation needs {', '.join(missing)}; add it, or disable it")


def _variables(rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables that a rule of a mapping reads."""
    for remote in rule.get("remote") or ():
        if isinstance(remote, dict) and isinstance(name := remote.get("type"), str):
            yield name


def _methods(spec: Federation) -> list[str]:
    return [*_METHODS, *sorted({each.protocol for each in spec.identity_providers})]


def _fixed_options(spec: Federation) -> Sections:
    protocols = {each.protocol for each in spec.identity_providers}
    attributes: Sections = {name: {"remote_id_attribute": apache.REMOTE_ID[name]} for name in sorted(protocols)}
    dashboards = {"federation": {"trusted_dashboard": list(spec.trusted_dashboards)}} if spec.trusted_dashboards else {}
    return oslo.merge(attributes, dashboards)


def _url(ctx: Context[KeystoneSpec]) -> str:
    """Return the URL of Keystone for browsers; the one inside the cluster as long as the public one is unknown."""
    scheme = "https" if ctx.spec.tls else "http"
    public = exposure.public_url(ctx, "api", 5000, ctx.spec.expose, scheme)
    return public or f"{scheme}://{ctx.host(ctx.name('api'))}:5000"


def _files(ctx: Context[KeystoneSpec], spec: Federation, keys: parts.Credentials) -> dict[str, str]:
    """Return the files of Apache and shibd, which only they mount, since some hold secrets."""
    providers, url = spec.identity_providers, _url(ctx)
    variables = {name for each in providers for rule in each.mapping for name in _variables(rule)}
    variables |= {each.remote_id_attribute or apache.REMOTE_ID[each.protocol] for each in providers}
    proxied = ctx.spec.tls is not None or exposure.through_proxy(ctx.spec.expose)
    refs = {each.name: each.openid.client_secret_ref for each in providers if each.openid}
    secrets = {name: ctx.secrets[ref.name][ref.key] for name, ref in refs.items()}
    files = {
        "apache2.conf": apache.conf(providers, url=url, proxied=proxied, variables=variables, secrets=secrets),
        "passphrase": keys["passphrase"],
        **{f"client-secret-{name}": secret for name, secret in secrets.items()},
    }
    for index, each in enumerate(providers):
        path = f"{_PATH}.identityProviders[{index}]"
        if "${" in secrets.get(each.name, ""):
            message = "the secret contains ${, which Apache reads as a variable; create another secret at the provider"
            raise SpecError(f"{path}.openid.clientSecretRef", message)
        if each.ca_secret_ref:
            files[f"ca-{each.name}.crt"] = _file(ctx, each.ca_secret_ref, f"{path}.caSecretRef")
        if each.saml2 and (ref := each.saml2.metadata_secret_ref):
            path = f"{path}.saml2.metadataSecretRef"
            files[f"metadata-{each.name}.xml"] = _file(ctx, ref, path)
        if each.saml2 and (ref := each.saml2.metadata_certificate_secret_ref):
            signer = f"{_PATH}.identityProviders[{index}].saml2.metadataCertificateSecretRef"
            files[f"metadata-{each.name}.crt"] = _file(ctx, ref, signer)
    return files | (_saml(ctx, spec, url, keys["sealer"]) if any(each.saml2 for each in providers) else {})


def _saml(ctx: Context[KeystoneSpec], spec: Federation, url: str, sealer: str) -> dict[str, str]:
    party = spec.service_provider
    pair: dict[str, str] = {}
    if ref := party.key_pair_secret_ref:
        path = f"{_PATH}.serviceProvider.keyPairSecretRef"
        for name, key in (("sp.crt", "tls.crt"), ("sp.key", "tls.key")):
            pair[name] = _file(ctx, SecretFileRef(name=ref.name, key=key), path, may_be_key=True)
    entity = party.entity_id or f"{url}/shibboleth"
    files = shibboleth.files(spec.identity_providers, url=url, entity_id=entity, sealer=sealer, signs=bool(pair))
    return {**files, **pair}


def _file(ctx: Context[KeystoneSpec], ref: SecretFileRef, path: str, *, may_be_key: bool = False) -> str:
    """Return a file of a Secret. Raise MissingReference if it does not exist, Incomplete if it has a private key, which
    pods of an image that the user chooses could read: it may be one of the operator's own.
    """
    key = ref.file_key
    if not (text := ctx.secrets.get(ref.name, {}).get(key)):
        raise MissingReference(f"{path}.key", f"Secret {ref.name!r} has no key {key!r}")
    if "PRIVATE KEY" in text and not may_be_key:
        raise Incomplete(
            f"{path}.key", f"{key!r} of Secret {ref.name!r} has a private key; use a file with certificates only"
        )
    return text


def _pod_extras(ctx: Context[KeystoneSpec], spec: Federation, conf: parts.Config) -> parts.ProgramSettings:
    """Return Apache, between Keystone and its clients or their TLS proxy, and shibd if a provider speaks SAML."""
    # In Keystone's group, so that the pod has one for its volumes.
    entry = replace(ctx.release[_COMPONENT], gid=parts.release_entry(ctx, "api").gid)
    files = kube.files("federation", conf.secret, apache.FOLDER, *conf.files)
    mounts = (*files, *kube.scratch("/tmp", apache.RUN))  # noqa: S108
    # Its configuration is in another Secret than Keystone's, which pods follow only by their template.
    env = {"CONFIG_DIGEST": conf.digest}
    httpd = kube.Container(entry=entry, name="federation", env=env, mounts=mounts, memory="48Mi")
    shibd = kube.Container(
        entry=entry, name="shibd", command=entry.commands["shibd"], env=env, mounts=mounts, memory="48Mi"
    )
    saml = any(each.saml2 for each in spec.identity_providers)
    return parts.ProgramSettings(
        containers=(shibd,) if saml else (),
        reverse_proxy=ReverseProxy(container=httpd, command="behind", to=apache.KEYSTONE),
    )


def _provider(ctx: Context[KeystoneSpec], index: int, provider: IdentityProvider) -> kube.Object:
    """Return KeystoneIdentityProvider `<owner>-idp-<name>`."""
    resource = parts.remote(
        ctx,
        "KeystoneIdentityProvider",
        ctx.name("idp", provider.name),
        {
            "keystoneRef": {"name": ctx.owner},
            "name": provider.name,
            "description": provider.description or None,
            "domain": provider.domain,
            "remoteIDs": [provider.remote_id],
            "protocol": provider.protocol,
            "remoteIDAttribute": provider.remote_id_attribute,
            "mapping": list(provider.mapping),
            "deletionPolicy": provider.retention,
        },
    )
    return kube.annotated(resource, {kube.FIELD: f"{_PATH}.identityProviders[{index}]"})

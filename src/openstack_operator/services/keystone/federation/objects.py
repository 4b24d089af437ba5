"""Users of other identity providers: what stands between them and Keystone, and what Keystone is told of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .... import kube, oslo, parts
from ....api import SecretFileRef, Sections
from ....plan import Context, MissingReference, NotBuilt, SpecError, Step
from ..model import KeystoneSpec
from . import apache, shibboleth
from .model import Federation, IdentityProvider

_PATH = "spec.federation"
_COMPONENT = "keystone-federation"
_METHODS = ("password", "token", "oauth1", "application_credential", "mapped")
"""Keystone's own, without `external`: it would believe the name of a user (REMOTE_USER) without a mapping."""


@dataclass(frozen=True, kw_only=True)
class Federated:
    """What a Keystone has of it; nothing where federation is off."""

    steps: tuple[Step, ...] = ()
    wired: Sections = field(default_factory=dict[str, dict[str, Any]])
    defaults: Sections = field(default_factory=dict[str, dict[str, Any]])
    more: parts.More = field(default_factory=parts.More)
    """Of Keystone's pods."""
    providers: Sequence[kube.Object] = ()
    """What Keystone is told, once it answers."""

    def told(self, after: Sequence[Step]) -> tuple[Step, ...]:
        """The providers in Keystone."""
        if not self.providers:
            return ()
        return (Step(name="IdentityProviders", objects=tuple(self.providers), after=tuple(after)),)


def federated(ctx: Context[KeystoneSpec]) -> Federated:
    """Apache with the modules that speak to identity providers, in Keystone's pods, and KeystoneIdentityProvider
    `<owner>-idp-<name>` each. Raises SpecError naming the field where something in it cannot be, or is missing, and
    NotBuilt where the images have no such Apache.
    """
    spec = ctx.spec.federation
    if not spec.enabled:
        return Federated()
    if _COMPONENT not in ctx.release:
        message = f"the images of profile {ctx.release.profile!r} have none of it; use imageProfile debian, or false"
        raise NotBuilt(f"{_PATH}.enabled", message)
    _check(ctx, spec)
    drawn = parts.credentials(ctx, "passphrase", "sealer", suffix="federation-keys")
    conf = parts.written(ctx, _files(ctx, spec, drawn), suffix="federation", directory=apache.FOLDER)
    return Federated(
        steps=(drawn, conf),
        wired=_wired(spec),
        defaults={"auth": {"methods": ",".join(_methods(spec))}},
        more=_beside(ctx, spec, conf),
        providers=[_provider(ctx, index, each) for index, each in enumerate(spec.identity_providers)],
    )


def _check(ctx: Context[KeystoneSpec], spec: Federation) -> None:
    """What the API server says first; it is not asked by who looks at a plan on paper."""
    if not spec.identity_providers:
        raise SpecError(f"{_PATH}.identityProviders", "there is nobody to let in; add a provider, or turn it off")
    seen: dict[str, int] = {}
    for index, each in enumerate(spec.identity_providers):
        path = f"{_PATH}.identityProviders[{index}]"
        if each.name in seen:
            raise SpecError(f"{path}.name", f"{each.name!r} is also that of number {seen[each.name]}; rename one")
        seen[each.name] = index
        for protocol, how in (("openid", each.openid), ("saml2", each.saml2)):
            if (each.protocol == protocol) != (how is not None):
                raise SpecError(f"{path}.{protocol}", f"set it with protocol {protocol}, and only then")
        for number, rule in enumerate(each.mapping):
            for name in _read(rule):
                if name.upper().startswith("HTTP_"):
                    message = f"{name!r} is what a client sends; a claim of OpenID Connect is OIDC- and its name"
                    raise SpecError(f"{path}.mapping[{number}].remote", message)
    methods = ctx.spec.config.get("auth", {}).get("methods")
    listed = [word.strip() for word in methods.split(",")] if isinstance(methods, str) else methods or ()
    if methods and (missing := sorted(set(_methods(spec)[len(_METHODS) :]) - {str(word) for word in listed})):
        raise SpecError("spec.config.auth.methods", f"federation needs {', '.join(missing)}; add it, or leave it out")


def _read(rule: Mapping[str, Any]) -> Iterator[str]:
    """Variables that a rule of a mapping reads."""
    for remote in rule.get("remote") or ():
        if isinstance(remote, dict) and isinstance(name := remote.get("type"), str):
            yield name


def _methods(spec: Federation) -> list[str]:
    return [*_METHODS, *sorted({each.protocol for each in spec.identity_providers})]


def _wired(spec: Federation) -> Sections:
    protocols = {each.protocol for each in spec.identity_providers}
    found: Sections = {name: {"remote_id_attribute": apache.REMOTE_ID[name]} for name in sorted(protocols)}
    trusted = {"federation": {"trusted_dashboard": list(spec.trusted_dashboards)}} if spec.trusted_dashboards else {}
    return oslo.merge(found, trusted)


def _url(ctx: Context[KeystoneSpec]) -> str:
    """Where browsers find Keystone; inside of the cluster, as long as it is not known where outside."""
    scheme = "https" if ctx.spec.tls else "http"
    outside = parts.public_url(ctx, "api", 5000, ctx.spec.expose, scheme)
    return outside or f"{scheme}://{ctx.host(ctx.name('api'))}:5000"


def _files(ctx: Context[KeystoneSpec], spec: Federation, drawn: parts.Credentials) -> dict[str, str]:
    """What Apache and shibd read; secrets among them, in files that they alone mount."""
    providers, url = spec.identity_providers, _url(ctx)
    read = {name for each in providers for rule in each.mapping for name in _read(rule)}
    read |= {each.remote_id_attribute or apache.REMOTE_ID[each.protocol] for each in providers}
    believed = ctx.spec.tls is not None or parts.through_proxy(ctx.spec.expose)
    refs = {each.name: each.openid.client_secret_ref for each in providers if each.openid}
    secrets = {name: ctx.secrets[ref.name][ref.key] for name, ref in refs.items()}
    made = {
        "apache2.conf": apache.conf(providers, url=url, believed=believed, read=read, secrets=secrets),
        "passphrase": drawn["passphrase"],
        **{f"client-secret-{name}": secret for name, secret in secrets.items()},
    }
    for index, each in enumerate(providers):
        path = f"{_PATH}.identityProviders[{index}]"
        if "${" in secrets.get(each.name, ""):
            message = "the secret has a ${ in it, which Apache takes for a variable; have the provider make another one"
            raise SpecError(f"{path}.openid.clientSecretRef", message)
        if each.ca_secret_ref:
            made[f"ca-{each.name}.crt"] = _file(ctx, each.ca_secret_ref, "ca.crt", f"{path}.caSecretRef")
        if each.saml2 and (ref := each.saml2.metadata_secret_ref):
            path = f"{path}.saml2.metadataSecretRef"
            made[f"metadata-{each.name}.xml"] = _file(ctx, ref, "metadata.xml", path)
        if each.saml2 and (ref := each.saml2.metadata_certificate_secret_ref):
            signer = f"{_PATH}.identityProviders[{index}].saml2.metadataCertificateSecretRef"
            made[f"metadata-{each.name}.crt"] = _file(ctx, ref, "tls.crt", signer)
    return made | (_saml(ctx, spec, url, drawn["sealer"]) if any(each.saml2 for each in providers) else {})


def _saml(ctx: Context[KeystoneSpec], spec: Federation, url: str, sealer: str) -> dict[str, str]:
    own = spec.service_provider
    pair: dict[str, str] = {}
    if ref := own.key_pair_secret_ref:
        path = f"{_PATH}.serviceProvider.keyPairSecretRef"
        for name, key in (("sp.crt", "tls.crt"), ("sp.key", "tls.key")):
            pair[name] = _file(ctx, SecretFileRef(name=ref.name, key=key), key, path)
    entity = own.entity_id or f"{url}/shibboleth"
    told = shibboleth.files(spec.identity_providers, url=url, entity_id=entity, sealer=sealer, signs=bool(pair))
    return {**told, **pair}


def _file(ctx: Context[KeystoneSpec], ref: SecretFileRef, usual: str, path: str) -> str:
    """A file of a Secret. Raises MissingReference where it is not there."""
    key = ref.key or usual
    if not (text := ctx.secrets.get(ref.name, {}).get(key)):
        raise MissingReference(f"{path}.key", f"Secret {ref.name!r} has no key {key!r}")
    return text


def _beside(ctx: Context[KeystoneSpec], spec: Federation, conf: parts.Config) -> parts.More:
    """Apache, to which Keystone's clients or their front come first, and shibd where SAML is spoken."""
    # In Keystone's group, so that the pod has one for its volumes.
    entry = replace(ctx.release[_COMPONENT], gid=parts.program(ctx, "api").gid)
    files = kube.files("federation", conf.secret, apache.FOLDER, *conf.files)
    mounts = (*files, *kube.scratch("/tmp", apache.RUN))  # noqa: S108
    # Its configuration has another Secret than Keystone's, and pods follow that by their template alone.
    env = {"CONFIG_DIGEST": conf.digest}
    first = kube.Container(component=entry, name="federation", env=env, mounts=mounts, memory="48Mi")
    beside = kube.Container(
        component=entry, name="shibd", command=entry.commands["shibd"], env=env, mounts=mounts, memory="48Mi"
    )
    saml = any(each.saml2 for each in spec.identity_providers)
    return parts.More(
        containers=(beside,) if saml else (), first=parts.First(container=first, command="behind", to=apache.KEYSTONE)
    )


def _provider(ctx: Context[KeystoneSpec], index: int, provider: IdentityProvider) -> kube.Object:
    """KeystoneIdentityProvider `<owner>-idp-<name>`."""
    wanted = parts.remote(
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
    return kube.annotated(wanted, {kube.FIELD: f"{_PATH}.identityProviders[{index}]"})

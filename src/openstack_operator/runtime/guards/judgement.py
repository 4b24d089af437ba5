"""Faults of a spec beside its Secrets and permissions, judged in one way for a resource in a cluster and for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ... import pki
from ...api import ClientSecretRef, Model, SecretKeyRef, whole_secrets
from ...kube import secret_data
from ...plan import Permissions
from ..cache.entries import Cached
from ..plain_text import plain_text
from .permits import faults_of_destinations
from .scheduling import anti_affinity_faults, priority_class_faults

_PEM = (
    "store the whole PEM text, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, with"
    " `kubectl create secret generic --from-file`"
)


class Fault(NamedTuple):
    """A field that the operator refuses."""

    path: str
    text: str
    is_permission: bool = False
    """True if the administrator of the operator may allow it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def spec_faults(
    spec: Model, secrets: Mapping[str, Cached], namespace: str, domain: str, permissions: Permissions
) -> Iterator[Fault]:
    """Yield what the operator refuses of a spec; `secrets` are those that it names, as far as they are known."""
    data = {name: secret_data(each.decode()) for name, each in secrets.items()}
    for path, text in faults_of_destinations(spec, secrets):
        yield Fault(path, text)
    yield from _certificate_faults(spec, data)
    for path, text in plain_text(spec, data, namespace, domain, permissions):
        yield Fault(path, text, is_permission=True)
    for path, text in anti_affinity_faults(spec, namespace):
        yield Fault(path, text)
    for path, text in priority_class_faults(spec, namespace, permissions):
        yield Fault(path, text, is_permission=True)


def _certificate_faults(spec: Model, data: Mapping[str, Mapping[str, str]]) -> Iterator[Fault]:
    """Yield each Secret that has no certificate where the field that names it expects some. A server that they are to
    verify would be out of reach, and its client would say no more than that.
    """
    for path, ref in whole_secrets(spec):
        files = data.get(ref.name, {})
        for key in sorted(ref.certificate_keys & files.keys()):
            # A program that issues certificates leaves ca.crt empty if it hands out no authority.
            is_unset = isinstance(ref, ClientSecretRef) and not files[key].strip()
            if not is_unset and not pki.split(files[key]):
                text = f"{key!r} of Secret {ref.name!r} is not PEM, or has an unreadable certificate"
                yield Fault(f"{path}{ref.field}", f"{text}; {_PEM}")


def key_fault(path: str, ref: SecretKeyRef, data: Mapping[str, str]) -> Fault | None:
    """Return why the key of a Secret is no password; None if it is one."""
    if (value := data.get(ref.key)) is None:
        return Fault(f"{path}.key", f"Secret {ref.name!r} has no key {ref.key!r}")
    if not value.isprintable():
        text = f"{ref.key!r} of Secret {ref.name!r} must be a single line"
        advice = "; remove the final line break (printf, not echo)" if value[:-1].isprintable() else ""
        return Fault(f"{path}.key", f"{text}{advice}")
    return None

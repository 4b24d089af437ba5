"""Annotations and labels that users add to pods."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..api import UsesPodExtras
from ..plan import Context, SpecError

_PART = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = re.compile(f"(?:({_DOMAIN})/)?{_PART}")
_LABEL_VALUE = re.compile(f"({_PART})?")

_OPERATOR_DOMAINS = re.compile(r"(.+\.)?(openstack\.k8s\.io|c5c3\.io)|app\.kubernetes\.io")
_CONTROLLERS = re.compile(
    r"(pod-template-hash|controller-revision-hash|pod-template-generation|controller-uid|job-name)"
    r"|((batch|apps|statefulset)\.kubernetes\.io|.*deployment\.kubernetes\.io)/.*"
)
# What lifts the confinement of a container, in annotations that kubelets and runtimes read.
_CONFINEMENT = re.compile(
    r"(container\.)?(apparmor\.security\.beta|seccomp\.security\.(alpha|beta))\.kubernetes\.io/.*"
    r"|security\.(alpha|beta)\.kubernetes\.io/.*"
    r"|(.+\.)?cdi\.k8s\.io/.*"
    r"|(io\.kubernetes\.(cri|cri-o)|io\.containerd|io\.katacontainers|io\.crun|run\.oci|org\.systemd|org\.criu)[./].*"
)
_INJECT, _INJECTORS = "inject", frozenset({"injection", "injector"})
"""Words in the names with which injectors leave out a pod: the one anywhere, each of the others at the end."""
_LEFT_OUT = frozenset({"false", "disabled", "no", "off"})
"""Values with which they do so."""
_HARMLESS = re.compile(
    r"prometheus\.io/(scrape|port|path|scheme)"
    r"|(cluster-autoscaler\.kubernetes\.io/safe-to-evict|karpenter\.sh/do-not-(disrupt|evict))"
    r"|kubectl\.kubernetes\.io/(default-container|default-logs-container|restartedAt)"
    r"|kubernetes\.io/((ingress|egress)-bandwidth|description)"
    r"|backup\.velero\.io/backup-volumes(-excludes)?"
    r"|fluentbit\.io/(exclude|parser)|co\.elastic\.logs/enabled"
    # Names without a domain are notes of users; runtimes have dots in theirs.
    r"|[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?"
)
"""Annotations that every user may write: none names a program, a volume, a network or a user."""


def check_name(path: str, name: str) -> None:
    """Raise SpecError for a name that Kubernetes takes for no annotation or label, and for one of the operator."""
    if not (match := _NAME.fullmatch(name)):
        raise SpecError(path, "not a name of an annotation or a label; write one such as team or example.org/team")
    if (domain := match[1]) and _OPERATOR_DOMAINS.fullmatch(domain):
        raise SpecError(path, f"the prefix {domain} is reserved for the operator; remove it")


def pod_annotations(ctx: Context[Any]) -> Mapping[str, str]:
    """Return the annotations that the spec adds to pods. Raises SpecError for one that not every user may write."""
    spec = ctx.spec
    if not isinstance(spec, UsesPodExtras):
        return {}
    for name, value in spec.pod_annotations.items():
        path = f"spec.podAnnotations.{name}"
        check_name(path, name)
        if _CONFINEMENT.fullmatch(name):
            raise SpecError(path, "it changes the rights of a container on its node; remove it")
        if not (_HARMLESS.fullmatch(name) or _opts_out(name, value)):
            reason = "a webhook or runtime may act on it with more rights than you have"
            ctx.permissions.check_pod_metadata(path, ctx.namespace, name, reason)
    return spec.pod_annotations


def pod_labels(ctx: Context[Any], reserved: Collection[str]) -> Mapping[str, str]:
    """Return the labels that the spec adds to pods. Raises SpecError for one of the operator's `reserved` ones, and for
    one that not every user may write.
    """
    spec = ctx.spec
    if not isinstance(spec, UsesPodExtras):
        return {}
    for name, value in spec.pod_labels.items():
        path = f"spec.podLabels.{name}"
        check_name(path, name)
        if name in reserved or _CONTROLLERS.fullmatch(name):
            raise SpecError(path, "the operator or Kubernetes sets this label itself; remove it")
        if not _LABEL_VALUE.fullmatch(value):
            raise SpecError(path, "not a value of a label; use at most 63 letters, digits, dashes, dots, underscores")
        if not _opts_out(name, value):
            reason = "Services, NetworkPolicies, disruption budgets and webhooks may select pods by it"
            ctx.permissions.check_pod_metadata(path, ctx.namespace, name, reason)
    return spec.pod_labels


def _opts_out(name: str, value: str) -> bool:
    domain, _, last = name.rpartition("/")
    words = last.split("-")
    return bool(domain) and (_INJECT in words or words[-1] in _INJECTORS) and value.lower() in _LEFT_OUT

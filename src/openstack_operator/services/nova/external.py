"""The scheduler's options where an external one has the last word: our image's plug-in, and its place as the last."""

from __future__ import annotations

from typing import Any

from ... import kube, oslo, parts
from ...api import Sections
from ...parts.connect import sources
from ...parts.secrets.tls import trust_of
from ...plan import Context, MissingReference, UnsupportedError
from . import config
from .model import ExternalScheduler, NovaSpec

PATH = "/scheduler/nova/external"
_FIELD = "spec.scheduler.externalScheduler"
_TRUST = "/etc/openstack-external-scheduler"
_PLUGIN = "nova_external_scheduler"
_GROUPS = "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
_LISTS = {
    "enabled_filters": (
        f"ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,{_GROUPS}",
        "ExternalSchedulerFilter",
    ),
    "weight_classes": ("nova.scheduler.weights.all_weighers", f"{_PLUGIN}.ExternalSchedulerWeigher"),
}
"""Lists in [filter_scheduler]: Nova's default, and the entry of the plug-in, which is the last."""


def scheduler(
    ctx: Context[NovaSpec], conf: parts.Config, fixed_options: Sections, remark: str, user: sources.Identity
) -> parts.Config:
    """Return the scheduler's configuration: `conf`, that of all, or, where Nova asks another scheduler, a Secret
    `<owner>-scheduler-config` of its own, of `fixed_options`, with the `remark` behind it. Raises
    UnsupportedError for images without the plug-in, MissingReference for a Secret without `ca.crt`.
    """
    external = ctx.spec.scheduler.external_scheduler
    if external is None or not external.enabled:
        return conf
    if ctx.spec.image_profile != "debian":
        message = "kolla's images lack the plug-in for Nova; use false, or imageProfile debian"
        raise UnsupportedError(f"{_FIELD}.enabled", message)
    cortex = ctx.refs.get(external.cortex_ref) if external.cortex_ref else None
    published = cortex.published if cortex else {}
    endpoint = external.endpoint or published.get("internalURL", "")
    if not endpoint:
        return conf
    trust = _trust(ctx, external)
    cafile = f"{_TRUST}/ca.crt" if trust else trust_of(published) if cortex else user.trust.get("cafile", "")
    plugin = {
        "url": endpoint.rstrip("/") + PATH,
        "timeout": _seconds(external.timeout),
        "pipeline": external.pipeline,
        "pause_after_failure": _seconds(external.pause_after_failure),
        **({"cafile": cafile} if cafile and endpoint.startswith("https:") else {}),
    }
    order = {"host_subset_size": 1, "shuffle_best_same_weighed_hosts": False}
    merged = oslo.merge(fixed_options, {"external_scheduler": plugin, "filter_scheduler": order})
    sections = parts.options(ctx, merged, defaults=config.DEFAULTS)
    text = oslo.render(oslo.merge(sections, {"filter_scheduler": _lists(ctx)})) + remark
    files = {"nova.conf": text, **parts.policy_files(ctx, config.POLICIES)}
    return parts.written(ctx, files, suffix="scheduler-config", directory=conf.directory, extra_mounts=trust)


def _trust(ctx: Context[NovaSpec], external: ExternalScheduler) -> list[kube.Mount]:
    """Return the mount of the user's authorities, and nothing else of that Secret; its changes are followed."""
    if external.ca_secret_ref is None:
        return []
    name = external.ca_secret_ref.name
    if "ca.crt" not in ctx.secrets.get(name, {}):
        raise MissingReference(f"{_FIELD}.caSecretRef", f"Secret {name!r} has no key 'ca.crt'")
    source = {"secretName": name, "defaultMode": 0o440, "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return [kube.Mount(name="external-scheduler", path=_TRUST, volume={"secret": source}, read_only=True)]


def _lists(ctx: Context[NovaSpec]) -> dict[str, Any]:
    """Return the lists of filters and weighers, Nova's or the user's, with those of the plug-in at their end."""
    options = ctx.spec.config.get("filter_scheduler", {})
    available = options.get("available_filters", "nova.scheduler.filters.all_filters")
    return {
        "available_filters": [*_entries(available), f"{_PLUGIN}.ExternalSchedulerFilter"],
        **{name: ",".join([*_entries(options.get(name, usual)), last]) for name, (usual, last) in _LISTS.items()},
    }


def _entries(value: Any) -> list[str]:
    return [str(entry) for entry in value] if isinstance(value, list) else [str(value)]


def _seconds(text: str) -> int:
    return int(text[:-1]) * (60 if text.endswith("m") else 1)

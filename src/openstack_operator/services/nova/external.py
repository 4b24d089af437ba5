"""The scheduler's options where another one has the last word: those of our image's plug-in, and that it comes last."""

from __future__ import annotations

from typing import Any

from ... import kube, oslo, parts
from ...api import Sections
from ...plan import Context, MissingReference, NotBuilt
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
"""Of [filter_scheduler], with what Nova has by default, and who comes last."""


def scheduler(
    ctx: Context[NovaSpec], conf: parts.Config, wired: Sections, remark: str, user: parts.Identity
) -> parts.Config:
    """The scheduler's configuration: `conf`, that of all, or, where another scheduler is asked, a Secret
    `<owner>-scheduler-config` of its own, of what is `wired`, with the `remark` behind it. Raises NotBuilt for images
    without the plug-in, MissingReference for a Secret without `ca.crt`.
    """
    wanted = ctx.spec.scheduler.external_scheduler
    if wanted is None or not wanted.enabled:
        return conf
    if ctx.spec.image_profile != "debian":
        message = "kolla's images lack the plug-in by which Nova asks; use false, or imageProfile debian"
        raise NotBuilt(f"{_FIELD}.enabled", message)
    cortex = ctx.refs.get(wanted.cortex_ref) if wanted.cortex_ref else None
    published = cortex.published if cortex else {}
    endpoint = wanted.endpoint or published.get("internalURL", "")
    if not endpoint:
        return conf
    trust = _trust(ctx, wanted)
    cafile = f"{_TRUST}/ca.crt" if trust else parts.trust_of(published) if cortex else user.trust.get("cafile", "")
    asked = {
        "url": endpoint.rstrip("/") + PATH,
        "timeout": _seconds(wanted.timeout),
        "pipeline": wanted.pipeline,
        "pause_after_failure": _seconds(wanted.pause_after_failure),
        **({"cafile": cafile} if cafile and endpoint.startswith("https:") else {}),
    }
    order = {"host_subset_size": 1, "shuffle_best_same_weighed_hosts": False}
    sections = parts.options(
        ctx,
        oslo.merge(wired, {"external_scheduler": asked, "filter_scheduler": order}),
        defaults=config.DEFAULTS,
    )
    text = oslo.render(oslo.merge(sections, {"filter_scheduler": _last(ctx)})) + remark
    files = {"nova.conf": text, **config.POLICY}
    return parts.written(ctx, files, suffix="scheduler-config", directory=conf.directory, beside=trust)


def _trust(ctx: Context[NovaSpec], wanted: ExternalScheduler) -> list[kube.Mount]:
    """The user's authorities, and nothing else of that Secret; what becomes of them is followed."""
    if wanted.ca_secret_ref is None:
        return []
    name = wanted.ca_secret_ref.name
    if "ca.crt" not in ctx.secrets.get(name, {}):
        raise MissingReference(f"{_FIELD}.caSecretRef", f"Secret {name!r} has no key 'ca.crt'")
    source = {"secretName": name, "defaultMode": 0o440, "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return [kube.Mount(name="external-scheduler", path=_TRUST, volume={"secret": source}, read_only=True)]


def _last(ctx: Context[NovaSpec]) -> dict[str, Any]:
    """The lists of filters and weighers, Nova's or the user's, with those of the plug-in at their end."""
    given = ctx.spec.config.get("filter_scheduler", {})
    available = given.get("available_filters", "nova.scheduler.filters.all_filters")
    return {
        "available_filters": [*_entries(available), f"{_PLUGIN}.ExternalSchedulerFilter"],
        **{name: ",".join([*_entries(given.get(name, usual)), own]) for name, (usual, own) in _LISTS.items()},
    }


def _entries(value: Any) -> list[str]:
    return [str(entry) for entry in value] if isinstance(value, list) else [str(value)]


def _seconds(text: str) -> int:
    return int(text[:-1]) * (60 if text.endswith("m") else 1)

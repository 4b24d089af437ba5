"""Field types whose rules the API server enforces: patterns, bounds and CEL with messages that name the fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field

from .model import AS_OBJECT, rule

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""A Kubernetes object name (RFC 1123 subdomain)."""

Replicas = Annotated[int, Field(ge=0, le=32)]
"""Number of pods."""


def validated(*rules: dict[str, Any], **extra: Any) -> Any:
    """Return an annotation that adds CEL rules (and further schema keys) to a field."""
    return Field(json_schema_extra={"x-kubernetes-validations": list(rules), **extra})


def immutable(subject: str) -> dict[str, Any]:
    """Return the CEL rule that a value once set stays."""
    return rule("self == oldSelf", f"{subject} cannot be changed once set; create a new resource instead")


def immutable_optional(field: str, subject: str) -> dict[str, Any]:
    """Return the CEL rule of the object around an optional field: it cannot be changed, set or unset later."""
    return rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{subject} cannot be changed, set or unset later; create a new resource instead",
        f".{field}",
    )


def immutable_presence(field: str, subject: str) -> dict[str, Any]:
    """Return the CEL rule of the object around an optional field: it cannot be set or unset later. Its content has
    other rules.
    """
    return rule(
        f"has(self.{field}) == has(oldSelf.{field})",
        f"{subject} cannot be set or unset later; create a new resource instead",
        f".{field}",
    )


QuorumReplicas = Annotated[
    int,
    Field(ge=1, le=9),
    validated(rule("self % 2 == 1", "an even number of members has no clear majority; use 1, 3 or 5")),
]
"""Members of a cluster that votes; odd."""


def _text(value: Any) -> Any:
    """Return a whole number as text, since YAML reads `cpu: 2` as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([KMGTP]i|[kMGTPm])?$"),
    BeforeValidator(_text),
    validated(
        rule("type(self) == int || isQuantity(self)", "not a quantity; write a number with a unit: 10Gi, 500m"),
        **{"x-kubernetes-int-or-string": True},
    ),
]
"""An amount as Kubernetes writes it: 10Gi, 500m, 2."""

Share = Annotated[
    str,
    Field(max_length=6, pattern=r"^([1-9][0-9]{0,5}|[1-9][0-9]?%|100%)$"),
    BeforeValidator(_text),
    validated(
        rule("type(self) == string || self > 0", "too few; write a number from 1, or a percentage such as 10%"),
        **{"x-kubernetes-int-or-string": True},
    ),
]
"""A number from 1, or a percentage: 3, 10%."""

Measured = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+[KMGTP]i$")]
"""A quantity in a status: 120Gi. It has no rules, whose cost the API server counts for each entry of a list."""

StorageSize = Annotated[
    str,
    Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([KMGTP]i|[kMGTP])?$"),
    validated(
        rule("isQuantity(self)", "not a quantity; write a number with a unit, such as 10Gi"),
        rule(
            "!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0",
            "storage cannot shrink; keep the old size or choose a larger one",
        ),
    ),
]
"""Size of a volume; may grow, never shrink."""

# The grammar of references (github.com/distribution/reference): registry, path, tag, digest.
_REPOSITORY = (
    r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]+)?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)
_TAG, _DIGEST = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", r"sha256:[a-f0-9]{64}"
_IMAGE = f"^{_REPOSITORY}(:{_TAG})?(@{_DIGEST})?$"

_IMAGE_OBJECT: dict[str, Any] = {
    "type": "object",
    "required": ["repository"],
    "properties": {
        "repository": {
            "type": "string",
            "maxLength": 255,
            "pattern": f"^{_REPOSITORY}$",
            "description": "Registry and name.",
        },
        "tag": {"type": "string", "pattern": f"^{_TAG}$", "maxLength": 128, "description": "Tag of the image."},
        "digest": {
            "type": "string",
            "pattern": f"^{_DIGEST}$",
            "maxLength": 71,
            "description": "Digest of the image; with a tag too, the digest decides.",
        },
    },
    "x-kubernetes-validations": [
        rule("has(self.tag) || has(self.digest)", "the repository needs a version; set tag or digest", ".tag")
    ],
}


def _reference(value: Any) -> Any:
    """Return an image as text, in whichever form it was written."""
    if not isinstance(value, Mapping):
        return value
    parts = cast("Mapping[str, str]", value)
    if not parts.get("repository"):
        raise ValueError("an image needs a repository; write {repository: registry/name, tag: …}")
    return "".join(
        mark + str(parts[name]) for name, mark in (("repository", ""), ("tag", ":"), ("digest", "@")) if parts.get(name)
    )


def image_object(text: str) -> dict[str, str]:
    """Return an image as {repository, tag, digest}, with only the parts that were written."""
    rest, _, digest = text.partition("@")
    # A colon before a slash is that of a port.
    repository, colon, tag = rest.rpartition(":")
    parts = {"repository": repository, "tag": tag} if colon and "/" not in tag else {"repository": rest}
    return parts | ({"digest": digest} if digest else {})


Image = Annotated[
    str,
    Field(max_length=512, pattern=_IMAGE),
    BeforeValidator(_reference),
    # Says it in words, since a pattern's own message is the pattern.
    validated(
        rule(
            f"self.matches('{_IMAGE}')",
            (
                "not a container image; write registry/name:tag or registry/name@sha256:digest, with the name in "
                "lower case"
            ),
        ),
        **{AS_OBJECT: _IMAGE_OBJECT},
    ),
]
"""A container image: registry/name:tag or registry/name@sha256:digest; in kinds whose images are objects, {repository,
tag, digest}."""


def _cron(values: str) -> str:
    """Return the pattern of a cron field: values, ranges and steps, separated by commas."""
    entry = f"([*]|({values})(-({values}))?)(/[1-9][0-9]?)?"
    return f"{entry}(,{entry})*"


_MONTHS, _DAYS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC", "MON|TUE|WED|THU|FRI|SAT|SUN"
_CRON = " +".join(
    _cron(values)
    for values in (
        "[0-5]?[0-9]",
        "[01]?[0-9]|2[0-3]",
        "0?[1-9]|[12][0-9]|3[01]|L",
        f"0?[1-9]|1[0-2]|{_MONTHS}",
        f"[0-7]|{_DAYS}",
    )
)

Schedule = Annotated[
    str,
    Field(max_length=100),
    validated(
        rule(
            f"self.matches('^(@(hourly|daily|weekly|monthly)|{_CRON})$')",
            "not a schedule; write five cron fields such as '0 0 * * 0', or @daily, @weekly, @monthly",
        )
    ),
]
"""Schedule as a cron expression in UTC."""

Cidr = Annotated[
    str,
    Field(max_length=43),
    validated(rule("isCIDR(self)", "not a CIDR; write an address and a prefix length, such as 172.24.4.0/24")),
]
"""A network: address/prefix length."""

NodeNetwork = Annotated[
    str,
    Field(max_length=18),
    validated(
        rule(
            "isCIDR(self) && !self.contains(':') && cidr(self).prefixLength() >= 22",
            "not a network of nodes; write one of IPv4 with a prefix of 22 or longer, such as 10.20.0.0/24",
        )
    ),
]
"""A network in which nodes have addresses. Certificates name each address in it."""

InterfaceName = Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""Name of a network interface; Linux stops at 15 characters."""

HostAddress = Annotated[
    str,
    Field(max_length=43),
    validated(
        rule("isCIDR(self)", "not an address with a prefix length; write one such as 172.24.4.1/24"),
        rule(
            "!isCIDR(self) || string(cidr(self).masked()) != self || cidr(self).prefixLength() > 30",
            "is the address of a network; write the address of a host, such as 172.24.4.1/24",
        ),
    ),
]
"""An address of a host and the length of its network's prefix."""

Address = Annotated[
    str,
    Field(max_length=45),
    validated(rule("isIP(self)", "not an IP address; write one such as 192.0.2.10")),
]
"""An IP address."""

PhysicalNetwork = Annotated[
    str,
    Field(min_length=1, max_length=64),
    validated(
        rule(r"self.matches(r'^[^\s,:\"]+$')", "a physical network's name has no spaces, quotes, commas or colons")
    ),
]
"""Name of a physical network in Neutron."""

_HOST = "[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?"

Hostname = Annotated[str, Field(max_length=253, pattern=f"^{_HOST}$")]
"""A DNS name or an IPv4 address."""

HostOrAddress = Annotated[
    str,
    Field(max_length=253),
    validated(
        rule(
            f"self.matches('^{_HOST}$') || isIP(self)",
            "neither a DNS name nor an address; write one such as cloud.example.org, 192.0.2.10 or 2001:db8::10, "
            "without brackets, scheme, zone or port",
        )
    ),
]
"""A DNS name, or an IPv4 or IPv6 address, which has no brackets."""

Url = Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
"""URL of a server, with or without a path."""

Port = Annotated[int, Field(ge=1, le=65535)]
"""A port of TCP."""

_SERVER = r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"

Server = Annotated[
    str,
    Field(max_length=260, pattern=f"^{_SERVER}$"),
    validated(
        rule(f"self.matches(r'^{_SERVER}$')", "not a server; write host:port, such as rabbitmq-0.rabbitmq:5672"),
    ),
]
"""A DNS name or an address, that of IPv6 in brackets, and a port if it is not the default: rabbitmq-0.rabbitmq:5672."""

_HTTP = "https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?"

AuthUrl = Annotated[
    str,
    Field(max_length=255, pattern=f"^{_HTTP}$"),
    validated(
        rule(f"self.matches('^{_HTTP}$')", "not a URL of Keystone; write one such as https://keystone.example.org/v3")
    ),
]
"""URL of an identity API."""

Region = Annotated[
    str,
    Field(min_length=1, max_length=255),
    validated(
        immutable("region"),
        # It stands in URLs, in configuration files and in the environment of Keystone's bootstrap.
        rule(
            "self.matches('^[A-Za-z0-9]([-A-Za-z0-9 ._]*[A-Za-z0-9])?$')",
            "not a region; use letters, digits, spaces, dots, dashes and underscores, a letter or digit at both ends",
        ),
    ),
]
"""Name of an OpenStack region."""

DatabaseName = Annotated[
    str, Field(max_length=64, pattern=r"^[A-Za-z0-9_]+$"), validated(immutable("the database's name"))
]
"""Name of an SQL schema."""


def bounded(most: int) -> Any:
    """Return an annotation that bounds a text, a list or a map."""
    return Field(max_length=most)


BY_NAME: Any = Field(
    max_length=64, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
)
"""Annotation of a list in a status whose entries have a name each."""

ReleaseName = Annotated[str, bounded(63)]
"""Name of an OpenStack release: 2025.1."""

Labels = Annotated[dict[str, Annotated[str, bounded(63)]], bounded(64)]
"""Labels of Kubernetes: a value has at most 63 characters there."""

Annotations = Annotated[dict[str, Annotated[str, bounded(65_536)]], bounded(64)]
"""Annotations of Kubernetes, which has 256 KiB for all those of an object."""

_FREE, _ATOMIC = "x-kubernetes-preserve-unknown-fields", {"x-kubernetes-map-type": "atomic"}
# The operator refuses a large spec as a whole; bounds have the API server name the field. A definition cannot bound how
# deep a value without a schema is nested. Were it not atomic, managedFields would repeat its levels below some of their
# own: a value that the API server accepts with 10,000 levels has more then, and no client can list that kind any more.
_Structure = Annotated[dict[str, Any], bounded(64), Field(json_schema_extra={_FREE: True})]
Opaque = Annotated[_Structure, Field(json_schema_extra=dict(_ATOMIC))]
"""A Kubernetes structure passed on unchanged, and checked by the API server in the object it becomes part of."""

Opaques = list[_Structure]
"""Several of them. A list is atomic as it is."""

OptionValue = Annotated[
    Any,
    Field(
        json_schema_extra={
            _FREE: True,
            "maxItems": 1024,
            "maxLength": 65_536,
            "maxProperties": 64,
        }
    ),
]

Options = Annotated[dict[str, OptionValue], Field(max_length=1024, json_schema_extra=dict(_ATOMIC))]
"""Options of a configuration file without sections."""

Policies = Annotated[
    dict[str, Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]], Field(max_length=1024)
]
"""Rules of oslo.policy by name."""

Sections = Annotated[dict[str, Options], Field(max_length=256)]
"""oslo.config options: section, option, value. Booleans and numbers are written as oslo reads them; a list
becomes one line an entry (MultiStrOpt)."""

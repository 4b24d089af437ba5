"""Operators whose kinds tests use: pinned modules, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from images.catalog import PREFIX


@dataclass(frozen=True)
class Module:
    """A version of a Go module, with what go.sum says of its content. That content has a go.sum for all below it."""

    path: str
    version: str
    sum: str

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


@dataclass(frozen=True)
class Kinds:
    """Custom resource definitions that a module brings."""

    module: Module
    files: tuple[str, ...] = ("config/crd/bases/*.yaml",)
    """Patterns of paths in the module."""


@dataclass(frozen=True)
class Operator:
    """An operator, as its module has it, and what it needs to work with images of this repository."""

    name: str
    kinds: Kinds
    package: str
    """The program, relative to the module."""
    manifests: str
    """The folder that `kubectl kustomize` makes its objects from, relative to the module."""
    extra_files: tuple[str, ...] = ()
    """Further manifests of the module, without which it does not start."""
    instead: tuple[Module, ...] = ()
    """Versions that take the place of those its go.mod asks for."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables to set; `{operator}`, `{mariadb}` … become the full names of images."""
    servers: tuple[str, ...] = ()
    """Images of this repository that fulfil what it expects of its servers."""
    minutes: float = 3
    """Time of a cold build on two cores."""

    @property
    def module(self) -> Module:
        return self.kinds.module


_RABBITMQ = Module(
    "github.com/rabbitmq/cluster-operator/v2", "v2.22.1", "h1:sZo4DBRs1fCdffLYU3RlJTB/9oeWaLtDIYcuZL1ijlw="
)

OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            "mariadb-operator",
            Kinds(
                Module(
                    "github.com/mariadb-operator/mariadb-operator/v25",
                    "v25.10.4",
                    "h1:/nvOTGeolwiaYhm/iItKT+SubsTzbZzQf0nFBkCpvEA=",
                )
            ),
            package="./cmd/controller",
            manifests="config/default",
            environment={
                "RELATED_IMAGE_MARIADB": "{mariadb}",
                "RELATED_IMAGE_MARIADB_NAME": f"{PREFIX}/mariadb",
                "MARIADB_DEFAULT_VERSION": "11.8",
                # Where Debian has it.
                "MARIADB_GALERA_LIB_PATH": "/usr/lib/galera/libgalera_smm.so",
                # Agents, and the steps before and after a server's life, are the operator's own program.
                "MARIADB_OPERATOR_IMAGE": "{operator}",
            },
            servers=("mariadb",),
        ),
        Operator(
            "rabbitmq-cluster-operator",
            Kinds(_RABBITMQ),
            package="./cmd",
            manifests="config/installation",
            environment={"DEFAULT_RABBITMQ_IMAGE": "{rabbitmq}"},
            servers=("rabbitmq",),
        ),
        Operator(
            "messaging-topology-operator",
            Kinds(
                Module(
                    "github.com/rabbitmq/messaging-topology-operator",
                    "v1.20.1",
                    "h1:luvT/zMd7QhCC+3FU9AXNt92y3JKUzKJXH/Ms25gelY=",
                )
            ),
            package="./cmd",
            manifests="config/default",
            # It asks for v2.22.3, which the module proxy does not serve.
            instead=(_RABBITMQ,),
        ),
        Operator(
            "memcached-operator",
            Kinds(
                Module(
                    "github.com/c5c3/memcached-operator", "v0.4.0", "h1:HVYPdwwrmUCK7jO1cccglLsSSQHB8MNk9dM4Bh3YTMA="
                )
            ),
            package="./cmd",
            manifests="config/default",
            # It watches the kind even where nothing is to be monitored, and ends after two minutes without it.
            extra_files=("config/crd/thirdparty/monitoring.coreos.com_servicemonitors.yaml",),
            servers=("memcached",),
        ),
        Operator(
            "k-orc",
            Kinds(
                Module(
                    "github.com/k-orc/openstack-resource-controller/v2",
                    "v2.6.0",
                    "h1:KKmdPiec2rzXv8NWWF01qQT6pIp4pILhDTnj45Nq7Uc=",
                )
            ),
            package="./cmd/manager",
            manifests="config/default",
        ),
    )
}

KINDS: Mapping[str, Kinds] = {
    **{name: operator.kinds for name, operator in OPERATORS.items()},
    "rook": Kinds(
        Module("github.com/rook/rook", "v1.20.6", "h1:2+Qe/CLcZ2WrXf9Vhf21JwZQqN8cVXPQskZzHf3KLjU="),
        ("deploy/examples/crds.yaml",),
    ),
    "cert-manager": Kinds(
        Module("github.com/cert-manager/cert-manager", "v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="),
        ("deploy/crds/*.yaml",),
    ),
    "gateway-api": Kinds(
        Module("sigs.k8s.io/gateway-api", "v1.6.1", "h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY="),
        ("config/crd/standard/gateway.networking.k8s.io_*.yaml",),
    ),
}
"""Whose definitions can be had, by name; of the last three the definitions alone, their programs are not built."""


def chosen(names: list[str]) -> list[Operator]:
    """The operators of these names, all where there are none; raises ValueError for a name there is not."""
    if unknown := sorted(set(names) - set(OPERATORS)):
        raise ValueError(f"there is no operator {', '.join(unknown)}; choose from {', '.join(OPERATORS)}")
    return [operator for name, operator in OPERATORS.items() if not names or name in names]

"""Operators whose kinds tests use: pinned modules, as data."""

from __future__ import annotations

from collections.abc import Mapping

from images.catalog import PREFIX

from .delivery import DELIVERY
from .model import Chart, Kinds, Module, Operator

PUBLIC_DNS = "10.96.0.14"
"""Address in the cluster of the DNS server for names of the public internet."""
PUBLIC_ADDRESS = "10.96.0.15"
"""Address in the cluster of the Ingress controller, which each of these names has."""
HELM = Module("helm.sh/helm/v3", "v3.22.0", "h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU=")
"""The program that makes objects of charts."""
_PROMETHEUS_OPERATOR = Module(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
)
_PROMETHEUS_PARTS = (
    Module(
        "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring",
        "v0.85.0",
        "h1:oY+F5FZFmCjCyzkHWPjVQpzvnvEB/0FP+iyzDUUlqFc=",
    ),
    Module(
        "github.com/prometheus-operator/prometheus-operator/pkg/client",
        "v0.85.0",
        "h1:OdW3Vnmoa2pM5PfRyQaSEO+UN5yamEUS1MuhwE0PxbY=",
    ),
)
"""Modules in folders of its repository, which its own module does not contain."""
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
            needs={"prometheus-operator": ("servicemonitors.monitoring.coreos.com",)},
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
        Operator(
            "cert-manager",
            Kinds(
                Module(
                    "github.com/cert-manager/cert-manager", "v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="
                ),
                ("deploy/crds/*.yaml",),
            ),
            # Ours: those of cert-manager are in modules without versions.
            package="./cmd/cert-manager",
            manifests=Chart(
                "deploy/charts/cert-manager",
                "cert-manager",
                {
                    "crds": {"enabled": True},
                    "global": {"leaderElection": {"namespace": "cert-manager"}},
                    "startupapicheck": {"enabled": False},
                    "extraArgs": [
                        "--acme-http01-solver-image={operator}",
                        # Public names are those that the DNS beside pebble has.
                        f"--acme-http01-solver-nameservers={PUBLIC_DNS}:53",
                        f"--dns01-recursive-nameservers={PUBLIC_DNS}:53",
                        "--dns01-recursive-nameservers-only",
                    ],
                },
            ),
            commands={
                f"cert-manager-{name}": ("/cert-manager", name) for name in ("controller", "webhook", "cainjector")
            },
            makes_certificates=True,
            minutes=5,
        ),
        Operator(
            "pebble",
            Kinds(
                Module(
                    "github.com/letsencrypt/pebble/v2", "v2.10.1", "h1:oKHx3lgN4e5Nno2LKTMrVx+b+NkDptkO9aDireiBDGE="
                ),
                (),
            ),
            package="./cmd/pebble",
            # Ours: pebble's own DNS for tests knows no dynamic updates, which are what cert-manager can make.
            programs={"public-dns": "./cmd/public-dns"},
            own_files=("pebble.yaml",),
            commands={"public-dns": ("/public-dns",)},
            minutes=1,
        ),
        Operator(
            "traefik",
            Kinds(
                # Of newer ones, modules of vendors' clients are not served.
                Module("github.com/traefik/traefik/v3", "v3.0.4", "h1:OivAymGtWCAL8BoIEIMOZyYffED4jaujR0o+W3wD1tA="),
                (),
            ),
            package="./cmd/traefik",
            own_files=("traefik.yaml",),
            needs={"gateway-api": ()},
            minutes=8,
        ),
        Operator(
            "external-secrets",
            Kinds(
                # The last one that serves v1beta1, too. From 1.0 on, it consists of many modules without versions.
                Module(
                    "github.com/external-secrets/external-secrets",
                    "v0.16.2",
                    "h1:iNY+gIgSyL5higXTfnz+hdPCaiB/43UiHLqE7HBpj68=",
                )
            ),
            # With stores and generators that ours register: see tools/operators/go.
            package=".",
            manifests=Chart("deploy/charts/external-secrets", "external-secrets", {"installCRDs": False}),
            extra_files=("deploy/crds/bundle.yaml",),
            makes_certificates=True,
        ),
        Operator(
            "prometheus-operator",
            Kinds(_PROMETHEUS_OPERATOR, ("example/prometheus-operator-crd/*.yaml",)),
            package="./cmd/operator",
            # All of it, in the namespace `default`.
            extra_files=("bundle.yaml",),
            instead=_PROMETHEUS_PARTS,
            arguments={"prometheus-operator": ("--prometheus-config-reloader={prometheus-config-reloader}",)},
            starts=("prometheus-config-reloader", "prometheus"),
        ),
        Operator(
            "prometheus-config-reloader",
            Kinds(_PROMETHEUS_OPERATOR, ()),
            package="./cmd/prometheus-config-reloader",
            folder="bin/",
            instead=_PROMETHEUS_PARTS,
            minutes=1,
        ),
        Operator(
            "prometheus",
            Kinds(
                Module(
                    "github.com/prometheus/prometheus", "v0.316.0", "h1:f1GRFerhTMKQma+awCoC9T820ecWeGSdF+xAlMHzZzM="
                ),
                (),
            ),
            package="./cmd/prometheus",
            # Its data are mounted at /prometheus.
            folder="bin/",
            # It looks for what it scrapes in Kubernetes, and in none of the clouds of vendors.
            tags="remove_all_sd,enable_kubernetes_sd",
        ),
        Operator(
            "rook",
            Kinds(
                # Later ones need kinds that nobody serves, or a Ceph that is newer than Debian's.
                Module(
                    "github.com/rook/rook",
                    "v1.16.0",
                    "h1:doB2nfdJmdC9O8jlnx6/xQPmoxBUDsFSPTSHyqqz0ok=",
                    unlisted=True,
                ),
                ("deploy/examples/crds.yaml",),
            ),
            # Without its gateways for objects: see tools/operators/go.
            package="./cmd/rook",
            instead=(
                # A module of its own, of the day before, without new fields of those gateways.
                Module(
                    "github.com/rook/rook/pkg/apis",
                    "v0.0.0-20241216163035-3170ac6a0c58",
                    "h1:z7TkRb4D+XvXIGg4ClSjZw8gAPQcZg9zUSFfZ0pUcTY=",
                ),
            ),
            # It calls `ceph`, and its pods copy its program to others by the path.
            base="ceph",
            folder="usr/local/bin/",
            manifests=Chart(
                "deploy/charts/rook-ceph",
                "rook-ceph",
                {
                    "allowLoopDevices": True,
                    # The cloud uses Ceph itself; no volume of Kubernetes is in it.
                    "csi": {"enableRbdDriver": False, "enableCephfsDriver": False, "disableCsiDriver": "true"},
                },
            ),
            servers=("ceph-rook",),
            minutes=8,
        ),
    )
}

BY_NAME = OPERATORS | {operator.name: operator for operator in DELIVERY}
"""Those that bring this operator into a cluster, too, which none of its resources needs."""

KINDS: Mapping[str, Kinds] = {
    **{name: operator.kinds for name, operator in OPERATORS.items()},
    "rook-newest": Kinds(
        Module("github.com/rook/rook", "v1.20.6", "h1:2+Qe/CLcZ2WrXf9Vhf21JwZQqN8cVXPQskZzHf3KLjU="),
        ("deploy/examples/crds.yaml",),
    ),
    "gateway-api": Kinds(
        Module("sigs.k8s.io/gateway-api", "v1.6.1", "h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY="),
        ("config/crd/standard/gateway.networking.k8s.io_*.yaml",),
    ),
}
"""Whose definitions can be had, by name; of the last two the definitions alone, their programs are not built."""


def chosen(names: list[str]) -> list[Operator]:
    """Return the operators of these names; without names, all that resources need. Raises ValueError for an unknown
    name.
    """
    if unknown := sorted(set(names) - set(BY_NAME)):
        raise ValueError(f"there is no operator {', '.join(unknown)}; choose from {', '.join(BY_NAME)}")
    return [operator for name, operator in BY_NAME.items() if name in (names or OPERATORS)]

"""Operators that install operators: Flux and the Operator Lifecycle Manager."""

from __future__ import annotations

from .model import Kinds, Module, Operator

_OLM = (
    "catalogsources",
    "clusterserviceversions",
    "installplans",
    "olmconfigs",
    "operatorconditions",
    "operatorgroups",
    "operators",
    "subscriptions",
)
"""Kinds of OLM, in whose file names they are."""

DELIVERY = (
    Operator(
        "source-controller",
        Kinds(
            # The newest that the controller of releases below knows the kinds of.
            Module(
                "github.com/fluxcd/source-controller",
                "v1.2.5",
                "h1:HsjXb+UqCRMTXHr8GFkAdOkZpjjwns2yfHtieDbYc/w=",
                unlisted=True,
            )
        ),
        package=".",
        manifests="config/default",
        instead=(
            Module(
                "github.com/fluxcd/source-controller/api",
                "v1.2.5",
                "h1:MgGrOfPh7Grhl40GUM9lEs+lmgTx3hLAwI0MVqaJkQ8=",
            ),
        ),
        minutes=8,
    ),
    Operator(
        "helm-controller",
        Kinds(
            # Newer ones are not served.
            Module(
                "github.com/fluxcd/helm-controller",
                "v0.37.0",
                "h1:MDl4kxGzuFyM47d6sDlHsoHLHNy5HQY6P5L3hWDxbMc=",
                unlisted=True,
            )
        ),
        package=".",
        extra_files=("config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",),
        own_files=("helm-controller.yaml",),
        instead=(
            Module(
                "github.com/fluxcd/helm-controller/api",
                "v0.37.0",
                "h1:B14z4nJXmLhtEwQn681bIDy3V1o7USI3X22BuIIsrOw=",
            ),
        ),
        minutes=6,
    ),
    Operator(
        "olm",
        Kinds(
            Module(
                "github.com/operator-framework/operator-lifecycle-manager",
                "v0.28.0",
                "h1:4mgPKwDp8p3giQtHEvunNVcYlgY17vqx/RKgwjTc/2w=",
            ),
            ("deploy/chart/crds/*.yaml",),
        ),
        package="./cmd/olm",
        programs={"catalog": "./cmd/catalog", "copy-content": "./cmd/copy-content", "cpb": "./util/cpb"},
        # Its pods call `cp` in its image, and its programs by their paths in /bin.
        base="base",
        folder="usr/bin/",
        extra_files=tuple(f"deploy/chart/crds/0000_50_olm_00-{kind}.crd.yaml" for kind in _OLM),
        own_files=("olm.yaml",),
        commands={"olm-operator": ("/bin/olm",), "catalog-operator": ("/bin/catalog",)},
        arguments={"catalog-operator": ("--util-image={operator}", "--opmImage={opm}")},
        starts=("opm",),
        minutes=6,
    ),
    Operator(
        "opm",
        Kinds(
            Module(
                "github.com/operator-framework/operator-registry",
                "v1.55.0",
                "h1:iXlv53fYyg2VtLqSDEalXD72/5Uzc7Rfx17j35+8plA=",
            ),
            (),
        ),
        package="./cmd/opm",
        folder="bin/",
        tags="json1,containers_image_openpgp",
        minutes=6,
    ),
)
"""None of a cloud's servers runs on them: they bring this operator into a cluster."""

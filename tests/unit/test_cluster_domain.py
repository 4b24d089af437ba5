"""Clusters whose DNS domain is another one than cluster.local."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from openstack_operator.cli import main as cli
from openstack_operator.cluster_domain import cluster_domain
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.serve import make_manager


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("search openstack.svc.k8s.example.org svc.k8s.example.org k8s.example.org example.org\n", "k8s.example.org"),
        ("nameserver 10.0.0.1\nsearch a.svc.one svc.one one\nsearch a.svc.two. svc.two. two.\n", "two"),
        ("search example.org\n", "cluster.local"),
        ("search\n", "cluster.local"),
        ("", "cluster.local"),
    ],
)
def test_the_domain_is_what_the_kubelet_tells_pods(tmp_path: Path, text: str, domain: str) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(text)
    assert cluster_domain(path) == domain


def test_without_a_file_it_is_the_usual_one(tmp_path: Path) -> None:
    assert cluster_domain(tmp_path / "none") == "cluster.local"


@pytest.mark.seconds
@pytest.mark.parametrize("sample", ["minimal", "ha", "ceph", "providers"])
def test_a_cloud_has_no_name_in_another_domain(root: Path, capsys: pytest.CaptureFixture[str], sample: str) -> None:
    file = str(root / f"deploy/samples/controlplane_{sample}.yaml")
    assert cli.main(["render", "-f", file, "--cluster-domain", "k8s.example.org"]) == 0
    text = capsys.readouterr().out
    assert ".svc.k8s.example.org" in text
    assert "cluster.local" not in text


async def test_the_operator_plans_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(httpx2.AsyncClient(trust_env=False))

    def domain(*arguments: str) -> str:
        settings = cli.run_settings(cli.command_line().parse_args(["run", *arguments]))
        return make_manager(client, settings, (), None).cluster_domain

    monkeypatch.delenv("CLUSTER_DOMAIN", raising=False)
    assert domain("--cluster-domain", "k8s.example.org.") == "k8s.example.org"
    assert domain() == cluster_domain()
    monkeypatch.setenv("CLUSTER_DOMAIN", "by.environment")
    assert domain() == "by.environment"
    await client.close()

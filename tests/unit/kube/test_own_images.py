"""Images that this project builds: what is said where nodes lack them, of a pod, of a release and in a preview."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from openstack_operator.cli.preview.client import Address, Write
from openstack_operator.cli.preview.images import fields_of_images, missing_images
from openstack_operator.kube import as_owner_says, diagnose, judge, own_images
from openstack_operator.plan import Key, Object, State, Verdict, image_fields
from openstack_operator.runtime.kubernetes.kinds import JOB
from openstack_operator.services.controlplane import upgrade
from openstack_operator.services.nova.model import NovaSpec

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN = "2026-01-01T11:59:00Z"
UNBUILT = "localhost/openstack-operator/keystone-2026.1:build"
LOADED = "localhost/openstack-operator/keystone-2026.1:0123456789ab"
ELSEWHERE = "registry.example.org/x/keystone:1"
CONTAINERD = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "{0}": failed to resolve reference "{0}": {0}:'
    " not found"
)
COMMANDS = (
    "build and load the images of 2026.1: `python -m images build --release 2026.1`, then"
    " `python -m images load --release 2026.1`, or push them to a registry (docs/how-to/upgrade.md)"
)


def job(image: str, said: str, **fields: Any) -> Verdict:
    """The verdict on a Job whose pod cannot have its image."""
    live: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "check"}, "spec": {}}
    live["status"] = {"active": 1, "ready": 0}
    waiting = {"reason": "ErrImagePull", "message": said}
    status: Object = {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": THEN}],
        "containerStatuses": [{"name": "main", "image": image, "ready": False, "state": {"waiting": waiting}}],
    }
    pod = {"metadata": {"name": "check-x", "creationTimestamp": THEN}, "spec": {"nodeName": "n1"}, "status": status}

    def no_warnings(*_: object) -> tuple[Object, ...]:
        return ()

    return diagnose(live, judge(live), [pod], no_warnings, NOW, **fields).verdict


def test_an_image_of_this_project_is_built_and_loaded() -> None:
    verdict = job(LOADED, CONTAINERD.format(LOADED))
    assert (verdict.reason, verdict.state) == ("ImagePullFailed", State.PROGRESSING)
    assert verdict.message == (
        "job check starts; pod check-x on node n1 cannot start container main: its node lacks the image"
        f" {LOADED} and no registry has it; {COMMANDS}"
    )


def test_a_field_that_sets_an_image_is_to_be_corrected_first() -> None:
    message = job(LOADED, CONTAINERD.format(LOADED), image_fields={LOADED: "spec.api.image"}).message
    assert message.endswith(f"no registry has it; spec.api.image: correct it, or {COMMANDS}")
    # A control plane names the field of its template.
    keystone = {"metadata": {"name": "keystone", "annotations": {"openstack.k8s.io/field": "spec.keystone"}}}
    assert "; spec.keystone.api.image: correct it" in as_owner_says(keystone, message)
    message = job(ELSEWHERE, "not found", image_fields={ELSEWHERE: "spec.api.image"}).message
    assert message.endswith("not found; spec.api.image: correct it, or let the node reach its registry")


def test_fields_that_set_an_image_are_known_by_it() -> None:
    spec = NovaSpec.from_spec({"image": "a", "api": {"image": "b"}, "conductor": {"image": "a"}})
    assert image_fields(spec) == {"a": "spec.image, spec.conductor.image", "b": "spec.api.image"}


def test_a_release_check_does_not_ask_to_build_a_fields_image() -> None:
    text = job(LOADED, CONTAINERD.format(LOADED), image_fields={LOADED: "spec.image"}).message
    children = dict([service("Keystone", text)])
    context: Any = type("Context", (), {"children": children})
    step = upgrade._checks(context, list(children), "2026.1")  # pyright: ignore[reportPrivateUsage]
    assert step.verdict
    assert "spec.image: correct it, or" in step.verdict.message


def test_an_image_that_no_node_can_have_fails_at_once() -> None:
    assert job(UNBUILT, CONTAINERD.format(UNBUILT)).state is State.FAILED


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (CONTAINERD.format("registry.example.org/x/keystone:1"), "not found"),
        ('failed to resolve reference "registry.example.org/x/keystone:1": no login', "no login"),
        (f"initializing source docker://{ELSEWHERE}: reading manifest 1 in example.org: unknown", "unknown"),
        ("dial tcp: lookup registry.example.org: no such host", "dial tcp: lookup registry.example.org: no such host"),
    ],
)
def test_the_words_of_a_runtime_are_quoted_once(said: str, words: str) -> None:
    text = f"cannot pull the image {ELSEWHERE} of container main: {words}; "
    assert text in job(ELSEWHERE, said).message


def test_a_job_whose_pod_runs_is_running() -> None:
    live: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "check"}, "spec": {}}
    for status, text in (
        ({"active": 1, "ready": 1}, "is running"),
        ({"active": 1, "ready": 0}, "starts"),
        ({}, "is running"),
    ):
        assert judge({**live, "status": status}).message == f"job check {text}"


def service(kind: str, message: str, reason: str = "ImagePullFailed", status: str = "False") -> tuple[Key, Object]:
    condition = {
        "type": "PreflightReady",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
    }
    live: Any = {
        "kind": kind,
        "metadata": {"name": kind.lower(), "generation": 1},
        "status": {"conditions": [condition]},
    }
    live["spec"] = {"release": "2025.1", "upgrade": {"checkRelease": "2026.1"}}
    return (kind, kind.lower()), live


def test_a_release_without_images_is_one_sentence_for_all_services() -> None:
    text = job(LOADED, CONTAINERD.format(LOADED)).message
    children = dict([service("Keystone", text), service("Nova", text), service("Glance", "runs", "Progressing")])
    context: Any = type("Context", (), {"children": children})
    step = upgrade._checks(context, list(children), "2026.1")  # pyright: ignore[reportPrivateUsage]
    assert step.verdict
    assert step.verdict.cause == "ImagePullFailed"
    assert step.verdict.message == (
        f"check of release 2026.1: the nodes cannot get its images, for keystone, nova; {COMMANDS}"
    )


def test_a_failed_check_keeps_its_reason() -> None:
    children = dict([service("Keystone", "a record is old", "JobFailed")])
    context: Any = type("Context", (), {"children": children})
    step = upgrade._checks(context, list(children), "2026.1")  # pyright: ignore[reportPrivateUsage]
    assert step.verdict
    assert step.verdict.cause == "JobFailed"


def written(*images: str) -> dict[Address, Write]:
    containers = [{"name": "main", "image": image} for image in images]
    live = {"spec": {"template": {"spec": {"containers": containers}}}}
    return {Address(JOB, "x", "check"): Write(None, live), Address(JOB, "x", "gone"): Write(live, None)}


def node(*names: str, others: int = 0) -> Object:
    return {"status": {"images": [{"names": [name]} for name in (*names, *map(str, range(others)))]}}


def test_a_preview_says_which_images_no_node_can_have() -> None:
    (text,) = missing_images(written(UNBUILT, LOADED, "registry.example.org/x:1"), [node(others=3)], {})
    assert text == f"no node has 2 images, such as {UNBUILT}, and no registry does; {COMMANDS}"
    assert missing_images(written(LOADED), [node(), node(LOADED)], {}) == []


def test_a_preview_says_nothing_of_what_it_cannot_know() -> None:
    assert missing_images(written(UNBUILT, LOADED), [], {}) == [], "no right to list nodes"
    full = node(others=50)
    assert missing_images(written(LOADED), [full], {}) == [], "a kubelet reports fifty images"
    assert len(missing_images(written(UNBUILT), [full], {})) == 1


def test_preview_names_a_mistyped_image_and_the_tags_of_nodes() -> None:
    other, place = LOADED.replace("0123", "4567"), "spec.keystone.image of OpenStackControlPlane/cloud"
    digest = f"{own_images.repository(LOADED)}@sha256:1"
    (text,) = missing_images(written(LOADED), [node(other, digest, ELSEWHERE)], {LOADED: place})
    assert text.endswith(f"no registry does; {place}: correct it, since nodes have {other}; or {COMMANDS}")
    (text,) = missing_images(written(LOADED), [node(ELSEWHERE)], {LOADED: place})
    assert text.endswith(f"no registry does; {place}: correct it, or {COMMANDS}")


def test_preview_names_each_resource_that_sets_the_same_image() -> None:
    resources: list[Any] = [
        {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {"image": LOADED}}
        for kind, name in (("Memcached", "a"), ("Memcached", "b"))
    ]
    changed = {Address(JOB, "x", live["metadata"]["name"]): Write(None, live) for live in resources}
    assert fields_of_images(changed) == {LOADED: "spec.image of Memcached/a and spec.image of Memcached/b"}


@pytest.mark.parametrize("name", ["a/b", "localhost:5000/a/b"])
@pytest.mark.parametrize("rest", ["", ":1", "@sha256:2", ":1@sha256:2"])
def test_an_image_has_a_name_before_its_tag(name: str, rest: str) -> None:
    assert own_images.repository(f"{name}{rest}") == name

"""Every field of c5c3's manifests has a test that proves it, and the page that lists them is current."""

from __future__ import annotations

import pytest

from tests.field_proofs import proofs
from tests.fields import KINDS, PAGE, ROOT, Proof, exists, page, wanted

SAYS = {"", "not supported", "does nothing", "without an image does nothing"}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> list[Proof]:
    return proofs(request.session)


@pytest.mark.seconds
def test_every_field_has_a_proof(found: list[Proof]) -> None:
    proven = {(proof.kind, proof.path) for proof in found}
    missing = [f"{kind} {path}" for kind in KINDS for path in wanted(kind) if (kind, path) not in proven]
    assert not missing, "mark the tests of these fields with `proves`"


@pytest.mark.seconds
def test_proven_paths_are_fields(found: list[Proof]) -> None:
    assert not [proof for proof in found if proof.kind not in KINDS or not exists(proof.kind, proof.path)]
    assert {proof.says for proof in found} <= SAYS


def test_wanted_paths_are_fields() -> None:
    assert not [f"{kind} {path}" for kind in KINDS for path in wanted(kind) if not exists(kind, path)]


@pytest.mark.seconds
def test_the_page_is_current(found: list[Proof]) -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(found), "run `make generate` and commit what it writes"

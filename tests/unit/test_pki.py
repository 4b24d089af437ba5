"""Certificates: made, judged, renewed, and used by a real TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator import pki
from openstack_operator.pki import Pair, Request, authority, bundle, certificate, fault, issue

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS, THEIRS = authority("ours", "cloud internal", NOW), authority("theirs", "cloud internal", NOW)
API = Request(common="keystone-api", names=frozenset({"keystone-api.openstack.svc", "192.0.2.1", "2001:db8::1"}))
WEEK = timedelta(days=7)


def draws() -> Iterator[str]:
    return (f"drawn {number}" for number in count())


def test_the_same_draw_makes_the_same_files() -> None:
    assert authority("ours", "cloud internal", NOW) == OURS
    assert issue(OURS, API, "x", NOW) == issue(OURS, API, "x", NOW) != issue(OURS, API, "y", NOW)


def test_a_certificate_is_kept_for_two_thirds_of_its_life() -> None:
    first = certificate(None, API, OURS, draws().__next__, NOW)
    assert NOW + timedelta(days=240) < first.due < NOW + timedelta(days=244)
    assert certificate(first, API, OURS, draws().__next__, first.due - timedelta(seconds=1)) is first
    drawn = draws()
    next(drawn)
    later = certificate(first, API, OURS, drawn.__next__, first.due)
    assert later != first
    assert later.due > first.due
    assert fault(later, API, first.due, authorities=[OURS.cert]) == ""


@given(st.timedeltas(timedelta(minutes=1), timedelta(days=4000)))
def test_no_certificate_is_due_before_it_is_made_or_outlives_its_authority(life: timedelta) -> None:
    wanted = Request(common="x", names=frozenset({"x"}), life=life)
    made = issue(OURS, wanted, "x", NOW)
    assert NOW < made.due < NOW + min(life, pki.AUTHORITY)
    assert fault(made, wanted, NOW, authorities=[OURS.cert]) == ""
    assert fault(made, wanted, NOW + min(life, pki.AUTHORITY), authorities=[OURS.cert]).startswith("ended at")


def test_faults_of_a_certificate_are_named() -> None:
    held = issue(OURS, API, "x", NOW)
    others = issue(THEIRS, API, "z", NOW)
    more = Request(common="x", names=API.names | {"b.example", "a.example"})
    said = {
        "cannot be read": fault(Pair("no key", held.cert), API, NOW, authorities=[OURS.cert]),
        "does not match its key": fault(Pair(others.key, held.cert), API, NOW, authorities=[OURS.cert]),
        "ended at 2027-01-01 00:00 UTC": fault(held, API, NOW + timedelta(days=365), authorities=[OURS.cert]),
        "begins at 2025-12-31 23:00 UTC": fault(held, API, NOW - WEEK, authorities=[OURS.cert]),
        "lacks a.example, b.example": fault(held, more, NOW, authorities=[OURS.cert]),
        "is not signed by any of the authorities": fault(others, API, NOW, authorities=[OURS.cert]),
        "": fault(others, API, NOW, authorities=[OURS.cert, THEIRS.cert]),
    }
    assert {want: found for want, found in said.items() if not found.startswith(want)} == {}
    assert fault(held, Request(common="x", names=frozenset({"2001:DB8:0::1"})), NOW, authorities=[OURS.cert]) == ""


def test_a_server_certificate_is_replaced_if_a_client_needs_it() -> None:
    held = pki.issue(OURS, API, "one", NOW)
    calling = replace(API, calls=True)
    assert pki.certificate(held, API, OURS, lambda: "two", NOW) == held
    made = pki.certificate(held, calling, OURS, lambda: "two", NOW)
    assert made != held
    assert (pki.calls(held.cert), pki.calls(made.cert), pki.calls(OURS.cert)) == (False, True, True)
    assert fault(held, calling, NOW, authorities=[OURS.cert]).startswith("is for servers only")


def test_another_authority_or_another_name_is_another_certificate() -> None:
    held = issue(OURS, API, "x", NOW)
    assert certificate(held, API, THEIRS, draws().__next__, NOW) != held
    fewer = Request(common="x", names=frozenset({"192.0.2.1"}))
    assert certificate(held, fewer, OURS, draws().__next__, NOW) is held, "what goes may come back"


def test_a_bundle_has_every_authority_once_until_its_end() -> None:
    short = authority("short", "short", NOW, WEEK)
    assert bundle([OURS.cert + short.cert, OURS.cert], NOW) == OURS.cert + short.cert
    assert bundle([OURS.cert, short.cert], NOW + WEEK) == OURS.cert


def talk(server: Pair, name: str, trusted: str, tmp_path: Path, *, shown: Pair | None = None) -> None:
    """A handshake between two ends of OpenSSL in this process. Raises ssl.SSLError where one refuses."""
    now = datetime.now(UTC)
    assert now < server.due
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours = ssl.create_default_context(cadata=trusted)
    # The strictest reading of RFC 5280 there is, as newer Pythons have by default.
    ours.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    for context, pair in ((theirs, server), *([(ours, shown)] if shown else [])):
        file = tmp_path / "pair.pem"
        file.write_text(pair.key + pair.cert)
        context.load_cert_chain(file)
    if shown:
        theirs.verify_mode = ssl.CERT_REQUIRED
        theirs.load_verify_locations(cadata=trusted)
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        ours.wrap_bio(one, other, server_hostname=name),
        theirs.wrap_bio(other, one, server_side=True),
    ]
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_openssl_takes_them_and_refuses_others(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ours, theirs = authority("ours", "cloud", now), authority("theirs", "cloud", now)
    node = Request(common="node", names=frozenset({"*.members.svc", "192.0.2.1"}), calls=True)
    held, foreign = issue(ours, node, "x", now), issue(theirs, node, "x", now)
    both = bundle([theirs.cert, ours.cert], now)
    talk(held, "rabbitmq-0.members.svc", both, tmp_path, shown=held)
    talk(held, "192.0.2.1", both, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        talk(held, "rabbitmq-0.others.svc", both, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        talk(foreign, "rabbitmq-0.members.svc", ours.cert, tmp_path)
    with pytest.raises(ssl.SSLError):
        talk(held, "rabbitmq-0.members.svc", ours.cert, tmp_path, shown=foreign)
    no_client = issue(ours, Request(common="api", names=node.names), "y", now)
    with pytest.raises(ssl.SSLError):
        talk(held, "rabbitmq-0.members.svc", ours.cert, tmp_path, shown=no_client)


def test_no_certificate_is_renewed_at_the_end_of_its_authority() -> None:
    short = authority("short", "short", NOW, timedelta(days=300))
    first = certificate(None, API, short, draws().__next__, NOW)
    assert first.ends == short.ends
    assert certificate(first, API, short, draws().__next__, first.due) is first
    assert pki.change(first, NOW) == first.due
    assert pki.change(first, first.due) == first.ends
    assert pki.change(first, first.ends) is None

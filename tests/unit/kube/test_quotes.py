"""What programs say is shown without passwords, and looked through in linear time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.kube import last_log, one_line, plain, quote
from openstack_operator.kube.quotes import mask_passwords

pytestmark = pytest.mark.security


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mysql://nova:hunter2@mariadb/nova", "mysql://nova:***@mariadb/nova"),
        ("mysql://nova:hun@ter2@mariadb/nova", "mysql://nova:***@mariadb/nova"),
        ("rabbit://n:hunter2@mq-0:5672,n:hunter2@mq-1:5672//v is down", "rabbit://n:***@mq-1:5672//v is down"),
        ("http://proxy/,mysql://nova:hunter2@mariadb", "http://proxy/,mysql://nova:***@mariadb"),
        ("password=hunter2", "password=***"),
        ("admin_password = 'hunter2 and more' x", "admin_password = *** x"),
        ('{"secret_key": "hunter2"}', '{"secret_key": ***}'),
        ("AUTH_TOKEN='hunter2", "AUTH_TOKEN=***"),
        ("Authorization: Basic hunter2", "Authorization: Basic ***"),
        ("X-Auth-Token: hunter2", "X-Auth-Token: ***"),
    ],
)
def test_a_password_is_masked(text: str, masked: str) -> None:
    assert quote(text, 500) == masked


MANY_BYTES = "…" * 700
URL = "mysql://nova:hunter2@mariadb/nova"


@pytest.mark.parametrize("shown", range(len(URL)))
def test_a_quote_that_begins_within_a_url_shows_no_password(shown: int) -> None:
    """As the kubelet leaves it: the last 2048 bytes of a log, of which the first line began before."""
    for rest in (" is down", "\nno route"):
        found = last_log(URL[-1 - shown :] + rest + MANY_BYTES, 1)
        assert "er2" not in found
        assert found.startswith(("is down", "no route"))


def test_a_quote_that_begins_inside_a_value_shows_nothing_of_it() -> None:
    assert last_log(f" hunter2 is wrong{MANY_BYTES}", 1).startswith("is wrong")
    assert last_log("hunter2" * 300, 1) == "", "there is no telling what it is"


def test_a_quote_that_ends_within_a_url_shows_no_password() -> None:
    """Of a pod of twelve containers the kubelet shows 1024 bytes each, whatever it quoted."""
    log = "begun\n" + f"cannot reach {URL}".rjust(1040, " ")[:-21]
    assert len(log) == 1025
    assert last_log(log[:1024], 12) == "cannot reach"
    assert last_log("cannot reach " + URL, 12) == "cannot reach mysql://nova:***@mariadb/nova", "it is whole"


def test_the_rest_of_a_long_log_begins_with_a_whole_word() -> None:
    assert last_log("one two " + "x" * 1020, 1) == "x" * 1020
    assert last_log("x" * 1030, 1) == "x" * 1024
    assert last_log(" a\nb c \n", 1) == "a\nb c"


def test_passwords_are_masked_before_a_quote_is_cut() -> None:
    assert quote(f"cannot reach {URL}", 30) == "cannot reach mysql://nova:***@"


@pytest.mark.parametrize(
    "text",
    [
        "Access denied for user 'nova'@'10.0.0.1' (using password: YES)",
        'secret "nova-config" not found',
        "couldn't find key password in Secret openstack/nova",
        "tcp://10.0.0.1:6640 is down, tell admin@example.com",
        "password=''",
    ],
)
def test_text_without_passwords_is_not_masked(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.seconds
@pytest.mark.parametrize("part", ["://:", "://a:b", "password", "password=", "secret ", "authorization: basic "])
def test_long_texts_are_no_trouble(part: str) -> None:
    # A pattern that takes quadratic time takes hours for these.
    assert len(one_line(part * 500_000)) <= 500


ESCAPES = "\x1b[31mred\x1b[0m \x1b]0;title\x07a\x1b[2Jb\x9bc\x1b\u202ed\x00\r\x07"


def test_a_quote_gives_a_terminal_no_orders() -> None:
    assert plain(ESCAPES) == "red ab??d???"
    assert quote(ESCAPES, 8) == "red ab??"
    assert one_line(f"{ESCAPES}\nend") == "red ab??d??? end"
    assert last_log(f"{ESCAPES}\r\nend", 1) == "red ab??d???\nend"


def test_a_terminal_order_hides_no_password() -> None:
    for text in (
        "pass\x1b[0mword=hunter2",
        "password\x1b(B\x1b[m=hunter2",
        "password\x9b0m=hunter2",
        "nova:\x1b[0mhun\x1b]0;x\x1b\\ter2@mariadb",
    ):
        assert "ter2" not in quote(f"mysql://{text}", 500)
        assert "ter2" not in mask_passwords(f"mysql://{text}")


@pytest.mark.parametrize("text", ["\x1b[" * 100_000, "\x1b]" * 100_000, "\x1b[" + "0" * 200_000, "\x1b" * 200_000])
def test_orders_are_found_in_linear_time(text: str) -> None:
    assert "\x1b" not in plain(text)


@given(st.text())
def test_any_text_becomes_lines_that_can_be_printed(content: str) -> None:
    assert all(line.isprintable() for line in plain(content).split("\n"))
    assert plain(plain(content)) == plain(content)

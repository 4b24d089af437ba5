"""What programs say is shown without passwords, and looked through in linear time."""

from __future__ import annotations

import pytest

from openstack_operator.kube import mask_passwords, one_line


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
    assert mask_passwords(text) == masked


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
def test_what_is_no_password_stays(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize("part", ["://:", "://a:b", "password", "password=", "secret ", "authorization: basic "])
def test_long_texts_are_no_trouble(part: str) -> None:
    # A pattern that takes quadratic time takes hours for these.
    assert len(one_line(part * 500_000)) <= 500

"""Programs that give a server its new certificate while it runs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.glance.service import plan as glance
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan as memcached
from openstack_operator.testing import context

from .programs import Machine, certified, container, environment, planned

FILES = ("tls.crt", "tls.key", "ca.crt")
# A line in the loop of a program, which it runs in the folder of the test.
RENEW = "for file in tls.crt tls.key ca.crt; do printf 'renewed %s\\n\\n' $file > tls/$file; done"
CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "RabbitMQ": {"host": "mq", "port": "5672"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, {"TLS_FOLDER": f"{tmp_path}/tls", "RUN_FOLDER": str(tmp_path)})
    for file in FILES:
        made.write(f"tls/{file}", f"first {file}\n\n")
    return made


# haproxy at its socket: it creates a transaction, and commits it. It refuses as often as a file says.
SOCAT = """
[ "$*" = "-t 5 - UNIX-CONNECT:$RUN_FOLDER/admin" ] || exit 1
read -r verb _ kind name mark
if [ "$verb" = set ]; then
    # Without an empty line, which ends what is sent, it would answer nothing.
    pem= end=
    while read -r line; do
        [ -n "$line" ] || { end=$mark; break; }
        pem="$pem$line+"
    done
    refusals=$(cat "refuse-$kind" 2> /dev/null || echo 0)
    if [ "$end" != "<<" ] || [ -n "$(cat)" ]; then
        :
    elif [ "$refusals" -gt 0 ]; then
        echo $((refusals - 1)) > "refuse-$kind"
        echo "unable to load certificate"
    else
        echo "$kind $name $pem" > "open-$kind"
        echo "New transaction created for $kind $name!"
    fi
elif [ -e "open-$kind" ]; then
    cat "open-$kind" >> commits
    rm "open-$kind"
    printf 'Committing %s\nSuccess!\n' "$name"
else
    echo "No ongoing transaction!"
fi
"""


@pytest.fixture
def haproxy(machine: Machine) -> Machine:
    machine.program("haproxy", "cat $3")
    machine.program("socat", SOCAT)
    return machine


def commits(machine: Machine) -> list[str]:
    path = machine.home / "commits"
    return path.read_text(encoding="utf-8").replace(f"{machine.home}/", "").splitlines() if path.exists() else []


def proxy_of_keystone(release: Release) -> Object:
    made = keystone(certified(KEYSTONE, release, {}, published=CONTRACTS))
    return container(planned(made, "Deployment", "keystone-api"), "front")


def proxy_of_peers(release: Release) -> Object:
    made = glance(certified(GLANCE, release, {"storageType": "swift"}, published=CONTRACTS))
    return container(planned(made, "Deployment", "glance-api"), "front")


def test_the_proxy_starts_with_its_configuration(haproxy: Machine, release: Release) -> None:
    haproxy.rounds()
    proxy = proxy_of_keystone(release)
    assert haproxy.run(proxy).stdout == environment(proxy)["CONFIG"]
    assert haproxy.calls("haproxy") == [f"-db -f {haproxy.home}/haproxy.cfg"]


def test_the_proxy_gets_a_new_certificate_once(haproxy: Machine, release: Release) -> None:
    haproxy.rounds("", RENEW, "", "")
    haproxy.run(proxy_of_keystone(release))
    assert commits(haproxy) == ["cert tls/tls.crt renewed tls.crt+renewed tls.key+"]
    assert len(haproxy.calls("socat")) == 2
    assert set(haproxy.calls("sleep")) == {"10"}


def test_a_proxy_whose_files_stay_as_they_are_gets_nothing(haproxy: Machine, release: Release) -> None:
    haproxy.rounds("", "touch tls/tls.crt")
    haproxy.run(proxy_of_keystone(release))
    assert haproxy.calls("socat") == []


@pytest.mark.parametrize(("refusals", "rounds"), [(2, 3), (9, 3)])
def test_a_certificate_that_the_proxy_refuses_is_sent_again(
    haproxy: Machine, release: Release, refusals: int, rounds: int
) -> None:
    """The pair does not fit while one of its files is new."""
    haproxy.write("refuse-cert", str(refusals))
    haproxy.rounds(RENEW, "", "")
    haproxy.run(proxy_of_keystone(release))
    assert len(commits(haproxy)) == int(refusals < rounds)
    assert len(haproxy.calls("socat")) == 2 * rounds


def test_a_proxy_that_verifies_peers_gets_new_authorities_before_the_certificate(
    haproxy: Machine, release: Release
) -> None:
    haproxy.rounds(RENEW, "", "")
    haproxy.run(proxy_of_peers(release))
    assert commits(haproxy) == [
        "ca-file tls/ca.crt renewed ca.crt+",
        "cert tls/tls.crt renewed tls.crt+renewed tls.key+",
    ]


def test_authorities_that_the_proxy_refuses_are_sent_again_with_the_certificate(
    haproxy: Machine, release: Release
) -> None:
    haproxy.write("refuse-ca-file", "1")
    haproxy.rounds(RENEW, "", "")
    haproxy.run(proxy_of_peers(release))
    assert [line.split()[0] for line in commits(haproxy)] == ["cert", "ca-file", "cert"]


def test_mariadb_makes_the_account_of_its_exporter_once_it_takes_writes(machine: Machine, release: Release) -> None:
    spec = {"monitoring": {"enabled": True}}
    server = container(planned(mariadb(context(MARIADB, spec, release=release)), "StatefulSet", "mariadb-server"))
    # Not there, then without an answer, then not taking writes, and in the end it has the account.
    machine.program(
        "mariadb",
        """cat >> passwords
        case $(grep -c password= passwords) in
            1) exit 1 ;;
            2) echo 0 ;;
            3) exit 1 ;;
            4) echo 0 ;;
            5) echo done > made ;;
            *) exit 1 ;;
        esac""",
    )
    machine.program("mariadb-start", "until [ -e made ]; do :; done")
    machine.write("root", "secret")
    machine.rounds(*[":"] * 2)
    machine.run(server, MARIADB_ROOT_PASSWORD_FILE=machine.home / "root")
    made = "".join(machine.calls("mariadb"))
    assert made.count("CREATE USER IF NOT EXISTS 'metrics'@localhost IDENTIFIED VIA unix_socket") == 2
    assert "secret" not in made
    assert (machine.home / "passwords").read_text(encoding="utf-8").count('password="secret"') == 5
    assert machine.has_become("mariadb-start")


def mariadb_server(release: Release, **spec: Any) -> Object:
    return container(planned(mariadb(certified(MARIADB, release, spec)), "StatefulSet", "mariadb-server"))


@pytest.mark.parametrize("replicas", [1, 3])
def test_mariadb_is_ordered_to_read_its_new_certificate(machine: Machine, release: Release, replicas: int) -> None:
    server = mariadb_server(release, replicas=replicas)
    # The account of backups has a loop of its own, which would take rounds of this one.
    loop = 'while kill -0 "$server"'
    assert loop in server["command"][2]
    server = {**server, "command": [text.replace(loop, "while false") for text in server["command"]]}
    program = server["command"][4:]
    machine.program(program[0], f'[ "$*" = "{" ".join(program[1:])}" ] && echo started')
    # The first order fails.
    machine.program("mariadb", 'cat > order; [ "$(wc -l < calls/mariadb)" != 1 ]')
    machine.write("password", "secret")
    machine.rounds("", RENEW, "", "")
    result = machine.run(server, MARIADB_ROOT_PASSWORD_FILE=machine.home / "password")
    assert result.stdout == "started\n"
    assert machine.calls("mariadb") == ["--defaults-extra-file=/dev/stdin -e FLUSH LOCAL SSL"] * 2
    assert (machine.home / "order").read_text(encoding="utf-8") == '[client]\nuser=root\npassword="secret"\n'


@pytest.fixture
def orders() -> Iterator[tuple[int, list[bytes]]]:
    """The port of a Memcached, and what it read; it refuses the first order."""
    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as stream:
                    if line := stream.readline():
                        lines.append(line)
                        connection.sendall(b"OK\r\n" if len(lines) > 1 else b"ERROR\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], lines
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("required", [True, False])
def test_memcached_is_ordered_to_read_its_new_certificate(
    machine: Machine, release: Release, orders: tuple[int, list[bytes]], *, required: bool
) -> None:
    port, lines = orders
    ctx = certified(MEMCACHED, release, {"tls": {"required": required}})
    server = container(planned(memcached(ctx), "StatefulSet", "memcached-server"))
    machine.program("memcached", "echo started")
    machine.rounds("", RENEW, "", "")
    result = machine.run(server, PLAIN_PORT=str(port))
    assert result.stdout == "started\n"
    assert lines == [b"refresh_certs\r\n"] * 2
    assert "-Z" in machine.calls("memcached")[0].split()


def test_a_memcached_that_takes_no_connection_is_not_alive(machine: Machine, release: Release) -> None:
    ctx = certified(MEMCACHED, release, {"tls": {"required": True}})
    server = container(planned(memcached(ctx), "StatefulSet", "memcached-server"))
    *command, port = server["livenessProbe"]["exec"]["command"]
    assert port == environment(server)["PLAIN_PORT"] == "11211"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # The kernel accepts for a program that is busy.
        words = [*command, str(listener.getsockname()[1])]
        assert machine.run(server, command=words).returncode == 0
    assert machine.run(server, command=words).returncode != 0

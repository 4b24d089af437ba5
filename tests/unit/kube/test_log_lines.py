"""Which line of a log a condition quotes, of logs as the programs of a cloud write them."""

from __future__ import annotations

import json

import pytest

from openstack_operator.kube import last_log
from openstack_operator.kube.log_lines import cause_line

OSLO = "2026-11-20 09:15:02.118 7"
MARIADB = "2026-11-20  9:15:02 0"
RABBIT = "2026-11-20 09:15:02.118342+00:00"

FRAMES = """\
Traceback (most recent call last):
  File "/usr/bin/nova-api-wsgi", line 52, in <module>
    application = init_application()
                  ^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3/dist-packages/nova/api/openstack/wsgi_app.py", line 128, in init_application
    objects.Service.get_minimum_version_all_cells(context)
"""
NO_NUMBER = "oslo_config.cfg.ConfigFileValueError: Value for option osapi_max_limit is not valid: many"


def as_oslo(text: str, level: str = "ERROR", logger: str = "nova") -> str:
    """A traceback as oslo.log writes it: each line with a prefix, the empty one at its end as well."""
    return "\n".join(f"{OSLO} {level} {logger} {line}" for line in text.split("\n"))


UWSGI = """\
*** Starting uWSGI 2.0.28-debian (64bit) on [Fri Nov 20 09:14:58 2026] ***
your memory page size is 4096 bytes
mapped 291680 bytes (284 KB) for 2 cores
*** Operational MODE: preforking ***
"""

CASES = {
    "uWSGI that needs an app": (
        (
            f"{UWSGI}{FRAMES}{NO_NUMBER}\n"
            "unable to load app 0 (mountpoint='') (callable not found or import error)\n"
            "*** no app loaded. GAME OVER ***\n"
            "VACUUM: unix socket /run/nova.sock removed.\n"
        ),
        NO_NUMBER,
    ),
    "uWSGI that goes on without one": (
        (
            f"{UWSGI}{FRAMES}{NO_NUMBER}\n"
            "unable to load app 0 (mountpoint='') (callable not found or import error)\n"
            "*** no app loaded. going in full dynamic mode ***\n"
            "*** uWSGI is running in multiple interpreter mode ***\n"
            "spawned uWSGI master process (pid: 1)\n"
            "spawned uWSGI worker 1 (pid: 9, cores: 1)\n"
            "SIGINT/SIGTERM received...killing workers...\n"
            "worker 1 buried after 1 seconds\n"
            "goodbye to uWSGI.\n"
        ),
        NO_NUMBER,
    ),
    "uWSGI whose app logs by oslo.log": (
        (
            f"{OSLO} INFO nova.wsgi [-] starting\n"
            f"{OSLO} CRITICAL nova [-] Unhandled error: {NO_NUMBER}\n"
            f"{as_oslo(FRAMES + NO_NUMBER + chr(10))}\n"
            "no app could be loaded. going in full dynamic mode\n"
            f"{OSLO} INFO oslo_messaging [-] closing connections\n"
            "VACUUM: pidfile removed.\n"
            "goodbye to uWSGI.\n"
        ),
        NO_NUMBER,
    ),
    "uWSGI whose app logs an error without a traceback": (
        (
            f"{OSLO} ERROR keystone.server [-] There is no key in /etc/keystone/fernet-keys\n"
            f"{OSLO} INFO keystone [-] done\n"
            "spawned uWSGI master process (pid: 1)\n"
            "goodbye to uWSGI.\n"
        ),
        f"{OSLO} ERROR keystone.server [-] There is no key in /etc/keystone/fernet-keys",
    ),
    "uWSGI that finds its port taken": (
        f"{UWSGI}bind(): Address already in use [core/socket.c line 769]\n",
        "bind(): Address already in use [core/socket.c line 769]",
    ),
    "oslo.log ends with a traceback": (as_oslo(f"{FRAMES}{NO_NUMBER}\n"), NO_NUMBER),
    "a traceback whose head is cut off": (as_oslo(f"{FRAMES}{NO_NUMBER}\n").partition("\n")[2], NO_NUMBER),
    "the last of several exceptions": (
        (
            f"{FRAMES}KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
            f"{FRAMES}{NO_NUMBER}\n"
        ),
        NO_NUMBER,
    ),
    "an exception of several lines": (f"{FRAMES}{NO_NUMBER}\nsee the documentation\n", NO_NUMBER),
    "an error behind a traceback": (
        f"{as_oslo(FRAMES + NO_NUMBER)}\n{OSLO} ERROR nova.service [-] gives up\n",
        f"{OSLO} ERROR nova.service [-] gives up",
    ),
    "a traceback that is cut off at its end": (FRAMES, "objects.Service.get_minimum_version_all_cells(context)"),
    "mariadbd": (
        (
            f"{MARIADB} [Note] InnoDB: Using io_uring\n"
            f"{MARIADB} [ERROR] InnoDB: The innodb_system data file 'ibdata1' must be writable\n"
            f"{MARIADB} [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.\n"
            f"{MARIADB} [Note] Plugin 'FEEDBACK' is disabled.\n"
            f"{MARIADB} [ERROR] Unknown/unsupported storage engine: InnoDB\n"
            f"{MARIADB} [ERROR] Aborting\n"
            "Warning: Memory not freed: 280\n"
        ),
        f"{MARIADB} [ERROR] InnoDB: The innodb_system data file 'ibdata1' must be writable",
    ),
    "mariadbd that is told an unknown option": (
        f"{MARIADB} [ERROR] mariadbd: unknown variable 'max_conections=9'\n{MARIADB} [ERROR] Aborting\n",
        f"{MARIADB} [ERROR] mariadbd: unknown variable 'max_conections=9'",
    ),
    "RabbitMQ": (
        (
            "BOOT FAILED\n===========\nException during startup:\n\nerror:{badmatch,{error,eacces}}\n\n"
            "    rabbit_prelaunch_conf:setup/1, line 83\n        args: [#{}]\n\n"
            '{"Kernel pid terminated",application_controller,"{application_start_failure,rabbit}"}\n'
            "Crash dump is being written to: /var/log/rabbitmq/erl_crash.dump...done\n"
        ),
        "Exception during startup: error:{badmatch,{error,eacces}}",
    ),
    "RabbitMQ by its logger": (
        (
            f"{RABBIT} [info] <0.254.0> Running boot step database\n"
            f"{RABBIT} [error] <0.254.0> \n"
            f"{RABBIT} [error] <0.254.0> BOOT FAILED\n"
            f"{RABBIT} [error] <0.254.0> ===========\n"
            f"{RABBIT} [error] <0.254.0> Error during startup: {{error,timeout_waiting_for_tables}}\n"
            f"{RABBIT} [error] <0.254.0> \n"
            f"{RABBIT} [notice] <0.44.0> Application rabbit exited\n"
            "[os_mon] memory supervisor port (memsup): Erlang has closed\n"
        ),
        "Error during startup: {error,timeout_waiting_for_tables}",
    ),
    "RabbitMQ whose port is taken": (
        (
            f"{RABBIT} [error] <0.9.0> Failed to start Ranch listener on [::]:5672: eaddrinuse\n"
            "Runtime terminating during boot (terminating)\n"
        ),
        f"{RABBIT} [error] <0.9.0> Failed to start Ranch listener on [::]:5672: eaddrinuse",
    ),
    "haproxy": (
        (
            "[NOTICE]   (1) : haproxy version is 3.0\n"
            "[ALERT]    (1) : config : parsing [/etc/haproxy/haproxy.cfg:7] : unknown keyword 'bnd'\n"
            "[ALERT]    (1) : config : Fatal errors found in configuration.\n"
        ),
        "[ALERT]    (1) : config : parsing [/etc/haproxy/haproxy.cfg:7] : unknown keyword 'bnd'",
    ),
    "Open vSwitch": (
        (
            "2026-11-20T09:15:02Z|00002|ovsdb|ERR|/etc/ovn/nb.db: cannot lock\n"
            "2026-11-20T09:15:02Z|00003|daemon_unix|INFO|exiting\n"
        ),
        "2026-11-20T09:15:02Z|00002|ovsdb|ERR|/etc/ovn/nb.db: cannot lock",
    ),
    "the last words of a shell, after an error that passed": (
        f"{OSLO} ERROR nova [-] no connection, trying again\n/start.sh: line 3: nova-conductr: not found\n",
        "/start.sh: line 3: nova-conductr: not found",
    ),
    "nothing but closing lines": ("spawned uWSGI master process (pid: 1)\ngoodbye to uWSGI.\n", "goodbye to uWSGI."),
    "nothing but good news": (f"{OSLO} INFO nova [-] done\n", f"{OSLO} INFO nova [-] done"),
    "nothing": ("\n", ""),
}


def as_json(message: str, level: str = "ERROR", traceback: str = "") -> str:
    """The same as oslo.log's JSONFormatter writes it: one line."""
    lines = traceback.split("\n") if traceback else None
    return json.dumps({"message": message, "levelname": level, "name": "nova", "traceback": lines, "context": {}})


JSON_CASES = {
    "JSON: an error": (f"{as_json('cannot go on')}\n{as_json('ends', 'INFO')}\n", "ERROR nova cannot go on"),
    "JSON: an exception": (as_json("Unhandled", "CRITICAL", f"{FRAMES}{NO_NUMBER}\n"), f"CRITICAL nova {NO_NUMBER}"),
    "JSON of another program": ('{"level": "warn"}', '{"level": "warn"}'),
    "JSON that is cut off": ('{"message": "half', '{"message": "half'),
}


@pytest.mark.parametrize("name", [*CASES, *JSON_CASES])
def test_the_line_that_tells_the_cause(name: str) -> None:
    log, line = (CASES | JSON_CASES)[name]
    assert cause_line(log) == line


@pytest.mark.security
@pytest.mark.parametrize(
    "secret",
    [
        "DBConnectionError: cannot reach mysql+pymysql://nova:hunter2@mariadb/nova",
        "KeyError: transport_url = rabbit://nova:hunter2@rabbitmq:5671/nova",
        "ValueError: admin_password: 'hunter2' is too short",
    ],
)
def test_the_line_that_is_quoted_has_no_password(secret: str) -> None:
    log = last_log(f"{as_oslo(FRAMES + secret + chr(10))}\ngoodbye to uWSGI.\n", 1)
    assert "hunter2" not in cause_line(log)
    assert cause_line(log).startswith(secret.partition(":")[0])


@pytest.mark.security
@pytest.mark.parametrize("part", ["[", "-", "2026-", "1 ", " File", "*** ", "a|", "{", "=", " <"])
def test_long_logs_are_no_trouble(part: str) -> None:
    # A pattern that takes quadratic time takes hours for these.
    assert cause_line(part * 200_000)

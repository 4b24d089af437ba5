"""Environment variables that users add to the containers of a service."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..api import Proxy, UsesEnvironment
from ..plan import Context, SpecError

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,254}")
# Each names a file, a folder, a module or a command that a program, its interpreter, shell or loader runs or trusts, or
# sets an option past `config` and its checks.
_REFUSED = re.compile(
    "(LD|DYLD|PYTHON|PERL|RUBY|NODE|JAVA|JDK|LUA|GUILE|BASH|ZSH|UWSGI|ERL|ELIXIR|RABBITMQ|EVENTLET|GREENLET|PBR|PIP"
    "|GIT|SSH|OPENSSL|GNUTLS|NSS|SASL|KRB5|GSS|CEPH|VIR|LIBVIRT|MYSQL|MARIADB|LIBMYSQL|MEMCACHED|APACHE|HTTPD|KUBE"
    "|KUBERNETES|XDG|SYSTEMD|NOTIFY|LISTEN|JOURNAL|TERM|WSGI|DJANGO|LVM|CONTAINERS|BOTO|OS)_.*"
    "|EDITOR|VISUAL|PAGER|PYTHON.*|BASH.*|PERL.*|RUBY.*|ENV|PATH|CDPATH|HOME|SHELL|SHELLOPTS|PROMPT_COMMAND|PS[0-9]|IFS|USER|LOGNAME"
    "|HOSTNAME|TMPDIR|TMP|TEMP|GCONV_PATH|LOCPATH|NLSPATH|GLIBC_TUNABLES|MALLOC_.*|RESOLV_.*|HOSTALIASES|LOCALDOMAIN"
    "|SSL_.*|SSLKEYLOGFILE|REQUESTS_CA_BUNDLE|CURL_.*|NETRC|AWS_CONFIG_FILE|TERMCAP|TERMINFO.*|CONFIG|POD_.*",
    re.IGNORECASE,
)
_ALLOWED = frozenset({"MALLOC_ARENA_MAX"})
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_PROXY = "NO_PROXY"


def user_environment(ctx: Context[Any], reserved: Collection[str]) -> dict[str, str | Mapping[str, Any]]:
    """Return the variables that the spec adds to each container of a pod. Raises SpecError for a `reserved` one, which
    the operator sets itself, and for one that decides what a program runs.
    """
    spec = ctx.spec
    if not isinstance(spec, UsesEnvironment):
        return {}
    secret = spec.env_secret_ref
    keys = sorted(ctx.secrets.get(secret.name, {})) if secret else ()
    for name in spec.env:
        _check(f"spec.env.{name}", name, reserved)
    for name in keys:
        _check("spec.envSecretRef", name, reserved)
        if name in spec.env:
            raise SpecError(f"spec.env.{name}", "env and the Secret of envSecretRef set the same variable; remove one")
    if secret and (hidden := [name for name in keys if name.upper() == _NO_PROXY]):
        # It has to be completed, which takes its content.
        raise SpecError("spec.envSecretRef", f"{hidden[0]} is not a secret; set proxy.noProxy")
    from_secret = {name: {"secretKeyRef": {"name": secret.name, "key": name}} for name in keys if secret is not None}
    return _with_proxy(ctx, spec.proxy, {**from_secret, **spec.env})


def has_proxy(spec: UsesEnvironment) -> bool:
    """Return True if the spec itself names a proxy."""
    variables = {name.upper() for name in spec.env} & {*_PROXIES}
    return bool(variables or spec.proxy.http_proxy or spec.proxy.https_proxy)


def _check(path: str, name: str, reserved: Collection[str]) -> None:
    if not _NAME.fullmatch(name):
        raise SpecError(path, f"{name!r} is not a name of a variable; use letters, digits and underscores")
    if name in reserved:
        raise SpecError(path, f"the operator sets {name} itself; remove it")
    if name not in _ALLOWED and _REFUSED.fullmatch(name):
        advice = "set options in config" if name.startswith("OS_") else "remove it"
        raise SpecError(path, f"{name} changes the code, trust or configuration of programs; {advice}")


def _with_proxy(
    ctx: Context[Any], proxy: Proxy, env: dict[str, str | Mapping[str, Any]]
) -> dict[str, str | Mapping[str, Any]]:
    """Return the variables with those of the proxy, in both spellings, since programs read one or the other. Addresses
    in the cluster are always called without a proxy.
    """
    by_upper = {name.upper(): value for name, value in env.items()}
    fields = {"HTTP_PROXY": proxy.http_proxy, "HTTPS_PROXY": proxy.https_proxy}
    proxies = {name: by_upper.get(name) or fields.get(name) for name in _PROXIES}
    proxies = {name: value for name, value in proxies.items() if value}
    unrelated = {name: value for name, value in env.items() if name.upper() not in (*_PROXIES, _NO_PROXY)}
    if not proxies:
        return env
    user_text = by_upper.get(_NO_PROXY, "")
    user_list = [each.strip() for each in user_text.split(",")] if isinstance(user_text, str) else []
    direct = dict.fromkeys(each for each in (*user_list, *proxy.no_proxy, *_inside(ctx)) if each)
    variables = {**proxies, _NO_PROXY: ",".join(direct)}
    both = {spelling: value for name, value in variables.items() for spelling in (name, name.lower())}
    return {**unrelated, **both}


def _inside(ctx: Context[Any]) -> tuple[str, ...]:
    """Return names and networks in the cluster, as far as the operator knows them."""
    policies = getattr(ctx.spec, "network_policies", None)
    nodes = policies.nodes if policies else ()
    return ("localhost", "127.0.0.1", "::1", ".svc", f".{ctx.domain}", f".{ctx.namespace}", *nodes)

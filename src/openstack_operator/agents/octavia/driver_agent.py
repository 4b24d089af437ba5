"""Runs Octavia's driver agent, and releases load balancers whose change was lost. The API answers before it carries a
change out, in the same process. If that ends in between, the load balancer stays PENDING, and Octavia refuses each
further change. Its arguments are those of octavia-driver-agent.
"""

from __future__ import annotations

import datetime
import os
import threading
from typing import Any

from octavia.cmd import driver_agent  # pyright: ignore[reportMissingImports]
from octavia.db import api, models  # pyright: ignore[reportMissingImports]
from oslo_db.exception import DBError  # pyright: ignore[reportMissingImports]
from oslo_log import log  # pyright: ignore[reportMissingImports]
from sqlalchemy import func  # pyright: ignore[reportMissingImports]
from sqlalchemy.exc import SQLAlchemyError  # pyright: ignore[reportMissingImports]

LOG = log.getLogger("octavia.driver_agent")
PENDING = ("PENDING_CREATE", "PENDING_UPDATE", "PENDING_DELETE")
LIMITS = {"ovn": datetime.timedelta(minutes=10), "amphora": datetime.timedelta(hours=2)}
"""Time for a change, by provider: OVN takes seconds, and a new server half an hour where CPUs are slow."""
PAUSE = float(os.environ.get("PAUSE", "60"))  # Tests shorten it.


def release(session: Any, provider: str, limit: datetime.timedelta) -> None:
    """Give load balancers that are PENDING for that long a status in which users can change or delete them."""
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - limit
    changed_at = func.coalesce(models.LoadBalancer.updated_at, models.LoadBalancer.created_at)
    is_late = (
        models.LoadBalancer.provider == provider,
        models.LoadBalancer.provisioning_status.in_(PENDING),
        changed_at < before,
    )
    for balancer in session.query(models.LoadBalancer).filter(*is_late).with_for_update():
        for model, belongs in parts(session, balancer.id):
            lost = session.query(model).filter(belongs, model.provisioning_status.in_(PENDING))
            lost.update({"provisioning_status": "ERROR"}, synchronize_session=False)
        status = balancer.provisioning_status
        # One that was only changed still serves its members, and lets users repeat the change.
        balancer.provisioning_status = "ACTIVE" if status == "PENDING_UPDATE" else "ERROR"
        text = "Load balancer %s was %s for %s: the process that carried it out has ended. Its status is %s now"
        LOG.warning(text, balancer.id, status, limit, balancer.provisioning_status)


def parts(session: Any, id_: str) -> list[tuple[Any, Any]]:
    """Return each model of the parts of a load balancer, with the condition by which rows belong to it."""
    pools = session.query(models.Pool.id).filter(models.Pool.load_balancer_id == id_)
    return [
        (models.Listener, models.Listener.load_balancer_id == id_),
        (models.Pool, models.Pool.load_balancer_id == id_),
        (models.Member, models.Member.pool_id.in_(pools)),
        (models.HealthMonitor, models.HealthMonitor.pool_id.in_(pools)),
    ]


def repeat() -> None:
    """Release load balancers once in `PAUSE` seconds."""
    while not threading.Event().wait(PAUSE):
        if not has_started():
            continue
        try:
            for provider, limit in LIMITS.items():
                with api.session().begin() as session:
                    release(session, provider, limit)
        except (DBError, SQLAlchemyError):
            # oslo.db has no name of its own for each error, such as too many connections.
            LOG.exception("Cannot look for interrupted load balancer changes; next try in %d s", PAUSE)


def has_started() -> bool:
    """Return True once the agent has made its last process: no process may inherit a connection to the database."""
    processes = driver_agent.PROVIDER_AGENT_PROCESSES
    return bool(processes) and all(process.pid for process in processes)


threading.Thread(target=repeat, daemon=True).start()
driver_agent.main()

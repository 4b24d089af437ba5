"""Spec of a Heat."""

from typing import Annotated

from pydantic import Field

from ...api import (
    Column,
    HttpApi,
    Purge,
    Resource,
    Scalable,
    Schedule,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
    UsesPolicies,
)

PluginDirectory = Annotated[str, Field(min_length=2, max_length=255, pattern=r"^/[A-Za-z0-9_./-]+$")]


class StackPurge(Purge):
    """Removal of the database rows of deleted stacks."""

    schedule: Schedule = "0 3 * * *"
    """Time of the removal, as a cron expression in UTC."""


# Not UsesLogging: the request in its objects of JSON holds passwords and EC2 credentials (heat.common.context.to_dict).
class HeatSpec(ServiceSpec, UsesPolicies, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Heat: stacks of servers, networks, volumes and other resources, from templates. It encrypts logins and
    hidden parameters of stacks with a key in the Secret `<name>-encryption`. **Without this Secret no stack that exists
    can be updated or deleted**: keep a copy outside of the cluster.
    """

    api: HttpApi = HttpApi()
    """Pods of the Orchestration API."""
    api_cfn: HttpApi = HttpApi()
    """The CloudFormation API, which servers use to signal wait conditions and to read metadata. It is exposed like
    `api`. With an Ingress or a Gateway, `-api-cfn` is added to the first label of `expose.host`."""
    engine: Scalable = Scalable()
    """Pods of the engine, which creates, changes and deletes the resources of stacks."""
    plugins: Annotated[
        list[PluginDirectory], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = []
    """Directories in the image of the engine with plug-ins: Python modules of further types of resources. Heat's own
    directories, such as /usr/lib/heat, are read in any case."""
    purge: StackPurge = StackPurge()
    """Removal of deleted stacks from the database."""


HEAT = Resource(
    kind="Heat",
    plural="heats",
    spec=HeatSpec,
    columns=(Column("Endpoint", ".status.endpoint"),),
)

"""OpenStack Keystone: users, projects, tokens and the service catalog."""

from __future__ import annotations

from functools import partial

from ...api import KEYSTONE_LOGIN
from ...parts.connect.korc import KINDS
from ...parts.secrets.rotation import rotation_in_progress
from ...parts.secrets.token_lifetime import review_keys
from ...plan import C5C3, CloudTemplate, Kind, Listens, SecretReaders, Service
from .ignored import ignored
from .keys import MIN_INTERVAL
from .korc import CLOUDS, SECRETS, ordered_teardown
from .model import KEYSTONE
from .programs import programs
from .service import plan

_PROJECT = "external-secrets"
_STABLE = f"{SECRETS}/v1"

SERVICE = Service(
    resource=KEYSTONE,
    plan=plan,
    observes=SecretReaders(rotation_in_progress),
    teardown=ordered_teardown,
    listens=Listens(ports={"api": [5000]}),
    template=CloudTemplate(field="keystone", phase="Identity", programs=programs),
    c5c3=C5C3(),
    kinds=(
        *KINDS,
        Kind(_STABLE, "ExternalSecret", "externalsecrets", project=_PROJECT),
        Kind(f"{SECRETS}/v1beta1", "ExternalSecret", "externalsecrets", project=_PROJECT, superseded_by=_STABLE),
        Kind(f"{SECRETS}/v1alpha1", "PushSecret", "pushsecrets", project=_PROJECT),
    ),
    # Logins of its administrator, for clients.
    shares=dict.fromkeys(("{name}-admin", "{name}-clouds", "{name}-app-credential", CLOUDS), KEYSTONE_LOGIN),
    ignores=(ignored,),
    reviews=(partial(review_keys, least=MIN_INTERVAL),),
    # The command line of administrators.
    dispensable=("client",),
)

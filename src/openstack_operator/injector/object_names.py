"""Names that the injector, its manifest and its tests share."""

from __future__ import annotations

from ..runtime.kubernetes.kinds import Kind

INJECTOR = "labels-injector"
"""The namespace and all in it, the webhook configuration, and who writes a label by the managedFields of a pod."""
CERTIFIER = f"{INJECTOR}-certifier"
WEBHOOK = "labels-injector.openstack.k8s.io"
HOST = f"{INJECTOR}.{INJECTOR}.svc"
"""The name under which the API server calls a Service."""
PORT, HEALTH = 9443, 8080
CERTIFICATE = "/etc/labels-injector"
CALLER = "caller"
"""Key of the Secret: the path at which the API server calls, which no other client knows. Its certificate for clients
cannot be relied on, because few API servers have one.
"""

CONFIGURATION = Kind(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
)

"""A stand-in of the context of a request."""

from types import SimpleNamespace


class DesignateContext(SimpleNamespace):
    @classmethod
    def get_admin_context(cls, *, request_id: str) -> "DesignateContext":
        return cls(request_id=request_id, all_tenants=False)

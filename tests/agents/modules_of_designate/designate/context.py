"""A stand-in of the context of a request."""


class DesignateContext:
    @classmethod
    def get_admin_context(cls, *, request_id: str) -> str:
        return f"administrator of {request_id}"

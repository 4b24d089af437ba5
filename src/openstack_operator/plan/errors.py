"""The exceptions a pass may end with; waiting is a value, failing is an exception."""

from __future__ import annotations

from .verdict import Verdict, failed

CONFIG_VALID = "ConfigValid"
"""Condition of a resource whose options are compared with those that its programs know."""


MOST_NAMED = 20
"""Problems that a condition names; the others are counted."""


class SpecError(Exception):
    """The user must change something; retrying cannot help.

    `path` names the field as the user writes it, dots between: `spec.fernet.rotationSchedule`. `more` are further
    (path, message) pairs, so that all is said at once.
    """

    reason = "InvalidSpec"
    incomplete = False
    """True if the missing thing may be on its way, so that the operator waits for it at first."""

    def __init__(self, path: str, message: str, *other_problems: tuple[str, str]) -> None:
        self.path = path
        self.problems = ((path, message), *other_problems)
        super().__init__("; ".join(f"{field}: {text}" for field, text in self.problems))

    @property
    def summary(self) -> str:
        """The first problems, and the number of the others: a spec may have thousands."""
        texts = [f"{field}: {text}" for field, text in self.problems[:MOST_NAMED]]
        if unnamed := len(self.problems) - len(texts):
            texts.append(f"and {unnamed} more, which `openstack-operator validate` names")
        return "; ".join(texts)

    @property
    def verdict(self) -> Verdict:
        """On what cannot be done because of it."""
        return failed(self.summary, self.reason, incomplete=self.incomplete)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """By condition, of a resource that cannot be planned because of it."""
        return {"Ready": self.verdict}


class OptionsError(SpecError):
    """Options of a user that cannot be written, or whose values a program does not take."""

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """A condition of its own says so besides."""
        return {"Ready": self.verdict, CONFIG_VALID: failed(self.summary, "InvalidOptions")}


class Incomplete(SpecError):
    """A field needs something that is missing or not complete, and that may come a moment later: the content of a
    Secret, a definition.
    """

    incomplete = True


class MissingReference(Incomplete):
    """A field names an object, or a key in it, that does not exist."""

    reason = "MissingReference"


class UnsupportedError(SpecError):
    """A field or value of the API that this version does not support."""

    reason = "Unsupported"


class Transient(Exception):
    """The world was briefly out of reach, or our view of it was stale; retrying helps."""


class Drifted(Transient):
    """An object that another operator keeps differs from its spec, and that operator does not look by itself."""

"""Which tests of clients' suites do not pass, each with its reason; all others have to."""

from __future__ import annotations

from collections.abc import Mapping

from ..outcomes import Expectations

EXPECTED: Mapping[str, Expectations] = {
    "openstacksdk": Expectations(),
    "openstackclient": Expectations(),
    "gophercloud": Expectations(),
}
PASSED: Mapping[str, int] = {}
"""Number of tests that passed in the last run in docs/evidence/suites.md."""

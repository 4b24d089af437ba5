"""Tempest: what must hold besides its goldens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.agents.tempest import runner
from openstack_operator.plan import READY, Object, Plan, Release, SpecError, Verdict, conditions, key
from openstack_operator.services.tempest.model import TEMPEST
from openstack_operator.services.tempest.results import ORDER, RUN_NOW, duration
from openstack_operator.services.tempest.service import plan
from openstack_operator.testing import context
from tests.planning import objects, planner

NIGHTLY: dict[str, Any] = {"schedule": "0 2 * * *"}
KEYSTONE = {"internalURL": "https://keystone-api:5000/v3", "trustSecret": "internal-bundle"}
SECRETS = {"internal-bundle": {"ca.crt": "an authority"}}
EXTERNAL: dict[str, Any] = {"authUrl": "https://identity.example.org", "appCredentialRef": {"name": "credential"}}


planned = planner(plan, TEMPEST, NIGHTLY, published={"Keystone": KEYSTONE}, secrets=SECRETS)


def files(made: Plan) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", "tempest-config"])


def pod(message: Any, *, day: int = 1, order: str = "", **ended: Any) -> Object:
    """The pod of a run that has ended, as a plan sees it."""
    text = message if isinstance(message, str) else json.dumps(message)
    times = {"startedAt": f"2026-01-{day:02}T02:00:00Z", "finishedAt": f"2026-01-{day:02}T02:45:12Z"}
    terminated = {"exitCode": 0, "reason": "Completed", "message": text, **times, **ended}
    labels = {ORDER: order} if order else {}
    return {
        "metadata": {"name": f"tempest-run-{day}", "labels": labels},
        "status": {"containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]},
    }


def said(passed: int = 0, failed: int = 0, skipped: int = 0, **more: Any) -> dict[str, Any]:
    """A last word of the program."""
    return {"passed": passed, "failed": failed, "skipped": skipped, "total": passed + failed + skipped, **more}


def told(made: Plan) -> Verdict:
    return made.outcome.extra_conditions["TestsPassed"]


def orders(made: Plan) -> dict[str, Object]:
    return {name: obj for (kind, name), obj in objects(made).items() if kind == "Job"}


@pytest.mark.proves("Tempest", "status.lastRun", "status.lastDuration")
@pytest.mark.proves(
    "Tempest",
    "status.results.passedTests",
    "status.results.failedTests",
    "status.results.skippedTests",
    "status.results.totalTests",
)
def test_the_newest_run_is_what_the_status_tells(release: Release) -> None:
    pods = [pod(said(1247, skipped=23), day=2), pod(said(3, 1), day=1)]
    made = planned(release, pods=pods)
    assert made.outcome.details == {
        "lastRun": "2026-01-02T02:00:00Z",
        "lastDuration": "45m12s",
        "results": {"passedTests": 1247, "failedTests": 0, "skippedTests": 23, "totalTests": 1270},
    }
    assert told(made).ready


def test_before_the_first_run_nothing_is_told_of_tests(release: Release) -> None:
    running = {"metadata": {"name": "x"}, "status": {"containerStatuses": [{"state": {"running": {}}}]}}
    made = planned(release, pods=[running, {"metadata": {"name": "y"}, "status": {}}])
    assert made.outcome.details == {}
    assert told(made).cause == "Waiting"


@pytest.mark.proves("Tempest", "status.conditions[TestsPassed]")
def test_failing_tests_are_named_and_leave_the_resource_ready(release: Release) -> None:
    names = [f"tempest.api.test_{number}" for number in range(25)]
    made = planned(release, pods=[pod(said(1, 30, failures=names))])
    verdict = told(made)
    assert (verdict.ready, verdict.cause) == (False, "TestsFailed")
    assert verdict.message.startswith("30 of 31 tests failed: tempest.api.test_0, ")
    assert verdict.message.endswith("tempest.api.test_19 and 10 more; see the pod's log")
    found = conditions(made, dict.fromkeys(made, READY))
    assert found["Ready"].ready
    assert not found["TestsPassed"].ready


@pytest.mark.parametrize(
    ("message", "told_of"),
    [
        (said(error="spec.tests.image: the cloud has no image 'cirros'"), "spec.tests.image: the cloud has no image"),
        (said(), "spec.tests selects no test"),
        ("python3: not found", "the pod ended with 127 (Error): python3: not found"),
        ('{"passed": "many"}', "the pod ended with 127"),
        ("", "the pod ended with 127 (Error)"),
    ],
)
def test_a_run_that_could_not_test_says_why(release: Release, message: Any, told_of: str) -> None:
    verdict = told(planned(release, pods=[pod(message, exitCode=127, reason="Error")]))
    assert verdict.cause == "RunFailed"
    assert verdict.message.startswith(told_of)


def test_a_run_that_was_cut_short_did_not_pass(release: Release) -> None:
    verdict = told(planned(release, pods=[pod(said(7, error="stopped after spec.tests.timeout, 240 minutes"))]))
    assert (verdict.cause, verdict.message) == ("TestsFailed", "stopped after spec.tests.timeout, 240 minutes")


def test_results_of_a_run_outlive_its_pod(release: Release) -> None:
    before = planned(release, pods=[pod(said(5, 1, failures=["a.b"]))])
    kept = {("ConfigMap", "tempest-results"): objects(before)["ConfigMap", "tempest-results"]}
    after = planned(release, children=kept)
    assert after.outcome.details == before.outcome.details
    assert told(after) == told(before)
    assert objects(after)["ConfigMap", "tempest-results"] == kept["ConfigMap", "tempest-results"]
    newer = planned(release, children=kept, pods=[pod(said(6), day=3)])
    assert newer.outcome.details["lastRun"] == "2026-01-03T02:00:00Z"


def test_each_order_is_a_run_of_its_own(release: Release) -> None:
    assert orders(planned(release)) == {}
    first, again, second = (orders(planned(release, annotations={RUN_NOW: word})) for word in ("a", "a", "b"))
    assert first == again
    assert len(first) == 1
    assert first.keys() != second.keys()
    (job,) = first.values()
    assert job["spec"]["backoffLimit"] == 0
    # It is seen by its pods, and nothing waits for it.
    assert job["spec"]["template"]["metadata"]["labels"][kube.WATCHED] == "true"
    running = kube.judge({**job, "status": {}})
    assert (running.ready, running.message) == (True, f"job {job['metadata']['name']} is running")


def test_an_order_that_was_obeyed_is_not_obeyed_again(release: Release) -> None:
    ordered = {RUN_NOW: "once"}
    (job,) = orders(planned(release, annotations=ordered)).values()
    digest = job["spec"]["template"]["metadata"]["labels"][ORDER]
    ran = planned(release, annotations=ordered, children={key(job): job}, pods=[pod(said(1), order=digest)])
    assert orders(ran), "its pod and log stay to be looked at"
    kept = {("ConfigMap", "tempest-results"): objects(ran)["ConfigMap", "tempest-results"]}
    other_pods = {"tests": {"timeout": "1h"}}
    assert orders(planned(release, other_pods, annotations=ordered, children=kept)) == {}
    assert orders(planned(release, annotations={RUN_NOW: "twice"}, children=kept))


def test_an_order_that_could_not_be_carried_out_stands(release: Release) -> None:
    ordered = {RUN_NOW: "once"}
    (job,) = orders(planned(release, annotations=ordered)).values()
    digest = job["spec"]["template"]["metadata"]["labels"][ORDER]
    tried = planned(release, annotations=ordered, pods=[pod(said(error="Keystone is gone"), order=digest)])
    assert orders(tried)


def test_a_later_run_on_schedule_does_not_make_an_order_forgotten(release: Release) -> None:
    ordered = {RUN_NOW: "once"}
    (job,) = orders(planned(release, annotations=ordered)).values()
    digest = job["spec"]["template"]["metadata"]["labels"][ORDER]
    ran = planned(release, annotations=ordered, pods=[pod(said(1), order=digest)])
    kept = {("ConfigMap", "tempest-results"): objects(ran)["ConfigMap", "tempest-results"]}
    later = planned(release, annotations=ordered, children=kept, pods=[pod(said(2), day=9)])
    assert orders(later) == {}


def test_without_a_schedule_runs_are_ordered(release: Release) -> None:
    made = plan(context(TEMPEST, {}, release=release, published={"Keystone": KEYSTONE}, secrets=SECRETS))
    assert not [kind for kind, _ in objects(made) if kind == "CronJob"]


def test_a_regular_expression_that_is_none_is_named(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.tests\.excludeRegex: not a regular expression"):
        planned(release, {"tests": {"excludeRegex": "tempest.("}})


def test_passwords_and_addresses_are_the_operators(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.config\.auth\.admin_password"):
        planned(release, {"config": {"auth": {"admin_password": "mine"}}})


def test_wanted_tests_reach_the_program_and_secrets_stay_outside_the_pod(release: Release) -> None:
    tests = {"services": ["volume"], "includeRegex": "smoke", "concurrency": 4}
    made = planned(release, {"tests": tests, "config": {"load_balancer": {"provider": "amphora"}}})
    wanted = json.loads(files(made)["run.json"])
    assert wanted["loadBalancerProvider"] == "amphora"
    assert (wanted["services"], wanted["include"], wanted["concurrency"]) == (["volume"], "smoke", 4)
    assert wanted["trust"] == "/etc/openstack-trust/internal-bundle/ca.crt"
    assert "ca_certificates_file = /etc/openstack-trust/internal-bundle/ca.crt" in files(made)["tempest.conf"]
    cron = objects(made)["CronJob", "tempest-run"]
    assert "drawn" not in json.dumps(cron)
    assert "drawn" not in json.dumps(objects(made)["ConfigMap", "tempest-results"])


@pytest.mark.parametrize(
    "data",
    [
        {"application_credential_id": "i", "application_credential_secret": "s"},
        {"clouds.yaml": "clouds: {mine: {auth: {application_credential_id: i, application_credential_secret: s}}}"},
    ],
)
def test_an_application_credential_is_taken_in_either_form(release: Release, data: dict[str, str]) -> None:
    made = planned(release, {"keystone": EXTERNAL}, secrets={"credential": {**data, "ca.crt": "an authority"}})
    wanted = json.loads(files(made)["run.json"])
    assert wanted["auth"]["identity"]["application_credential"] == {"id": "i", "secret": "s"}
    assert wanted["administrator"] == "tempest-openstack-tempest"
    assert wanted["trust"].endswith("/ca.crt")
    assert files(made)["ca.crt"] == "an authority"
    assert not [kind for kind, _ in objects(made) if kind == "KeystoneUser"]


def test_an_application_credential_is_taken_by_its_name(release: Release) -> None:
    """With the authorities where the operator itself writes them, beside the administrator's clouds.yaml."""
    auth = "{application_credential_name: n, application_credential_secret: s, username: admin}"
    data = {"clouds.yaml": f"clouds: {{openstack: {{auth: {auth}}}}}", "cacert": "an authority"}
    made = planned(release, {"keystone": EXTERNAL}, secrets={"credential": data})
    wanted = json.loads(files(made)["run.json"])
    owner = {"name": "admin", "domain": {"name": "Default"}}
    assert wanted["auth"]["identity"]["application_credential"] == {"name": "n", "secret": "s", "user": owner}
    assert wanted["trust"].endswith("/ca.crt")
    assert files(made)["ca.crt"] == "an authority"


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"application_credential_name": "n", "application_credential_secret": "s"}, "lacks username"),
        ({"application_credential_id": "i"}, "lacks application_credential_secret"),
        ({"clouds.yaml": "clouds: {}"}, "is not valid"),
        ({"clouds.yaml": "]"}, "is not valid"),
    ],
)
def test_a_secret_without_one_is_named(release: Release, data: dict[str, str], named: str) -> None:
    with pytest.raises(SpecError, match=f"'credential'.*{named}"):
        planned(release, {"keystone": EXTERNAL}, secrets={"credential": data})


def test_durations_are_written_as_go_does() -> None:
    assert [duration(seconds) for seconds in (0, 59, 60, 2712, 7200)] == ["0s", "59s", "1m0s", "45m12s", "2h0m0s"]


class Detail:
    """A detail of a test, as testtools has it."""

    class content_type:  # noqa: N801
        type = "text"

    def as_text(self) -> str:
        return "Traceback"


def test_the_program_counts_what_ends_and_what_never_does(capsys: pytest.CaptureFixture[str]) -> None:
    tally = runner.Tally()
    for status in ("success", "xfail", "skip", "fail", "uxsuccess", "inprogress", "exists", "unknown"):
        tally({"id": f"tests.{status}[id-1,smoke]", "status": status, "details": {"traceback": Detail()}})
    assert tally.counts == {"passed": 2, "failed": 3, "skipped": 1}
    assert tally.failures == ["tests.fail", "tests.uxsuccess", "tests.inprogress"]
    assert "Traceback" in capsys.readouterr().out


def test_the_program_says_why_tests_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    class Reason(Detail):
        def as_text(self) -> str:
            return "the volume service\n is not available "

    tally = runner.Tally()
    tally({"id": "setUpClass (tempest.api.volume.Test)", "status": "skip", "details": {"reason": Reason()}})
    tally({"id": "tempest.api.test_it[id-1]", "status": "skip", "details": {}})
    assert capsys.readouterr().out.splitlines() == [
        "skipped  setUpClass (tempest.api.volume.Test): the volume service is not available",
        "skipped  tempest.api.test_it",
    ]


def test_the_program_names_tests_that_are_excluded() -> None:
    listed = "\n".join(
        (
            "Repository of stestr",
            "tempest.api.identity.test_a.Test.test_it[id-1,smoke]",
            "tempest.scenario.test_b.Test.test_it[id-2,slow]",
            "plugin.tests.test_c.Test.test_it[slow]",
        )
    )
    assert runner.excluded({"exclude": r"\[.*\bslow\b.*\]"}, listed) == [
        "tempest.scenario.test_b.Test.test_it",
        "plugin.tests.test_c.Test.test_it",
    ]
    assert runner.excluded({"exclude": ""}, listed) == []


def test_the_programs_last_word_fits(capsys: pytest.CaptureFixture[str]) -> None:
    tally = runner.Tally()
    for number in range(900):
        tally({"id": f"tempest.api.compute.test_{number}", "status": "fail", "details": {}})
    text = tally.message("x" * 5000)
    assert len(text.encode()) <= 4096
    word = json.loads(text)
    assert (word["failed"], word["total"]) == (900, 900)
    assert len(word["failures"]) > 20


def test_options_of_the_user_win_over_what_was_found() -> None:
    text = runner.conf({"compute": {"flavor_ref": "found"}}, "[compute]\nflavor_ref = mine\n")
    assert text.index("found") < text.index("mine")

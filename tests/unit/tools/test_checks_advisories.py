"""A locked version that an advisory affects fails continuous integration."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools.checks import advisories
from tools.checks.advisories import AdvisoriesError, check, fixed_version, read_list, records, refreshed

ENTRY = {"id": "GHSA-x", "aliases": ["CVE-1"], "package": "py-mysql", "ranges": [["1.0", "1.1.1", ""]]}


def locked(root: Path, version: str) -> Path:
    (root / "requirements.lock").write_text(
        f"other==1.0\nPy_MySQL=={version} ; python_version > '3' \\\\\n    --hash=sha256:00\n"
    )
    return root


@pytest.mark.parametrize("version", ["1.0", "1.0.5", "1.1.0rc1", "1.1.0"])
def test_a_locked_version_within_a_range_fails(tmp_path: Path, version: str) -> None:
    assert check(locked(tmp_path, version), {"advisories": [ENTRY]}, {}) == [
        f"requirements.lock: py-mysql {version} is affected by GHSA-x; lock 1.1.1 or later"
    ]


@pytest.mark.parametrize("version", ["0.9", "1.1.1", "1.1.10", "2!1.0"])
def test_others_do_not(tmp_path: Path, version: str) -> None:
    assert check(locked(tmp_path, version), {"advisories": [ENTRY]}, {}) == []


def test_an_acceptance_needs_a_finding(tmp_path: Path) -> None:
    accepted = {("requirements*.lock", "GHSA-x"): "why"}
    assert check(locked(tmp_path, "1.0"), {"advisories": [ENTRY]}, accepted) == []
    faults = check(locked(tmp_path, "2.0"), {"advisories": [ENTRY]}, accepted)
    assert faults == ["requirements*.lock: nothing is affected by GHSA-x; remove it from ACCEPTED"]


@pytest.mark.parametrize(
    ("version", "ranges", "fixed"),
    [
        ("1.0", [["0", "", ""]], ""),
        ("1.0", [["0", "", "1.0"]], ""),
        ("1.0.1", [["0", "", "1.0"]], None),
        ("2.1", [["1.0", "1.5", ""], ["2.0", "2.2", ""]], "2.2"),
        ("1.7", [["1.0", "1.5", ""], ["2.0", "2.2", ""]], None),
    ],
)
def test_ranges(version: str, ranges: list[list[str]], fixed: str | None) -> None:
    assert fixed_version(version, ranges) == fixed


def record(**changes: Any) -> dict[str, Any]:
    events = [{"introduced": "0"}, {"fixed": "1.1.1"}, {"introduced": "2.0"}, {"last_affected": "2.3"}]
    affected = {
        "package": {"ecosystem": "PyPI", "name": "Py.MySQL"},
        "ranges": [{"type": "GIT", "events": [{"introduced": "abc"}]}, {"type": "ECOSYSTEM", "events": events}],
    }
    return {"id": "PYSEC-1", "aliases": ["CVE-1"], "details": "text", "affected": [affected], **changes}


def test_a_refresh_takes_the_facts_of_locked_packages() -> None:
    other = {"package": {"ecosystem": "npm", "name": "py-mysql"}, "versions": ["1.0"]}
    single = {"package": {"ecosystem": "PyPI", "name": "a"}, "versions": ["1.0", "no version"]}
    source = [record(), record(id="2", affected=[other]), record(id="3", aliases=[], affected=[single])]
    assert refreshed({}, source, ["py-mysql"], "2026-01-01") == {
        "date": "2026-01-01",
        "advisories": [
            {
                "id": "PYSEC-1",
                "aliases": ["CVE-1"],
                "package": "py-mysql",
                "ranges": [["0", "1.1.1", ""], ["2.0", "", "2.3"]],
            }
        ],
    }


def test_a_refresh_keeps_what_the_source_does_not_have() -> None:
    old = {"advisories": [ENTRY, {**ENTRY, "id": "GHSA-y", "aliases": []}]}
    new = refreshed(old, [record()], ["py-mysql"], "2026-01-01")
    assert [each["id"] for each in new["advisories"]] == ["GHSA-y", "PYSEC-1"], "one advisory has several names"
    gone = refreshed(old, [record(withdrawn="2026-01-01T00:00:00Z")], ["py-mysql"], "2026-01-01")
    assert [each["id"] for each in gone["advisories"]] == ["GHSA-y"]


def test_a_source_is_a_folder_or_an_archive(tmp_path: Path) -> None:
    folder = tmp_path / "vulns" / "x"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps(record()))
    (folder / "b.yaml").write_text("id: B\naffected: []\n")
    (folder / "README.md").write_text("no record")
    (folder / "c.json").write_text("[]")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    for source in (tmp_path / "vulns", tmp_path / "all.zip"):
        assert [each["id"] for each in records(str(source))] == ["PYSEC-1", "B"]
    (folder / "d.json").write_text("{")
    for source in (tmp_path / "vulns", tmp_path / "nothing", folder / "d.json"):
        with pytest.raises(AdvisoriesError):
            list(records(str(source)))


def test_the_list_of_this_repository_names_no_version_that_is_locked(root: Path) -> None:
    listed = read_list()
    assert check(root, listed) == []
    assert len(listed["advisories"]) > 100
    packages = {name for each in advisories.locks(root).values() for name, _ in each}
    assert {each["package"] for each in listed["advisories"]} <= packages


@pytest.mark.parametrize(
    ("package", "version", "advisory"),
    [
        ("h11", "0.14.0", "GHSA-vqfr-h8mv-ghfj"),
        ("pymysql", "1.1.0", "GHSA-v9hf-5j83-6xpp"),
        ("urllib3", "2.2.1", "GHSA-34jh-p97f-mpxf"),
        ("jinja2", "3.1.5", "GHSA-cpwx-vrp4-4pq7"),
    ],
)
def test_advisories_find_earlier_versions_of_our_packages(
    tmp_path: Path, package: str, version: str, advisory: str
) -> None:
    (tmp_path / "requirements.lock").write_text(f"{package}=={version}\n")
    assert any(f"is affected by {advisory}; " in each for each in check(tmp_path, read_list(), {}))


def test_an_old_list_fails_where_an_age_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert advisories.main([]) == 0
    assert advisories.main(["--max-age", "-1"]) == 1
    assert "days old; refresh it" in capsys.readouterr().out

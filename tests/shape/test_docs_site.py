"""The documentation as a site: it builds without a warning, shows what the pages say, and asks no other server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.publish.pictures import picture
from tools.publish.site import build, main, relinked, sections, staged

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    assert main(["--output", str(folder)]) == 0, "it builds with --strict: see the warnings above"
    return folder / "site"


def articles(site: Path) -> dict[str, str]:
    """What the pages of the site say, as HTML without its blocks of code."""
    found: dict[str, str] = {}
    for path in site.rglob("*.html"):
        article = path.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        found[path.relative_to(site).as_posix()] = re.sub(r"<pre.*?</pre>", "", article, flags=re.DOTALL)
    return found


@pytest.mark.seconds
def test_each_page_is_there_and_no_markup_is_left(site: Path) -> None:
    pages = articles(site)
    names = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert {name.replace("README.html", "index.html") for name in names} <= set(pages)
    left: dict[str, list[str]] = {}
    for name, article in pages.items():
        prose = re.sub(r"<[^>]+>", "", re.sub(r"<(code|svg|h[1-6])\b.*?</\1>", "", article, flags=re.DOTALL))
        if found := re.findall(r"\]\(.*|^\s*(?:- |[0-9]+\. |\|).*|\| --- .*|\*\*.*", prose, re.MULTILINE):
            left[name] = found
    assert left == {}
    assert all("\\|" not in code for article in pages.values() for code in re.findall(r"<code>.*?</code>", article))


@pytest.mark.seconds
def test_a_browser_asks_no_other_server(site: Path) -> None:
    checks = 0
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        checks += 1
        assert re.findall(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"?(?:https?:)?//", text) == [], path
        # The theme fetches the program that draws these.
        assert 'class="mermaid"' not in text
    assert checks


def index(site: Path) -> dict[str, Any]:
    """The index of the search, as a page that was opened from a folder gets it: by a script with one assignment."""
    name, _, text = (site / "search" / "search_index.js").read_text(encoding="utf-8").partition(" = ")
    assert name == "var __index"
    return json.loads(text)


@pytest.mark.seconds
def test_the_search_needs_no_web_server(site: Path) -> None:
    """The theme's program reads the index by a script where a page was opened from a folder, and starts a worker, which
    a file of ours makes of a frame there.
    """
    page = (site / "how-to" / "restore-etcd.html").read_text(encoding="utf-8")
    [ours, theme] = re.findall(r'<script src="([^"]+)"', page)
    assert ours == "../assets/iframe-worker.js", "it comes before the theme, which starts a worker"
    program = (site / "how-to" / theme).resolve().read_text(encoding="utf-8")
    assert 'location.protocol==="file:"' in program
    assert "search/search_index.js" in program
    assert 'location.protocol === "file:"' in (site / "assets" / "iframe-worker.js").read_text(encoding="utf-8")
    places = {entry["location"] for entry in index(site)["docs"]}
    assert {"index.html", "how-to/restore-etcd.html", "reference/conditions.html", "decisions/index.html"} <= places
    assert {place for place in places if not (site / place.partition("#")[0]).is_file()} == set()


SEARCH = """
const fs = require("fs"), vm = require("vm"), [program, index, ...queries] = process.argv.slice(1);
let answer = () => {}, listener;
const worker = vm.createContext({console, postMessage: (data) => answer(data),
    addEventListener: (_, given) => { listener = given; }});
worker.self = worker;
vm.runInContext(fs.readFileSync(index, "utf8"), worker);
vm.runInContext(fs.readFileSync(program, "utf8"), worker);
const ask = (data) => new Promise((resolve) => { answer = resolve; listener({data}); });
(async () => {
  await ask({type: 0, data: {...worker.__index, options: {suggest: false}}});
  const found = {};
  for (const query of queries)
    found[query] = (await ask({type: 2, data: query})).data.items.map((item) => item[0].location);
  console.log(JSON.stringify(found));
})();
"""
"""Asks the theme's own program of the search, in node, as a page does."""


@pytest.mark.seconds
def test_a_query_finds_its_page(site: Path) -> None:
    checks = 0
    queries = {"restore etcd": "how-to/restore-etcd.html", "ConfigValid": "how-to/change-a-cloud.html"}
    if not shutil.which("node"):
        # The program of the theme cannot run; that its index has the words is what is left to see.
        for query, place in queries.items():
            words = [f"{entry['title']} {entry['text']}" for entry in index(site)["docs"] if place in entry["location"]]
            checks += 1
            assert all(word.lower() in " ".join(words).lower() for word in query.split())
        return
    [program] = site.glob("assets/javascripts/workers/search.*.min.js")
    command = ["node", "-e", SEARCH, "--", str(program), str(site / "search" / "search_index.js"), *queries]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    for query, place in queries.items():
        checks += 1
        assert place in [location.partition("#")[0] for location in found[query][:5]], (query, found[query][:5])
    assert checks


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("text", "status"),
    [("[a](#one)", 0), ("[a](#two)", 1), ("[a](two.md)", 1), ("[a](README.md#two)", 1), ("[a](/two)", 1)],
)
def test_a_dead_link_fails_the_build(tmp_path: Path, text: str, status: int) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text(f"# Home\n\n## One\n\n{text}\n", encoding="utf-8")
    config = tmp_path / "docs.yml"
    nav = [{"Home": "README.md"}]
    places = {"docs_dir": str(tmp_path / "docs"), "site_dir": str(tmp_path / "site")}
    config.write_text(yaml.safe_dump({"INHERIT": str(ROOT / "mkdocs.yml"), "nav": nav, **places}), encoding="utf-8")
    assert build(config) == status


def test_sections_are_those_of_the_home_page() -> None:
    titles = [title for section in sections() for title in section]
    assert titles[:5] == ["Home", "Tutorials", "How-to", "Reference", "Explanation"]
    assert {"Decisions", "Figures from our laboratory", "Project"} < set(titles)
    assert ("Runbooks" in titles) == (ROOT / "docs" / "runbooks").is_dir()


def test_links_out_of_the_documentation_lead_into_the_site() -> None:
    assert "](project/README.md#in-a-cluster-of-your-own)" in relinked("docs/README.md")
    page = relinked("docs/how-to/install-the-operator.md")
    assert "](../explanation/security.md#" in page
    assert staged("deploy/operator.yaml") == "project/deploy/operator.yaml.txt"


def test_diagrams_become_pictures() -> None:
    for page in ("README.md", "docs/explanation/architecture.md", "docs/explanation/roll-outs.md"):
        assert (ROOT / page).read_text(encoding="utf-8").count("```mermaid") == relinked(page).count("<svg")
    drawn = picture("flowchart TD\n  a[one <b>] -->|then| b{two}\n  b --> a\n")
    assert "one &lt;b&gt;" in drawn
    assert drawn.count("marker-end") == 2
    assert "\n\n" not in drawn


@pytest.mark.parametrize("diagram", ["pie\n  a\n", "flowchart TD\n  a & b --> c\n", "sequenceDiagram\n  loop\n"])
def test_a_diagram_that_is_not_understood_is_refused(diagram: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        picture(diagram)

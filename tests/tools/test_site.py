"""The documentation as a site: its navigation, its pages, its checks, versions beside each other, and a whole build."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from highwater.common.errors import UsageError
from tools.release.building import ROOT, Build
from tools.release.site import site_archive
from tools.site import __main__ as command
from tools.site import picture
from tools.site.building import NAME, build_version, unpack, write_front
from tools.site.checking import faults_of
from tools.site.pages import place_of, stage
from tools.site.shelves import llms_text, navigation, read_shelves

_EPOCH_S = 1_700_000_000
_FILES = {
    "README.md": "# Highwater\n\nMeasures brokers,\nand tunes hosts.\n\n![A](images/a.png) [all](docs/README.md)\n",
    "CHANGELOG.md": "# Changes\n",
    "playbooks/README.md": "# Playbooks\n",
    "docs/README.md": "# All pages\n\n## Start\n\nFirst:\n\n- [Install](install.md): to begin.\n"
    "- [Results](results/README.md), [the lab](../playbooks/README.md).\n",
    "docs/install.md": "# Install\n\n"
    "[loads](../loads/), [one](../loads/a.yaml), [the gate](../.ci/gate), [below](#here).\n\n## Here\n",
    "docs/results/README.md": "# Results\n\n- [speed.md](speed.md)\n",
    "docs/results/speed.md": "# Speed\n\n```\n[not a](link)\n```\n",
    "images/a.png": "a picture",
    "loads/a.yaml": "rate: 1\n",
    "docs/table.md": "# Table\n\n| a |\n|---|\n| `x\\|y` |\n",
    "loads/b/c.yaml": "```: 1\n",
    ".ci/gate": "#!/bin/sh\n",
    "monitor/web/static/icon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small repository with documentation."""
    place = tmp_path / "source"
    for name, text in _FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, "utf-8")
    shutil.copytree(ROOT / "tools/site", place / "tools/site", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "--quiet"], cwd=place, check=True)
    return place


def _build(source: Path, tmp_path: Path) -> Build:
    for name in ("out", "scratch"):
        (tmp_path / name).mkdir()
    return Build(source, tmp_path / "out", tmp_path / "scratch", _EPOCH_S, "0.2.0")


def test_each_page_of_the_documentation_is_in_the_navigation() -> None:
    text = json.dumps(navigation(ROOT))
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f'"{page}"' not in text] == []


def test_the_navigation_is_that_of_the_shelves(source: Path) -> None:
    assert navigation(source)[1] == {
        "Start": [
            {
                "First": [
                    {"Install": "docs/install.md"},
                    {"Results": ["docs/results/README.md", "docs/results/speed.md"]},
                    {"The lab": "playbooks/README.md"},
                ]
            }
        ]
    }


def test_a_line_that_is_no_entry_is_named(source: Path) -> None:
    with (source / "docs/README.md").open("a") as file:
        file.write("more words\n")
    with pytest.raises(UsageError, match=r"docs/README\.md:9: 'more words' is no shelf"):
        read_shelves(source)


def test_llms_txt_has_a_title_a_summary_and_a_line_for_each_page(source: Path) -> None:
    assert llms_text(source, "0.2.0/").splitlines() == [
        "# Highwater",
        "",
        "> Measures brokers, and tunes hosts.",
        "",
        "## Start",
        "",
        "- [Install](0.2.0/docs/install.md): to begin.",
        "- [Results](0.2.0/docs/results/README.md)",
        "- [The lab](0.2.0/playbooks/README.md)",
    ]


def test_what_links_lead_to_becomes_a_page(source: Path, tmp_path: Path) -> None:
    names = stage(source, tmp_path / "pages")
    assert {"loads/a.yaml", "loads/b/c.yaml", ".ci/gate", "images/a.png"} <= set(names)
    assert "monitor/web/static/icon.svg" not in names
    text = (tmp_path / "pages/docs/install.md").read_text("utf-8")
    assert "[loads](../loads/README.md), [one](../loads/a.yaml.md), [the gate](../ci/gate.md)" in text
    assert "[a.yaml](a.yaml.md)" in (tmp_path / "pages/loads/README.md").read_text("utf-8")
    assert "````yaml\n```: 1\n````" in (tmp_path / "pages/loads/b/c.yaml.md").read_text("utf-8")
    assert "| `x|y` |" in (tmp_path / "pages/docs/table.md").read_text("utf-8")
    assert "[not a](link)" in (tmp_path / "pages/docs/results/speed.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="no.html">', "index.html: no.html leads nowhere"),
        ('<a href="#no">', "index.html: #no leads nowhere"),
        ('<a href="b/#no">', "index.html: b/#no leads nowhere"),
        ('<script src="//cdn.example/a.js"></script>', "index.html: //cdn.example/a.js is fetched from outside"),
        ('<link href="https://fonts.example/a">', "index.html: https://fonts.example/a is fetched from outside"),
        ('<a id="here" href="#here"><a href="b/#there"><a href="https://elsewhere.example">', None),
    ],
)
def test_faults_of_pages(page: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/index.html").write_text('<h1 id="there">', "utf-8")
    (tmp_path / "index.html").write_text(page, "utf-8")
    assert faults_of(tmp_path) == ([fault] if fault else [])


def test_faults_of_styles_and_of_the_search(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import url('https://fonts.example/a'); b { background: url(a.svg) }", "utf-8")
    (tmp_path / "0.2.0/search").mkdir(parents=True)
    entries = [{"location": "gone.html#a", "title": "", "text": ""}]
    (tmp_path / "0.2.0/search/search_index.js").write_text(f"var __index = {json.dumps({'docs': entries})}", "utf-8")
    assert faults_of(tmp_path) == [
        "a.css: a style is fetched from https://fonts.example/a",
        "0.2.0: the search leads to gone.html#a, which is not there",
    ]


def _archive(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 1
            packed.addfile(entry, io.BytesIO(b"x"))
    return path


def test_versions_stand_beside_each_other_and_the_newest_is_first(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    for version in ("0.10.0", "0.9.0"):
        names = [
            f"{NAME}/index.html",
            *(f"{NAME}/{version}/{name}" for name in ("index.html", "llms.txt", "llms-full.txt")),
        ]
        assert unpack(_archive(tmp_path / f"{version}.tar.gz", names), folder) == [version]
    write_front(folder)
    listed = json.loads((folder / "versions.json").read_text("utf-8"))
    assert [(row["version"], row["aliases"]) for row in listed] == [("0.10.0", ["latest"]), ("0.9.0", [])]
    assert 'url=0.10.0/index.html"' in (folder / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    "names", [["highwater-0.1.0/README.md"], [f"{NAME}/index.html"], [f"{NAME}/../../a"], [f"{NAME}/notes/index.html"]]
)
def test_another_archive_is_refused(names: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.tar\.gz"):
        unpack(_archive(tmp_path / "a.tar.gz", names), tmp_path / NAME)
    assert not (tmp_path / NAME).exists()


def test_a_directory_that_is_no_site_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no site"):
        command.main(out=tmp_path)


def test_a_picture_of_no_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file: name the report"):
        picture.main(tmp_path / "report.html")


@pytest.mark.slow
def test_a_link_that_leads_nowhere_fails_the_build(source: Path, tmp_path: Path) -> None:
    (source / "docs/install.md").write_text("# Install\n\n[gone](gone.md) [lost](results/README.md#lost)\n", "utf-8")
    with pytest.raises(UsageError) as failed:
        build_version(_build(source, tmp_path), tmp_path / NAME)
    assert "'gone.md'" in str(failed.value)
    assert "'#lost'" in str(failed.value)


@pytest.mark.slow
def test_the_documentation_builds_and_each_page_has_what_its_file_has(tmp_path: Path) -> None:
    """Code forges and MkDocs read lists and tables by different rules."""
    build = _build(ROOT, tmp_path)
    site_archive(build)
    made = build.scratch / NAME / build.version
    reader = MarkdownIt("commonmark").enable("table")
    unlike = {}
    for file in sorted(made.rglob("*.md")):
        name = str(file.relative_to(made))
        page = file.with_name("index.html") if file.name == "README.md" else file.with_suffix(".html")
        theirs, ours = _parts(reader.render(file.read_text("utf-8"))), _parts(_article(page.read_text("utf-8")))
        if theirs != ours:
            unlike[name] = {tag: (theirs[tag], ours[tag]) for tag in theirs | ours if theirs[tag] != ours[tag]}
        assert place_of(name) == name
    assert unlike == {}


def _article(page: str) -> str:
    return page.partition("<article")[2].partition("</article>")[0]


def _parts(text: str) -> Counter[str]:
    found: Counter[str] = Counter()

    class _Reader(HTMLParser):
        inside = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = tag if self.inside != "pre" else "pre"
            if tag in {"table", "tr", "td", "li", "pre", "h1", "h2", "h3", "img", "strong", "em"}:
                found[tag] += 1

        def handle_endtag(self, tag: str) -> None:
            self.inside = "" if tag == "pre" else self.inside

        def handle_data(self, data: str) -> None:
            if self.inside == "code" and "|" in data:
                found[data.strip()] += 1

    _Reader().feed(text)
    return found

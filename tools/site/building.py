"""Builds the site of one version with MkDocs, and puts the folders of several versions beside each other."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Final

import yaml
from packaging.version import InvalidVersion, Version

from highwater.common.errors import UsageError
from tools.release.building import Build, pinned_tools
from tools.site.pages import place_of, stage
from tools.site.shelves import llms_text, navigation, read_shelves

NAME: Final = "highwater-docs"
_SETTINGS: Final = "tools/site"
# Pages of a host whose name is not known here; what is for debuggers, and for other languages than English.
_NOT_NEEDED: Final = ("404.html", "sitemap.xml*", "**/*.map", "assets/javascripts/lunr")


def build_version(build: Build, folder: Path) -> Path:
    """Build `folder`/VERSION, with the Markdown files beside the pages. Raises UsageError if a link leads nowhere."""
    place = build.scratch / "site"
    pages = place / "pages"
    pages.mkdir(parents=True)
    names = stage(build.source, pages)
    icon = pages / "images/icon.svg"
    icon.parent.mkdir(exist_ok=True)
    shutil.copyfile(build.source / "monitor/web/static/icon.svg", icon)
    settings = {
        "INHERIT": str(build.source / _SETTINGS / "mkdocs.yml"),
        "site_name": f"Highwater {build.version}",
        "docs_dir": str(pages),
        "theme": {"custom_dir": str(build.source / _SETTINGS / "theme")},
        "nav": navigation(build.source),
    }
    (place / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), "utf-8")
    made = folder / build.version
    command = (sys.executable, "-m", "mkdocs", "build", "--config-file", place / "mkdocs.yml")
    tools = pinned_tools("site", "fetching what builds the documentation")
    try:
        build.run(*command, "--site-dir", made, PYTHONPATH=str(tools), NO_MKDOCS_2_WARNING="true")
    except UsageError as error:
        raise UsageError(f"MkDocs: {str(error).partition(' failed with ')[2]}") from None
    for path in [path for pattern in _NOT_NEEDED for path in made.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (licence,) = tools.glob("mkdocs_material-*.dist-info/licenses/LICENSE")
    shutil.copyfile(licence, made / "assets/LICENSE")
    _add_worker(made)
    for name in names:
        if name.endswith(".md"):
            shutil.copyfile(build.source / name, made / place_of(name))
    (made / "llms.txt").write_text(llms_text(build.source, ""), "utf-8")
    (made / "llms-full.txt").write_text(_whole_text(build.source), "utf-8")
    return made


def _add_worker(made: Path) -> None:
    """The text of the search worker as a script, for pages that are opened as files."""
    (worker,) = made.glob("assets/javascripts/workers/search.*.min.js")
    text = worker.read_text("utf-8").partition("\n//# sourceMappingURL")[0]
    (made / "javascripts/search-worker.js").write_text(f"var searchWorker = {json.dumps(text)}\n", "utf-8")


def _whole_text(source: Path) -> str:
    """The text of all pages of the shelves."""
    paths = ["README.md", *(entry.path for shelf in read_shelves(source) for entry in shelf.entries)]
    return "\n".join(f"<!-- {path} -->\n\n{(source / path).read_text('utf-8')}" for path in dict.fromkeys(paths))


def unpack(archive: Path, folder: Path) -> list[str]:
    """Add the versions of an archive to those in `folder`, and return them. Raises UsageError for another archive."""
    try:
        with tarfile.open(archive) as packed:
            files = {Path(each.name): packed.extractfile(each) for each in packed.getmembers() if each.isfile()}
            pages = {path.relative_to(NAME): file for path, file in files.items() if path.is_relative_to(NAME)}
            versions = sorted({path.parts[0] for path in pages if len(path.parts) > 1})
            if len(pages) < len(files) or not versions or not all(map(_version, versions)):
                raise UsageError(f"{archive} is no archive of the documentation: it lacks {NAME}/VERSION/, or has more")
            for path, file in pages.items():
                if ".." in path.parts or file is None:
                    raise UsageError(f"{archive}: {path} would be written elsewhere")
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(file.read())
    except (OSError, tarfile.TarError) as error:
        reason = str(error).partition("\n")[0].removesuffix(":")
        raise UsageError(f"{archive} is no archive of the documentation: {reason}") from None
    return versions


def versions_of(folder: Path) -> list[str]:
    """The newest first."""
    found = [version for path in folder.iterdir() if path.is_dir() and (version := _version(path.name))]
    return [str(version) for version in sorted(found, reverse=True)]


def _version(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None


def write_front(folder: Path) -> None:
    """Write what stands above the versions: their list for programs and for pages, and the way to the newest."""
    versions = versions_of(folder)
    newest = versions[0]
    rows = [{"version": each, "title": each, "aliases": ["latest"] if each == newest else []} for each in versions]
    text = json.dumps(rows, indent=1)
    (folder / "versions.json").write_text(text + "\n", "utf-8")
    (folder / "versions.js").write_text(f"var highwaterVersions = {text}\n", "utf-8")
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Highwater</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<a href="{newest}/index.html">Highwater {newest}</a></html>\n',
        "utf-8",
    )
    for name in ("llms.txt", "llms-full.txt"):
        text = (folder / newest / name).read_text("utf-8")
        (folder / name).write_text(text.replace("](", f"]({newest}/") if name == "llms.txt" else text, "utf-8")

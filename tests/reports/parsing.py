"""A page read back strictly: every element must be closed in order, every attribute be there once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree import ElementTree

_VOID = frozenset({"meta", "link", "input", "br", "wbr", "hr", "img"})


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """This element and all below it, in document order."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def find(self, name: str, **wanted: str) -> list[Element]:
        return [e for e in self if e.name == name and all(e.attributes.get(k) == v for k, v in wanted.items())]

    def with_id(self, identity: str) -> Element:
        (found,) = [e for e in self if e.attributes.get("id") == identity]
        return found

    @property
    def text(self) -> str:
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, Element):
                yield from child._texts()
            else:
                yield child

    def rows(self) -> list[list[str]]:
        """Of a table: the text of every field of every row."""
        return [[f.text for f in row if f.name in ("td", "th")] for row in self.find("tr")]


Document = Element


def parse_drawing(text: str) -> ElementTree.Element:
    """One SVG drawing; raises when it is not well-formed XML."""
    return ElementTree.fromstring(text)  # noqa: S314 - drawn by ourselves


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.document = Element("document", {})
        self.open = [self.document]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        element = self.open.pop()
        assert element.name == tag, f"</{tag}> closes <{element.name}> at line {self.getpos()[0]}"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Document:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.document], f"never closed: {[e.name for e in reader.open[1:]]}"
    return reader.document

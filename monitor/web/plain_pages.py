"""A page of one title and one sentence, for refusals: it needs no template and no session."""

from __future__ import annotations

from markupsafe import escape


def plain_page(title: str, text: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{escape(title)} – Highwater</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/static/monitor.css"></head>'
        f'<body><main class="narrow"><h1>{escape(title)}</h1><p>{escape(text)}</p>'
        '<p><a href="/">To the overview</a></p></main></body></html>'
    )

"""A page that runs nothing, and loads nothing: what the feedback and the class report have in common.

The first lines forbid it to the browser, too: a script that came in by a mistake of ours would not run.
"""

from __future__ import annotations

import html

from distlib.printable import printable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --page: #ffffff; --soft: #f3f5f7; --line: #c8ccd0; --dim: #57606a;
  --good: #116b2f; --good-soft: #e3f5e8; --part: #7a5200; --part-soft: #fdf3d8; --bad: #a8201a; --bad-soft: #fdeceb;
  --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --page: #14181d; --soft: #22272e; --line: #444c56;
  --dim: #9aa5b1; --good: #6fdd8b; --good-soft: #14301d; --part: #f0c561; --part-soft: #352a10; --bad: #ff938a;
  --bad-soft: #3a1a19; --link: #79b8ff; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 0 auto;
  padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: var(--link); } code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .875em; }
pre { margin: .5rem 0; } .dim { color: var(--dim); }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .8rem; text-align: left; vertical-align: top; }
thead th { background: var(--soft); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; }
"""


def page_of(title: str, body: str, style: str) -> str:
    """A whole page.

    Args:
        title: plain text.
        body: HTML.
        style: CSS, after what all pages have.
    """
    text = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{plain(title)}</title>\n'
        f"<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
    return text.encode("utf-8", "replace").decode()


def plain(text: str) -> str:
    """A text on one line, as HTML."""
    return html.escape(printable(text))


def lines_of(text: str) -> str:
    """A text of several lines, as HTML for a <pre>."""
    return "\n".join(map(plain, text.expandtabs(4).splitlines()))

"""Formulas as MathML, which browsers draw and screen readers read: no script, no font, nothing to load."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml


def to_mathml(tex: str, as_block: bool = False) -> str:
    """A formula in LaTeX as MathML.

    LaTeX takes single digits without braces, as in \\frac12, and the sign …; docutils does not.

    Raises:
        ValueError: it has a command that is not known.
    """
    braced = re.sub(r"(\\t?frac)\s*(\d)\s*(\d)", r"\1{\2}{\3}", tex.replace("…", r"\ldots "))
    try:
        return str(tex2mathml(braced.strip(), as_block=as_block))
    except MathError as error:
        raise ValueError(f"the formula {tex!r} can't be shown: {error}") from None


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx: html_math_renderer = "mathml" writes formulas like this from now on."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(to_mathml(node.astext()))
    raise nodes.SkipNode


def _write_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{to_mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode

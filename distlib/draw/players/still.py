"""The last step of a scene as an image: what stands for a player where there is no widget.

It is SVG inside an <img>. That survives JupyterLab's cleaning of untrusted notebooks, as the pixels of a
`Picture` do, but needs no matplotlib: a few milliseconds instead of a second. An image does not see the color of the
text around it, so there are two, with our ink for light and for dark paper as "currentColor".
"""

from __future__ import annotations

import html
from xml.etree.ElementTree import Element, SubElement, tostring

from distlib.draw.light_and_dark import on_both_papers
from distlib.draw.players.scene import Look, Scene
from distlib.draw.style import DARK_INK, INK


def still_html(scene: Scene) -> str:
    """The image of the last step with alternative text, and below it what is odd."""
    light, dark = (still_svg(scene, ink).encode() for ink in (INK, DARK_INK))
    image = on_both_papers(light, dark, "image/svg+xml", scene.alt, round(scene.width))
    warning = scene.steps[-1].warning
    return f'{image}<pre style="white-space:pre-wrap">{html.escape(warning)}</pre>' if warning else image


def still_svg(scene: Scene, ink: str = INK) -> str:
    """The last step as an SVG document. Nothing is pale in it: there is no step that could stand out."""
    last, size = len(scene.steps) - 1, scene.to_data()
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "color": ink})
    svg.attrib |= {"width": str(size["width"]), "height": str(size["height"])}
    svg.attrib |= {
        "viewBox": f"0 0 {size['width']} {size['height']}",
        "font-family": "DejaVu Sans, Verdana, sans-serif",
    }
    patterns = SubElement(svg, "defs")
    for shape in scene.shapes:
        seen = shape.first <= last and (shape.end is None or last < shape.end)
        if seen and shape.attributes.get("fill") != "transparent":
            SubElement(svg, shape.tag, _with_pattern(shape.attributes, patterns)).text = shape.text
    return tostring(svg, encoding="unicode")


def _with_pattern(look: Look, patterns: Element) -> dict[str, str]:
    """The attributes as text, a hatching as a reference to its pattern, which is defined at its first use."""
    attributes = {name: str(value) for name, value in look.items()}
    kind, _, color = attributes.get("fill", "").partition(":")
    if kind != "hatch":
        return attributes
    name = f"hatch-{color.removeprefix('#')}"
    if patterns.find(f"*[@id='{name}']") is None:
        frame = {"id": name, "width": "5", "height": "5", "patternUnits": "userSpaceOnUse"}
        pattern = SubElement(patterns, "pattern", frame | {"patternTransform": "rotate(45)"})
        SubElement(pattern, "path", {"d": "M0 0 V5", "stroke": color, "stroke-width": "2.4"})
    return attributes | {"fill": f"url(#{name})"}

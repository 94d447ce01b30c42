"""What can't be seen or read of our pictures, players and forms on a page, measured in the browser that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEXT, LINE, SMALLEST = 4.5, 3.0, 9.0
"""The least contrast of text and of lines by WCAG 2.2, and the height of the smallest text in CSS pixels."""


def faults(page: Page) -> list[str]:
    """Text that is small, pale or cut; lines that are pale; what sticks out of its place; what has no words."""
    found: list[str] = page.evaluate(_MEASURE, {"text": TEXT, "line": LINE, "smallest": SMALLEST})
    return found


_MEASURE = r"""
({ text: leastOfText, line: leastOfLines, smallest }) => {
  const faults = [];
  const seen = (one) => one.getClientRects().length > 0;
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  // Colors as red, green, blue and alpha; what lies on what; contrast by WCAG 2.2.
  const parse = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const mix = (top, below, alpha) => [0, 1, 2].map((at) => alpha * top[at] + (1 - alpha) * below[at]);
  const light = (color) => {
    const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = color.map((one) => linear(one / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const above = (one) => (one ? [one, ...above(one.parentElement)] : []);
  const paperOf = (one) =>
    above(one).reverse().reduce((paper, box) => {
      const color = parse(getComputedStyle(box).backgroundColor);
      return mix(color, paper, color[3]);
    }, [255, 255, 255]);
  const opacityOf = (one) => above(one).reduce((product, box) => product * getComputedStyle(box).opacity, 1);

  // A solid shape that was drawn before, and on which a point lies.
  const solid = (shape) => {
    const { fill, fillOpacity } = getComputedStyle(shape);
    if (fill === "none" || fill.startsWith("url")) return null;
    const color = parse(fill);
    return { color, alpha: color[3] * fillOpacity * getComputedStyle(shape).opacity };
  };
  const holds = (shape, x, y) => {
    const box = shape.getBoundingClientRect();
    return box.width > 3 && box.height > 3 && box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  };

  function lookAtPicture(player, svg) {
    const title = player.getAttribute("aria-label");
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    const paper = paperOf(player);
    const shapes = [...svg.children].filter((one) => one.tagName !== "defs" && seen(one));
    const say = (one, what) => faults.push(`${title}: "${one.textContent}" ${what}`);
    const areas = shapes.filter(({ tagName }) => tagName === "rect" || tagName === "circle");
    for (const one of shapes.filter(({ tagName }) => tagName === "text")) {
      const box = one.getBoundingClientRect();
      const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      const size = scale * parseFloat(getComputedStyle(one).fontSize);
      if (size < smallest) say(one, `is ${size.toFixed(1)} pixels high`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1) say(one, "is cut");
      const { stroke, paintOrder } = getComputedStyle(one); // a line around letters, drawn before them
      const around = stroke !== "none" && paintOrder.startsWith("stroke") ? [{ color: parse(stroke), alpha: 1 }] : [];
      const areasBelow = areas
        .filter((area) => area.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING && holds(area, x, y))
        .map(solid)
        .filter((area) => area);
      const below = [...areasBelow, ...around].reduce((paint, { color, alpha }) => mix(color, paint, alpha), paper);
      const ink = solid(one);
      const ratio = contrast(mix(ink.color, below, ink.alpha), below);
      if (ratio < leastOfText) say(one, `has a contrast of ${ratio.toFixed(1)}`);
    }
    for (const one of shapes) {
      if (one.tagName !== "path" || one.classList.contains("distlib-past")) continue;
      const { stroke, opacity } = getComputedStyle(one);
      const color = parse(stroke);
      const ratio = stroke === "none" ? 21 : contrast(mix(color, paper, color[3] * opacity), paper);
      if (color[3] && ratio < leastOfLines) say(one, `is a line of ${stroke} with a contrast of ${ratio.toFixed(1)}`);
    }
  }

  function lookAtWords(root) {
    const paper = paperOf(root);
    for (const one of root.querySelectorAll("p, li, span, button, legend, label, input[type=text]")) {
      if (!seen(one) || !(one.textContent || one.value || "").trim()) continue;
      const color = parse(getComputedStyle(one).color);
      const ratio = contrast(mix(color, paper, color[3] * opacityOf(one)), paper);
      if (ratio < leastOfText) faults.push(`"${one.textContent}" has a contrast of ${ratio.toFixed(1)}`);
      if (parseFloat(getComputedStyle(one).fontSize) < smallest) faults.push(`"${one.textContent}" is small`);
    }
    if (root.scrollWidth > root.clientWidth) faults.push(`sticks out: ${root.textContent.slice(0, 60)}`);
  }

  const players = [...document.querySelectorAll(".distlib-player")].filter(seen);
  for (const player of players) {
    const svg = player.querySelector("svg");
    const described = document.getElementById(svg.getAttribute("aria-describedby"));
    if (svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label")) faults.push("a picture without a label");
    if (!(described?.textContent.length > 40)) faults.push(`${player.getAttribute("aria-label")}: the run is not told`);
    for (const one of player.querySelectorAll("button, input"))
      if (seen(one) && !one.getAttribute("aria-label")) faults.push(`a control without a name: ${one.outerHTML}`);
    lookAtPicture(player, svg);
    lookAtWords(player);
  }
  for (const form of document.querySelectorAll(".distlib-form, .distlib-slider")) if (seen(form)) lookAtWords(form);
  for (const papers of [...document.querySelectorAll(".distlib-papers")].filter(seen)) {
    const images = [...papers.querySelectorAll("img")].filter(seen);
    const dark = light(paperOf(papers)) < 0.2 ? "distlib-dark" : "distlib-light";
    if (images.length !== 1 || images[0].className !== dark) faults.push(`not one picture, ${dark}`);
    if (!(images[0].alt.length > 25)) faults.push("a picture that nothing describes");
  }
  for (const place of document.querySelectorAll(".jp-OutputArea-output"))
    if (place.scrollWidth > place.clientWidth + 1) faults.push(`sticks out: ${place.textContent.slice(0, 60)}`);
  return faults;
}
"""

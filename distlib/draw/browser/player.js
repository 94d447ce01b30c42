// Plays a scene (distlib/draw/players/scene.py): shows and hides shapes, step by step, and says each step in words.
// Nothing is loaded, and the kernel is not asked: what is shown was sent with the widget.

const SVG = "http://www.w3.org/2000/svg";
const PLAYED_IN = 20000; // milliseconds that a run takes from start to end, if its steps are neither too fast nor too slow
const LEGIBLE = 9 / 11; // a narrow scene is shown as small as this: then its smallest text is 9 pixels high
const NARROWEST = 740; // CSS pixels: with less room the picture is scrolled, so that its text stays legible
const MOST_LINES = 8; // of the list below the picture; the rest is scrolled
const GAP = 10; // CSS pixels between a thing and its tip
const [FASTEST, SLOWEST] = [120, 1200];

export default {
  render({ model, el }) {
    const player = new Player(model, el);
    return () => player.remove();
  },
};

class Player {
  constructor(model, el) {
    this.model = model;
    // Each widget loads this module anew, so there is nothing here that could count them.
    this.id = `distlib-player-${Math.random().toString(36).slice(2)}`;
    this.timer = null;
    this.root = make("div", { class: "distlib-player distlib-live", role: "group" });
    this.onKey = this.onKey.bind(this);
    this.draw = () => this.show(model.get("step"));
    this.rebuild = () => this.build();
    this.listen();
    this.build();
    el.append(this.root);
    this.room = new ResizeObserver(() => this.fit());
    this.room.observe(this.root);
  }

  listen() {
    this.model.on("change:step", this.draw);
    this.model.on("change:scene", this.rebuild);
    // JupyterLab takes keys at the document, on their way down. Ours are taken above it, while the focus is in here.
    this.root.addEventListener("focusin", () => window.addEventListener("keydown", this.onKey, true));
    this.root.addEventListener("focusout", () => window.removeEventListener("keydown", this.onKey, true));
  }

  remove() {
    this.pause();
    this.room.disconnect();
    window.removeEventListener("keydown", this.onKey, true);
    this.model.off("change:step", this.draw);
    this.model.off("change:scene", this.rebuild);
  }

  // ── building ──────────────────────────────────────────────────────────────────────────────────────────────────────

  build() {
    this.scene = this.suits(this.root.clientWidth);
    this.last = this.scene.steps.length - 1;
    this.untouched = true;
    this.root.setAttribute("aria-label", this.scene.title);
    this.svg = this.buildPicture();
    // These two stay when the scene is another: a screen reader reads what changes in them, not what is new.
    this.words ??= make("p", { class: "distlib-words", "aria-live": "polite" });
    this.warning ??= make("p", { class: "distlib-warning", role: "status" });
    this.details = make("ul", { class: "distlib-details", tabindex: 0, "aria-label": "This step in words" });
    const lines = Math.max(...this.scene.steps.map(({ details = [] }) => details.length));
    this.details.style.setProperty("--lines", clamp(lines, 1, MOST_LINES));
    this.tip = make("div", { class: "distlib-tip", role: "tooltip", hidden: "" });
    const controls = this.buildControls();
    controls.hidden = this.last === 0;
    controls.hidden ? this.root.removeAttribute("tabindex") : this.root.setAttribute("tabindex", 0);
    const hint = make("p", { class: "distlib-hint" });
    const keys = "Keys: space or Enter plays and pauses, ← and → step, Home and End jump. ";
    const read = this.scene.steps.some((step) => step.details) ? ", or read the list above" : "";
    hint.textContent = `${controls.hidden ? "" : keys}Point at ${this.scene.hint} to read it${read}.`;
    this.picture = make("div", { class: "distlib-picture" });
    this.picture.addEventListener("scroll", () => this.stick());
    this.picture.append(this.svg, this.buildRunInWords());
    this.root.replaceChildren(this.picture, controls, this.words, this.warning, this.details, hint, this.tip);
    this.draw();
  }

  // The scene for so many pixels. Some have a narrow form, legible next to sliders; a page of the site has none.
  suits(room) {
    const [wide, narrow] = [this.model.get("scene"), this.model.get("narrow")];
    return narrow?.shapes && room > 0 && room < NARROWEST ? narrow : wide;
  }

  fit() {
    if (this.suits(this.root.clientWidth) !== this.scene) this.build();
    this.follow();
  }

  buildPicture() {
    const { width, height, shapes } = this.scene;
    const svg = makeSVG("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img" });
    const isNarrow = this.scene === this.model.get("narrow");
    svg.style.minWidth = `${isNarrow ? width * LEGIBLE : Math.min(NARROWEST, width)}px`;
    this.patterns = svg.appendChild(makeSVG("defs", {}));
    this.shapes = shapes.map((shape) => this.buildShape(shape));
    this.stuck = shapes.flatMap(({ sticks }, index) => (sticks ? this.shapes[index].elements : []));
    svg.append(...this.shapes.flatMap(({ elements }) => elements), ...this.stuck); // these lie on top
    this.stuck.forEach((one) => one.classList.add("distlib-stuck"));
    svg.addEventListener("pointerover", (event) => this.showTip(event));
    svg.addEventListener("pointermove", (event) => this.showTip(event));
    svg.addEventListener("pointerleave", () => (this.tip.hidden = true));
    return svg;
  }

  // The whole run in words, for a screen reader: the picture's label is the step that it shows.
  buildRunInWords() {
    const whole = make("p", { id: `${this.id}-run`, hidden: "" });
    whole.textContent = this.scene.alt;
    this.svg.setAttribute("aria-describedby", whole.id);
    return whole;
  }

  buildShape({ tag, attributes, first, end = Infinity, text = "", tip = "", fades = false }) {
    const element = makeSVG(tag, this.withPatterns(attributes));
    element.textContent = text;
    const elements = [element];
    // A thin line is hard to point at: a wide one that is not seen lies over it.
    if (tip && tag === "path") elements.push(makeSVG(tag, { d: attributes.d, class: "distlib-wide" }));
    if (tip) elements.forEach((one) => (one.dataset.tip = tip));
    return { elements, first, end, fades, look: null };
  }

  withPatterns(attributes) {
    const { fill = "" } = attributes;
    if (!String(fill).startsWith("hatch:")) return attributes;
    const color = fill.slice("hatch:".length);
    const id = `${this.id}-${color.replace("#", "")}`;
    if (!this.patterns.querySelector(`#${id}`)) {
      const size = { width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
      const pattern = this.patterns.appendChild(makeSVG("pattern", { id, ...size }));
      pattern.append(makeSVG("path", { d: "M0 0 V5", stroke: color, "stroke-width": 2.4 }));
    }
    return { ...attributes, fill: `url(#${id})` };
  }

  buildControls() {
    const bar = make("div", { class: "distlib-controls", role: "toolbar", "aria-label": "Player" });
    const button = (sign, name, action) => {
      const made = make("button", { type: "button", title: name, "aria-label": name });
      made.textContent = sign;
      made.addEventListener("click", action);
      return made;
    };
    this.playButton = button("Play", "Play (space)", () => this.toggle());
    this.playButton.classList.add("distlib-play");
    this.scrubber = make("input", { type: "range", min: 0, max: this.last, step: 1, "aria-label": "Step" });
    this.scrubber.addEventListener("input", () => this.goTo(Number(this.scrubber.value)));
    this.place = make("span", { class: "distlib-place" });
    bar.append(
      button("|◀", "First step (Home)", () => this.goTo(0)),
      button("◀", "One step back (←)", () => this.goTo(this.step - 1)),
      this.playButton,
      button("▶", "One step on (→)", () => this.goTo(this.step + 1)),
      button("▶|", "Last step (End)", () => this.goTo(this.last)),
      this.scrubber,
      this.place,
    );
    return bar;
  }

  // ── stepping ──────────────────────────────────────────────────────────────────────────────────────────────────────

  goTo(step) {
    this.pause();
    this.untouched = false;
    this.model.set("step", clamp(step, 0, this.last)); // "change:step" draws it, here and in other views
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    // It opens in the midst of the run, to be seen at a glance; played, it begins at the start.
    if (this.untouched || this.step === this.last) this.model.set("step", 0);
    this.untouched = false;
    this.words.setAttribute("aria-live", "off"); // else each step would be read when the next ones are long past
    const wait = clamp(PLAYED_IN / (this.last + 1), FASTEST, SLOWEST);
    this.timer = setInterval(() => this.advance(), wait);
    this.namePlayButton("Pause", "Pause (space)");
  }

  advance() {
    this.model.set("step", Math.min(this.step + 1, this.last));
    if (this.step === this.last || !this.root.isConnected) this.pause();
  }

  pause() {
    const played = this.timer !== null;
    clearInterval(this.timer);
    this.timer = null;
    this.words.setAttribute("aria-live", "polite");
    if (played) this.tell(this.scene.steps[this.step]);
    this.namePlayButton("Play", "Play (space)");
  }

  namePlayButton(sign, name) {
    this.playButton.textContent = sign;
    this.playButton.title = name;
    this.playButton.setAttribute("aria-label", name);
  }

  // Plain keys stay in here: for JupyterLab X cuts the cell, D D deletes it. Ctrl+S, Shift+Enter, … remain JupyterLab's,
  // and Escape leads back to the cell. A picture that is wider than its place is scrolled by the arrows.
  onKey(event) {
    const { ctrlKey, metaKey, altKey, shiftKey, key } = event;
    if (ctrlKey || metaKey || altKey || (shiftKey && key === "Enter")) return;
    event.stopPropagation();
    if (key === "Escape") this.root.closest(".jp-Cell")?.focus();
    if (this.last === 0 || event.target === this.picture || event.target === this.details) return;
    const onButton = event.target.tagName === "BUTTON";
    const plays = onButton ? null : () => this.toggle(); // a button that has the focus is pressed
    const actions = {
      " ": plays,
      Enter: plays,
      ArrowLeft: () => this.goTo(this.step - 1),
      ArrowRight: () => this.goTo(this.step + 1),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.last),
    };
    if (!actions[key]) return;
    event.preventDefault();
    actions[key]();
  }

  // ── showing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  show(wanted) {
    this.step = clamp(wanted, 0, this.last);
    for (const shape of this.shapes) {
      const gone = this.step < shape.first || this.step >= shape.end;
      const past = shape.fades && this.step > shape.first;
      const look = gone ? "distlib-gone" : past ? "distlib-past" : "";
      if (look === shape.look) continue; // most stay as they are
      shape.look = look;
      for (const { classList } of shape.elements) {
        classList.remove("distlib-gone", "distlib-past");
        if (look) classList.add(look);
      }
    }
    this.tip.hidden = true;
    this.tell(this.scene.steps[this.step]);
    this.follow();
  }

  // Where the picture is wider than its place, it is scrolled to what is new in this step.
  follow() {
    const { picture, step } = this;
    if (picture.scrollWidth <= picture.clientWidth) return;
    const fresh = this.shapes.find(({ first, elements: [one] }) => first === step && one.dataset.tip);
    if (step === 0) picture.scrollLeft = 0;
    if (step === 0 || !fresh) return;
    const [thing, frame] = [fresh.elements[0], picture].map((one) => one.getBoundingClientRect());
    if (thing.left >= frame.left && thing.right <= frame.right) return;
    picture.scrollLeft += (thing.left + thing.right) / 2 - (frame.left + frame.right) / 2;
  }

  // The names of lanes move along when the picture is scrolled.
  stick() {
    const moved = (this.picture.scrollLeft * this.scene.width) / this.svg.getBoundingClientRect().width;
    this.stuck.forEach((one) => one.setAttribute("transform", `translate(${moved} 0)`));
  }

  tell({ name, words, details = [], warning = "" }) {
    this.scrubber.value = this.step;
    this.scrubber.setAttribute("aria-valuetext", name);
    this.place.textContent = name;
    this.words.textContent = words;
    this.warning.textContent = warning;
    this.svg.setAttribute("aria-label", `${this.scene.title}. ${words} ${warning}`.trim());
    this.details.hidden = !this.scene.steps.some((step) => step.details);
    this.details.replaceChildren(
      ...details.map((line) => {
        const item = make("li", {});
        item.textContent = line;
        return item;
      }),
    );
  }

  showTip(event) {
    const tip = event.target.dataset.tip;
    this.tip.hidden = !tip;
    if (!tip) return;
    this.tip.textContent = tip;
    const frame = this.root.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const [left, top] = besides(event.target.getBoundingClientRect(), event.clientY, width, height, frame);
    this.tip.style.left = `${left - frame.left}px`;
    this.tip.style.top = `${top - frame.top}px`;
  }
}

// A place for a tip of this size, right of a thing, left of it, below or above it: it must not cover what it explains.
function besides(thing, y, width, height, frame) {
  const level = clamp(y - height / 2, frame.top, Math.max(frame.bottom - height, frame.top));
  if (thing.right + GAP + width <= frame.right) return [thing.right + GAP, level];
  if (thing.left - GAP - width >= frame.left) return [thing.left - GAP - width, level];
  const left = clamp((thing.left + thing.right - width) / 2, frame.left, Math.max(frame.right - width, frame.left));
  const below = thing.bottom + GAP + height <= frame.bottom;
  return [left, below ? thing.bottom + GAP : thing.top - GAP - height];
}

function make(tag, attributes) {
  return withAttributes(document.createElement(tag), attributes);
}

function makeSVG(tag, attributes) {
  return withAttributes(document.createElementNS(SVG, tag), attributes);
}

function withAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

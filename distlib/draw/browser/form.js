// The form of a prediction (distlib/draw/predictions/form.py). What was typed or pressed is sent together with the wish to commit.

const PATIENCE = 3000; // milliseconds until the page says what it means that the kernel has not answered
const AGAIN = "If it was restarted, run this cell again, then commit.";
const SILENT = `No answer from the kernel yet. If it is busy, it will come. ${AGAIN}`;
const GONE = "The kernel does not know this form any more. Run this cell again, then commit.";

export default {
  render({ model, el }) {
    const form = new Form(model, el);
    return () => form.remove();
  },
};

class Form {
  constructor(model, el) {
    this.model = model;
    this.isGone = false;
    // Each widget loads this module anew, so there is nothing here that could count them.
    this.id = `distlib-form-${Math.random().toString(36).slice(2)}`;
    this.draw = () => this.show();
    this.onKey = this.onKey.bind(this);
    this.build();
    this.listen();
    this.show();
    el.append(this.root);
  }

  listen() {
    this.model.on("change:answered", this.draw);
    this.lose = this.lose.bind(this);
    this.model.on("comm_live_update", this.lose);
    this.kernel = this.model.widget_manager?.kernel;
    this.kernel?.disposed?.connect(this.lose); // it was shut down, which no model is told
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.commit();
    });
    // JupyterLab takes keys at the document, on their way down. Ours are taken above it, while the focus is in here.
    this.root.addEventListener("focusin", () => window.addEventListener("keydown", this.onKey, true));
    this.root.addEventListener("focusout", () => window.removeEventListener("keydown", this.onKey, true));
  }

  remove() {
    clearTimeout(this.timer);
    window.removeEventListener("keydown", this.onKey, true);
    this.model.off("change:answered", this.draw);
    this.model.off("comm_live_update", this.lose);
    this.kernel?.disposed?.disconnect(this.lose);
  }

  // A model that was alive when it was drawn has this event once, when its kernel is gone or was restarted.
  lose() {
    this.isGone = true;
    this.show();
  }

  // Plain keys stay in the form, where the browser knows what they do: for JupyterLab X cuts the cell, D D deletes it.
  // Ctrl+S, Shift+Enter, … remain JupyterLab's, and Escape leads back to the cell.
  onKey(event) {
    const { ctrlKey, metaKey, altKey, shiftKey, key } = event;
    if (key === "Escape") this.root.closest(".jp-Cell")?.focus();
    if (!(ctrlKey || metaKey || altKey || (shiftKey && key === "Enter"))) event.stopPropagation();
  }

  // ── building ──────────────────────────────────────────────────────────────────────────────────────────────────────

  build() {
    const makers = { number: () => this.buildField(), choice: () => this.buildChoices(), order: () => this.buildOrder() };
    this.root = make("form", { class: "distlib-form distlib-live", novalidate: "", autocomplete: "off" });
    this.fields = make("fieldset", { "aria-describedby": `${this.id}-state` });
    const legend = make("legend", {}, this.model.get("question"));
    this.button = make("button", { type: "submit", class: "distlib-commit" }, "Commit");
    this.row = make("div", { class: "distlib-row" });
    this.row.append(...makers[this.model.get("kind")](), this.button);
    // It can have the focus, but is no stop of the Tab key: what is committed can't keep the focus, and this can.
    const live = { role: "status", "aria-live": "polite", tabindex: -1 };
    this.state = make("span", { class: "distlib-state", id: `${this.id}-state`, ...live });
    this.again = make("button", { type: "button", class: "distlib-again" }, "Change it");
    this.again.addEventListener("click", () => this.send({ take_back: true }, "Taking it back …"));
    const told = make("p", { class: "distlib-told" });
    told.append(this.state, this.again);
    this.fields.append(legend, this.row);
    this.root.append(this.fields, told);
  }

  buildField() {
    const label = make("label", { for: `${this.id}-field` }, "Your prediction:");
    const about = { "aria-describedby": `${this.id}-state` };
    this.field = make("input", { id: `${this.id}-field`, type: "text", maxlength: 100, ...about });
    this.read = () => this.field.value;
    this.fill = (chosen) => (this.field.value = chosen);
    return [label, this.field];
  }

  buildChoices() {
    const inputs = this.model.get("options").map((value) => make("input", { type: "radio", name: this.id, value }));
    this.read = () => inputs.find((input) => input.checked)?.value ?? "";
    this.fill = (chosen) => inputs.forEach((input) => (input.checked = input.value === chosen));
    return inputs.map((input) => {
      const label = make("label", { class: "distlib-option" });
      label.append(input, input.value);
      return label;
    });
  }

  // Each button is pressed or not; a pressed one carries its place. Nothing is moved or disabled, so the focus stays.
  buildOrder() {
    const options = this.model.get("options");
    let order = [];
    const buttons = options.map((option) => {
      const button = make("button", { type: "button", class: "distlib-option" });
      button.addEventListener("click", () => {
        this.fill(order.includes(option) ? order.filter((one) => one !== option) : [...order, option]);
        this.say(order.length ? `Your order so far: ${order.join(", ")}.` : this.model.get("hint"), "");
      });
      return button;
    });
    this.read = () => order;
    this.fill = (chosen) => {
      order = [...chosen];
      buttons.forEach((button, index) => {
        const place = order.indexOf(options[index]) + 1;
        button.replaceChildren(make("span", { class: "distlib-place-of" }, place ? String(place) : "–"), options[index]);
        button.setAttribute("aria-pressed", String(place > 0));
        button.setAttribute("aria-label", place ? `${options[index]}, place ${place}` : `${options[index]}, no place yet`);
      });
    };
    this.fill([]);
    return buttons;
  }

  // ── committing and showing ────────────────────────────────────────────────────────────────────────────────────────

  commit() {
    if (!this.model.get("said")) this.send({ commit: this.read() }, "Committing …");
  }

  send(message, meanwhile) {
    this.say(meanwhile, "");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.say(SILENT, "problem"), PATIENCE);
    try {
      this.model.send(message);
    } catch {
      clearTimeout(this.timer);
      this.say(GONE, "problem");
    }
  }

  show() {
    clearTimeout(this.timer);
    const { said, problem, chosen, hint } = this.values("said", "problem", "chosen", "hint");
    if (said && this.fields.contains(document.activeElement)) this.state.focus({ preventScroll: true });
    const takenBack = !said && document.activeElement === this.again;
    this.fields.disabled = said !== "" || this.isGone;
    this.again.hidden = said === "" || this.isGone;
    this.root.classList.toggle("distlib-lost", this.isGone);
    if (takenBack) this.row.querySelector("input, button").focus({ preventScroll: true });
    this.field?.setAttribute("aria-invalid", String(problem !== ""));
    this.root.classList.toggle("distlib-committed", said !== "");
    this.button.textContent = said ? "Committed" : "Commit";
    if (said) this.fill(chosen);
    if (said) return this.say(`✓ Committed: ${said}.`, "committed");
    if (this.isGone) return this.say(GONE, "problem");
    this.say(problem || hint, problem ? "problem" : "");
  }

  values(...names) {
    return Object.fromEntries(names.map((name) => [name, this.model.get(name)]));
  }

  say(words, look) {
    this.state.textContent = words;
    this.state.dataset.look = look;
  }
}

function make(tag, attributes, text = "") {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

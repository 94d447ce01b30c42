// One of several values (distlib/draw/players/slider.py): a slider, or round buttons where the values are few words.
// Both are the browser's own, so that keys and screen readers know them; the words of a value are read, not its place.
// Without its kernel nothing would follow a move: then it can't be moved, and says what to do (the first one of several).

const PATIENCE = 3000; // milliseconds until the page says what it means that the kernel has not answered
const SILENT = "No answer from the kernel yet. If it is busy, this is played when it is free. Else run this cell again.";
const GONE = "Not connected to the kernel any more: to go on, run this cell again.";

export default {
  render({ model, el }) {
    const [label, words] = [model.get("label"), model.get("words")];
    const busy = make("span", { class: "distlib-busy", role: "status" });
    let timer = null;
    const choose = (index) => {
      model.set("index", index);
      model.save_changes();
      clearTimeout(timer);
      timer = setTimeout(() => (busy.textContent = model.get("heard") === index ? "" : SILENT), PATIENCE);
    };
    const hear = () => (busy.textContent = "");
    const root = model.get("kind") === "choice" ? choice(choose, label, words) : slider(choose, label, words);
    const show = () => root.show(model.get("index"));
    const note = make("p", { class: "distlib-gone", role: "status" });
    root.element.append(busy);
    el.append(note, root.element);
    el.classList.add("distlib-slot");
    model.on("change:index", show);
    model.on("change:heard", hear);
    show();
    const release = keepKeys(root.element);
    // A model that was alive when it was drawn has this event once, when its kernel is gone or was restarted.
    const lose = () => {
      clearTimeout(timer);
      hear();
      root.element.querySelectorAll("input").forEach((input) => (input.disabled = true));
      root.element.classList.add("distlib-lost");
      note.textContent = GONE;
    };
    model.on("comm_live_update", lose);
    const kernel = model.widget_manager?.kernel;
    kernel?.disposed?.connect(lose); // it was shut down, which no model is told
    return () => {
      clearTimeout(timer);
      release();
      model.off("comm_live_update", lose);
      kernel?.disposed?.disconnect(lose);
      model.off("change:index", show);
      model.off("change:heard", hear);
    };
  },
};

function slider(choose, label, words) {
  const element = make("label", { class: "distlib-slider" });
  const input = make("input", { type: "range", min: 0, max: words.length - 1, step: 1, "aria-label": label });
  const value = make("span", { class: "distlib-value", "aria-hidden": "true" });
  const name = make("span", {});
  name.textContent = label;
  element.append(name, input, value);
  input.addEventListener("input", () => choose(Number(input.value)));
  const show = (index) => {
    input.value = index;
    value.textContent = words[index];
    input.setAttribute("aria-valuetext", value.textContent);
  };
  return { element, show };
}

function choice(choose, label, words) {
  const element = make("fieldset", { class: "distlib-slider" });
  // Each widget loads this module anew, so there is nothing here that could count them.
  const group = `distlib-choice-${Math.random().toString(36).slice(2)}`;
  const inputs = words.map(() => make("input", { type: "radio", name: group }));
  const name = make("legend", {});
  name.textContent = label;
  element.append(
    name,
    ...inputs.map((input, index) => {
      const one = make("label", {});
      one.append(input, words[index]);
      input.addEventListener("change", () => choose(index));
      return one;
    }),
  );
  return { element, show: (chosen) => inputs.forEach((input, index) => (input.checked = index === chosen)) };
}

// Plain keys stay in here: for JupyterLab X cuts the cell, D D deletes it. Ctrl+S, Shift+Enter, … remain JupyterLab's,
// and Escape leads back to the cell. JupyterLab takes keys at the document, on their way down; these are taken above it.
function keepKeys(element) {
  const onKey = (event) => {
    const { ctrlKey, metaKey, altKey, shiftKey, key } = event;
    if (key === "Escape") element.closest(".jp-Cell")?.focus();
    if (!(ctrlKey || metaKey || altKey || (shiftKey && key === "Enter"))) event.stopPropagation();
  };
  const release = () => window.removeEventListener("keydown", onKey, true);
  element.addEventListener("focusin", () => window.addEventListener("keydown", onKey, true));
  element.addEventListener("focusout", release);
  return release;
}

function make(tag, attributes) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

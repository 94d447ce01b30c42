// Brings the widgets of a page to life, without a kernel: distlibParts has the players and forms of the course, and a
// model that lives in the page stands for the kernel's. Nothing is loaded from elsewhere.

// What a widget needs of a model: see player.js and form.js.
class PageModel {
  constructor(state) {
    this.state = state;
    this.listeners = {};
  }

  get(name) {
    return this.state[name];
  }

  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    (this.listeners[`change:${name}`] ?? []).forEach((listener) => listener());
  }

  on(event, listener) {
    (this.listeners[event] ??= []).push(listener);
  }

  off(event, listener) {
    this.listeners[event] = (this.listeners[event] ?? []).filter((one) => one !== listener);
  }

  // A form commits: here nobody reads the answer but its reader, so any answer will do, but none.
  send(message) {
    const chosen = message.commit ?? "";
    const said = [chosen].flat().join(", ").trim();
    const complete = this.state.kind !== "order" || chosen.length === this.state.options.length;
    const problem = "commit" in message && !(said && complete) ? `Not yet: ${this.state.hint}.` : "";
    Object.assign(this.state, { chosen, problem, said: problem ? "" : said });
    this.set("answered", this.state.answered + 1);
  }
}

function enliven(place) {
  const state = JSON.parse(place.querySelector("script").textContent);
  const widget = window.distlibParts?.[place.dataset.kind];
  if (!widget) return;
  const el = document.createElement("div");
  widget.render({ model: new PageModel({ answered: 0, said: "", chosen: "", problem: "", ...state }), el });
  place.replaceChildren(el);
}

for (const place of document.querySelectorAll(".distlib-widget")) enliven(place);

// A box for an entity's name that completes what is typed: a combobox with a list, as ARIA describes it.

import { get } from "./api.js";
import { h } from "./dom.js";
import { t, tn } from "./i18n.js";

const PAUSE = 120;
let boxes = 0;

// onchoose gets {id, name, type, degree}; onhits gets all that fit, while one types.
export function nameBox({ name, label, value = "", required = false, onchoose, onhits, placeholder = label }) {
  const list = h("ul", { class: "options-list list", role: "listbox", id: `names-${(boxes += 1)}`, "aria-label": label, hidden: true });
  const said = h("span", { class: "visually-hidden", role: "status" });
  const input = h("input", {
    name, value, required, placeholder, role: "combobox", "aria-label": label, "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id,
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", oninput: type, onkeydown: press, onblur: () => setTimeout(close, 150),
  });
  let hits = [];
  let active = -1;
  let asked = null;
  let pause = null;

  function type() {
    clearTimeout(pause);
    asked?.abort();
    input.dataset.id = "";
    pause = setTimeout(ask, PAUSE);
  }

  async function ask() {
    const text = input.value.trim();
    if (!text) {
      onhits?.([]);
      return close();
    }
    asked = new AbortController();
    try {
      hits = await get("/api/graph/names", { text }, asked.signal);
    } catch {
      // Without completion, Find says what is wrong.
      return close();
    }
    if (!input.isConnected || document.activeElement !== input) return;
    onhits?.(hits);
    // Nothing is left to choose, and the list would lie upon the button.
    if (hits.length === 1 && hits[0].name === text) return close();
    active = -1;
    list.replaceChildren(...hits.map((hit, index) => h("li", { role: "option", id: `${list.id}-${index}`, "aria-selected": "false", onpointerdown: (event) => { event.preventDefault(); choose(index); } },
      h("span", { class: "grow" }, ...marked(hit.name, text)), h("span", { class: "soft small" }, hit.type))));
    if (!hits.length) list.replaceChildren(h("li", { class: "soft small", role: "option", "aria-disabled": "true", "aria-selected": "false" }, t("No entity has such a name.")));
    said.textContent = tn(hits.length, "{count} entity", "{count} entities");
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
  }

  function press(event) {
    // 229: in Safari, Return that confirms a conversion.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) ask();
      else mark((active + (event.key === "ArrowDown" ? 1 : -1) + hits.length + (active < 0 && event.key === "ArrowUp" ? 1 : 0)) % (hits.length || 1));
    } else if (event.key === "Enter") {
      if (active >= 0 && !list.hidden) {
        event.preventDefault();
        choose(active);
      } else close();
    }
  }

  function mark(index) {
    active = hits.length ? index : -1;
    [...list.children].forEach((option, at) => {
      option.setAttribute("aria-selected", String(at === active));
      if (at === active) option.scrollIntoView({ block: "nearest" });
    });
    if (active >= 0) input.setAttribute("aria-activedescendant", `${list.id}-${active}`);
  }

  function choose(index) {
    const hit = hits[index];
    input.value = hit.name;
    input.dataset.id = hit.id;
    close();
    onchoose?.(hit);
  }

  function close() {
    clearTimeout(pause);
    asked?.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  return h("div", { class: "names grow" }, input, list, said);
}

function marked(name, text) {
  const at = name.toLowerCase().indexOf(text.toLowerCase());
  return at < 0 ? [name] : [name.slice(0, at), h("mark", {}, name.slice(at, at + text.length)), name.slice(at + text.length)].filter(Boolean);
}

// The entity of exactly this name, or null.
export async function named(name) {
  const hits = await get("/api/graph/names", { text: name });
  return hits.find((hit) => hit.name === name) ?? hits.find((hit) => hit.name.toLowerCase() === name.trim().toLowerCase()) ?? null;
}

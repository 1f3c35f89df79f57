// Elements from names, properties and children. Text is always a text node: nothing of a document becomes markup.

import { t } from "./i18n.js";

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = (selector, root = document) => root.querySelector(selector);

export function toast(message, action) {
  const box = h("div", { class: "toast" }, h("span", {}, message));
  if (action) {
    box.append(h("button", { type: "button", onclick: () => { box.remove(); action.run(); } }, action.label));
  }
  $("#toasts").append(box);
  setTimeout(() => box.remove(), action ? 12000 : 6000);
}

export function complain(error) {
  toast(hint(error) ? `${error.message}. ${hint(error)}` : error.message);
}

// Browsers give the clipboard to pages of https and of this machine alone; elsewhere a selection is copied.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", { class: "visually-hidden", value: text });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  toast(t("Copied"));
}

export const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

// Hints that are for programs (functions of SQL, options of commands) are not for people at a page.
export const hint = (error) => (/\w\(|graphrag\.|(^|\s)--?\w/.test(error.hint ?? "") ? null : error.hint);

// What a refusal says, and a button for another attempt.
export function refusal(error, again) {
  return h("div", { role: "alert" }, h("p", { class: "error small" }, error.message, hint(error) ? h("span", { class: "soft" }, ` ${hint(error)}`) : null),
    h("button", { class: "second small", type: "button", onclick: again }, t("Try again")));
}

// Fills a part of a view by a request of its own. Where that fails, the part says so, and the others stay.
export async function fill(box, ask) {
  box.replaceChildren(h("p", { class: "soft small", role: "status" }, t("Loading …")));
  await refill(box, ask);
}

// The same; what is there stays until the answer comes. Of two at once the later counts.
export async function refill(box, ask) {
  // The view may be gone.
  if (!box) return;
  const turn = (box.turn = {});
  let children;
  try {
    children = [await ask()].flat();
  } catch (error) {
    children = [refusal(error, () => fill(box, ask))];
  }
  if (box.turn === turn) box.replaceChildren(...children.filter(Boolean));
}

// A color of the page's theme, as numbers that WebGL can take.
export function color(name) {
  const probe = h("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

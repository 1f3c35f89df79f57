// Elements from names, properties and children. Text is always a text node: nothing of a document becomes markup.

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
  toast(error.hint ? `${error.message}. ${error.hint}` : error.message);
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

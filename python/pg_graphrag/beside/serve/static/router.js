// Addresses: #/CORPUS/VIEW/PART/…?name=value. Every state that one may come back to has one.

import { session } from "./api.js";

// What the address says: {corpus, view, parts, values}. Without a view: ask.
export function place(hash = location.hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [corpus, view, ...parts] = path.split("/").map(decode);
  return { corpus: corpus || session.corpus, view: view || "ask", parts, values: new URLSearchParams(query) };
}

// The address of a view of this corpus. Values that are null, undefined or "" are left out.
export function address(view, parts = [], values = {}) {
  const path = [session.corpus, view, ...parts].map(encodeURIComponent).join("/");
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

// Goes there, as a link does: the view is made by the change of the address. The same address again shows it anew.
export function go(view, parts, values) {
  const hash = address(view, parts, values);
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

// The address of what is shown already, so that reload and a link lead back; `isNew` gives Back a step.
export function remember(view, parts, values, { isNew = false } = {}) {
  const hash = address(view, parts, values);
  if (location.hash !== hash) history[isNew ? "pushState" : "replaceState"](null, "", hash);
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// What people set below the question: kept in the browser for each corpus; in the address of a search where it is not usual.

import { session } from "./api.js";
import { h } from "./dom.js";
import { language, t } from "./i18n.js";

const USUAL = { mode: "hybrid", tokens: "", rerank: "", as_of: "", prefix: "", filter: "" };
const TOKENS = [2000, 4000, 8000, 16000, 32000];

const key = () => `settings/${session.name}/${session.corpus}`;

const meanings = () => ({
  __proto__: null,
  hybrid: t("words, meaning and graph together; for most questions"),
  bm25: t("the words as they stand; for names, codes and error messages"),
  naive: t("meaning alone; for paraphrases in short texts"),
  local: t("what is named, and its relationships"),
  global: t("relationships about a theme"),
  mix: t("local, global and passages together"),
  path: t("how two named things hang together"),
  ppr: t("a walk over the graph; for answers in several steps"),
  graph_local: t("named things, with reports on what surrounds them"),
  graph_global: t("reports on all themes; for the whole of the documents"),
  drift: t("reports raise questions that are followed up; slow"),
  lazy: t("the whole of the documents within a bound of cost"),
});

function stored() {
  try {
    return JSON.parse(localStorage.getItem(key())) ?? {};
  } catch {
    return {};
  }
}

// Of an address what it says, else what was set last.
export function current(values) {
  const saved = values?.has("q") ? Object.fromEntries(values) : stored();
  return Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, saved[name] || usual]));
}

// What is not usual, as an address has it.
export const unusual = (settings) => Object.fromEntries(Object.entries(settings).filter(([name, value]) => value !== USUAL[name]));

// The fields of a request. Fails where the filter is no JSON object.
export function retrieval({ mode, rerank, as_of, prefix, filter }) {
  let condition = null;
  if (filter) {
    try {
      condition = JSON.parse(filter);
    } catch {
      condition = null;
    }
    if (condition === null || typeof condition !== "object" || Array.isArray(condition)) throw new Error(t("The filter is not a JSON object"));
  }
  if (prefix) condition = { ...condition, $source_key: { $prefix: prefix } };
  return { mode, filter: condition, options: { ...(rerank && { rerank: true }), ...(as_of && { as_of }) } };
}

// The settings in one line, where they are not the usual ones.
export const summary = (settings) => [
  settings.mode !== USUAL.mode && settings.mode,
  settings.tokens && t("{count} tokens", { count: Number(settings.tokens) }),
  settings.rerank && t("reranked"),
  settings.as_of && t("as of {date}", { date: new Date(`${settings.as_of}T12:00`).toLocaleDateString(language) }),
  settings.prefix && `${settings.prefix}…`,
  settings.filter && t("filtered"),
].filter(Boolean).join(" · ");

// The fields; `change` is called with the settings when one changes.
export function form(settings, { canRerank, change }) {
  const means = meanings();
  const meaning = h("p", { class: "soft small", id: "meaning" }, means[settings.mode] ?? "");
  const changed = (name) => ({ target }) => {
    settings[name] = target.type === "checkbox" ? (target.checked ? "yes" : "") : target.value.trim();
    meaning.textContent = means[settings.mode] ?? "";
    localStorage.setItem(key(), JSON.stringify(unusual(settings)));
    change(settings);
  };
  const choice = (id, options, value) => {
    const select = h("select", { id, onchange: changed(id) }, options);
    select.value = value;
    return select;
  };
  const mode = choice("mode", session.modes.map((name) => h("option", { value: name }, name)), settings.mode);
  mode.setAttribute("aria-describedby", "meaning");
  const tokens = choice("tokens", [h("option", { value: "" }, t("as usual")), ...TOKENS.map((count) => h("option", { value: count }, t("{count} tokens", { count })))], settings.tokens);
  return [
    h("div", {}, h("label", {}, t("Mode"), mode), meaning),
    h("label", {}, t("How much is read"), tokens),
    h("label", {}, t("As of a day"), h("input", { id: "as_of", type: "date", value: settings.as_of, onchange: changed("as_of") })),
    h("label", {}, t("Key begins with"), h("input", { id: "prefix", value: settings.prefix, placeholder: "handbook/", oninput: changed("prefix") })),
    h("label", {}, t("Filter of metadata, as JSON"), h("input", { id: "filter", value: settings.filter, placeholder: '{"year": {"$gte": 2024}}', spellcheck: "false", oninput: changed("filter") })),
    canRerank && h("label", { class: "row" }, h("input", { id: "rerank", type: "checkbox", checked: Boolean(settings.rerank), onchange: changed("rerank") }), t("Rerank: a second model orders what was found")),
  ];
}

// What people changed of the graph, with undo, and what could be merged.

import { get, post, remove, session } from "./api.js";
import { $, complain, fill, h, refill, toast } from "./dom.js";
import { mayCurate } from "./graph-edit.js";
import { language, t, tn } from "./i18n.js";
import { address } from "./router.js";

export async function view(main) {
  main.replaceChildren(h("div", { class: "column" }, h("h1", {}, t("Curation")),
    h("p", { class: "soft" }, t("What people know better than the documents. Each change can be undone, in any order, and leaves no trace. Entities and relationships are changed where they are shown: in the graph.")),
    mayCurate() ? h("section", {}, h("div", { class: "row" }, h("h2", { class: "grow" }, t("Could be one")), h("button", { class: "second", type: "button", id: "suggest", onclick: () => fill($("#suggestions"), suggestions) }, t("Look for them"))), h("div", { id: "suggestions" })) : "",
    h("section", {}, h("h2", {}, t("Changes")), h("div", { id: "changes" }))));
  await fill($("#changes"), changes);
}

async function changes() {
  const { corpus } = session;
  const made = await get("/api/curations");
  return made.length ? h("table", {}, h("tbody", {}, made.map((one) => h("tr", { class: one.undone_at ? "undone" : null },
    h("td", {}, h("div", {}, told(one.kind, one.arguments)), ...details(one.arguments)),
    h("td", { class: "small soft" }, `${one.made_by}, ${new Date(one.made_at).toLocaleString(language)}`),
    h("td", {}, one.undone_at ? h("span", { class: "badge" }, t("undone")) : mayCurate() ? h("button", { class: "second small", type: "button", "aria-label": t("Undo change {number}", { number: String(one.id) }), onclick: () => undo(one.id, corpus) }, t("Undo")) : null)))))
    : h("p", { class: "soft" }, t("Nobody has changed anything."));
}

// A change as a sentence.
function told(kind, values) {
  const { entity, name, target, source } = values;
  switch (kind) {
    case "create_entity": return t("Entity {name} made", { name });
    case "edit_entity": return t("Entity {name} changed", { name: entity });
    case "rename_entity": return t("Entity {name} renamed to {target}", { name: entity, target: name });
    case "merge_entities": return t("Entity {name} merged into {target}", { name: (values.entities ?? []).join(", "), target: name ?? target });
    case "delete_entity": return t("Entity {name} deleted", { name: entity });
    case "create_relationship": return t("Relationship of {source} and {target} made", { source, target });
    case "edit_relationship": return t("Relationship of {source} and {target} changed", { source, target });
    case "delete_relationship": return t("Relationship of {source} and {target} deleted", { source, target });
    default: return t("A graph was put in");
  }
}

const details = ({ type, description, keywords, weight }) => [
  type && t("Type: {value}", { value: type }), description && t("Description: {value}", { value: description }),
  keywords?.length && t("Keywords: {value}", { value: keywords.join(", ") }), weight != null && t("Weight: {value}", { value: String(weight) }),
].filter(Boolean).map((line) => h("div", { class: "small soft" }, line));

async function undo(id, corpus) {
  try {
    await remove(`/api/curations/${id}`, corpus);
    toast(t("Undone"));
    await refill($("#changes"), changes);
  } catch (error) {
    complain(error);
  }
}

// The database has no place for what is not to be merged; this browser remembers it.
const place = () => `not one ${session.corpus}`;
const dismissed = (kept = place()) => new Set(JSON.parse(localStorage.getItem(kept) ?? "[]"));
const pair = (one) => JSON.stringify([one.entity, one.target].sort());

async function suggestions() {
  const pairs = await get("/api/curations/suggestions");
  const gone = dismissed();
  const shown = pairs.filter((one) => !gone.has(pair(one)));
  const entity = (name) => h("a", { href: address("graph", ["entity"], { name }) }, h("strong", {}, name));
  return [
    shown.length ? h("ul", { class: "list items" }, shown.map((one) => h("li", { class: "row" },
      h("span", { class: "grow" }, entity(one.entity), " → ", entity(one.target), h("div", { class: "small soft" }, reason(one.reason))),
      h("button", { class: "second small", type: "button", "aria-label": t("Merge {name} into {target}", { name: one.entity, target: one.target }), onclick: (event) => merge(one, event.target.closest("li")) }, t("Merge")),
      h("button", { class: "second small", type: "button", "aria-label": t("{name} and {target} are not one", { name: one.entity, target: one.target }), onclick: (event) => dismiss(one, event.target.closest("li")) }, t("Not one"))))) : h("p", { class: "soft" }, t("None.")),
    gone.size ? h("p", { class: "row small soft" }, tn(gone.size, "{count} suggestion is left out; this browser remembers that.", "{count} suggestions are left out; this browser remembers that."),
      h("button", { class: "link small", type: "button", onclick: () => { localStorage.removeItem(place()); refill($("#suggestions"), suggestions); } }, t("Show them again"))) : null,
  ];
}

// Of the database's words for why, those that people meet most, in theirs.
function reason(text) {
  const [kind, ...rest] = text.split("; ");
  const first = { spelling: t("Spelled alike"), transliteration: t("The same in another script"), abbreviation: t("One is short for the other"), embedding: t("They mean the same") }[kind.split(":")[0]];
  return [first ?? kind, ...rest.map((part) => {
    const shared = /^(\d+) of (\d+) neighbours in common$/.exec(part);
    const types = /^but types (.+) and (.+)$/.exec(part);
    if (shared) return t("{count} of {all} neighbors in common", { count: Number(shared[1]), all: Number(shared[2]) });
    if (types) return t("but of the types {one} and {other}", { one: types[1], other: types[2] });
    return part.startsWith("cosine") ? null : part;
  })].filter(Boolean).join("; ");
}

function dismiss(one, item) {
  const kept = place();
  const remembered = (change) => {
    const gone = dismissed(kept);
    change(gone);
    localStorage.setItem(kept, JSON.stringify([...gone]));
    return refill($("#suggestions"), suggestions);
  };
  item.remove();
  remembered((gone) => gone.add(pair(one)));
  toast(t("It is not suggested again in this browser."), { label: t("Undo"), run: () => remembered((gone) => gone.delete(pair(one))) });
}

async function merge(one, item) {
  const { corpus } = session;
  try {
    const { id } = await post("/api/curations", { kind: "merge_entities", arguments: { entities: [one.entity], target: one.target } });
    item.remove();
    toast(t("Merged"), { label: t("Undo"), run: () => undo(id, corpus) });
    await refill($("#changes"), changes);
  } catch (error) {
    complain(error);
  }
}

// The list beside the drawing: it has all that the drawing has, for who does not see it or works by keys.

import { get } from "./api.js";
import { $, complain, h } from "./dom.js";
import { swatch } from "./graph-groups.js";
import { named, nameBox } from "./graph-names.js";
import { entityForms, mayCurate, newRelationship, relationshipForm } from "./graph-edit.js";
import { language, t, tn } from "./i18n.js";
import { address, go } from "./router.js";

const FIRST = 30;
// Relationships that are listed at once, and at most.
const LISTED_MORE = 150;
const MOST_LISTED = 2000;
const card = (...children) => h("div", { class: "card" }, ...children);
const head = (title, ...more) => h("div", { class: "row" }, h("h3", { class: "grow" }, title), ...more);
const badge = (value) => h("span", { class: "badge" }, value);
// A number whose unit is read out.
const counted = (value, words) => h("span", { class: "badge", title: words }, h("span", { "aria-hidden": "true" }, value.toLocaleString(language)), h("span", { class: "visually-hidden" }, words));
const entityCount = (value) => counted(value, tn(value, "{count} entity", "{count} entities"));
export const communityName = (one) => one.title || one.names?.join(", ") || t("Community {number}", { number: String(one.community ?? one.id) });

// Where one is: links back.
export const trail = (...steps) => h("nav", { class: "trail small", "aria-label": t("Where you are") },
  steps.flatMap(([label, href], index) => [index ? h("span", { class: "soft", "aria-hidden": "true" }, "›") : null, href ? h("a", { href }, label) : h("span", { "aria-current": "location" }, label)]));

// Groups of a map: each opens; then what connects them.
export function mapList(part, title, hrefOf, colorOf) {
  const byId = new Map(part.nodes.map((node) => [node.id, node]));
  const link = (node) => h("a", { href: hrefOf(node), class: "grow" }, node.label);
  return [
    card(head(title), h("ul", { class: "list items" }, part.nodes.map((node) => h("li", {}, h("div", { class: "row" }, swatch(colorOf(node)), link(node), entityCount(node.size)),
      node.type === undefined ? null : h("div", { class: "soft small" }, node.names.join(", "))))),
    part.smaller.groups ? h("p", { class: "soft small" }, tn(part.smaller.groups, "{count} smaller group is not drawn: {entities} entities.", "{count} smaller groups are not drawn: {entities} entities.", { entities: part.smaller.entities })) : null),
    part.edges.length ? card(h("details", {}, h("summary", {}, t("What connects them")), h("ul", { class: "list items small" }, part.edges.slice(0, 200).map((edge) => h("li", { class: "row" },
      h("span", { class: "grow" }, link(byId.get(edge.source)), " – ", link(byId.get(edge.target))), counted(edge.count, tn(edge.count, "{count} relationship", "{count} relationships"))))))) : null,
  ];
}

// Entities, some at a time; colorOf may give null.
export function entityList(title, nodes, colorOf, actions) {
  const items = h("ul", { class: "list items" });
  const more = h("button", { class: "second small", type: "button", onclick: () => append(200) });
  let shown = 0;
  function append(count) {
    const from = shown;
    items.append(...nodes.slice(shown, (shown += count)).map((node) => h("li", { class: "row" }, swatch(colorOf(node)), entityButton(node, actions), node.type ? badge(node.type) : null)));
    more.hidden = shown >= nodes.length;
    more.textContent = t("{count} more", { count: nodes.length - shown });
    if (from) items.children[from]?.querySelector("button")?.focus();
  }
  append(FIRST);
  return card(head(title, entityCount(nodes.length)), items, more);
}

const entityButton = (node, actions) => h("button", { class: "link grow", type: "button", onclick: () => actions.choose(node.id) }, node.name);

// The chosen entity. part: as /api/graph/entities/{id} has it.
export function entityCard(part, actions, { depth = null, isDrawn }) {
  const one = part.entity;
  const isOpen = actions.isExpanded(one.id);
  return h("section", { class: "card chosen", id: "chosen", "aria-label": one.name },
    head(one.name, badge(one.type)),
    one.description ? h("p", { class: "small lines" }, one.description) : h("p", { class: "small soft" }, t("Nothing is said of it.")),
    h("div", { class: "row actions" },
      depth === null ? [
        isDrawn ? h("button", { class: "second small", type: "button", "aria-expanded": String(isOpen), onclick: () => (isOpen ? actions.collapse(one.id) : actions.expand(one.id)) }, isOpen ? t("Collapse") : t("Expand")) : null,
        h("a", { class: "small", href: address("graph", ["entity", String(one.id)]) }, t("What is around it")),
        isOpen && part.total > actions.expandedAtMost ? h("span", { class: "small soft" }, t("The {count} strongest of {all} are drawn.", { count: actions.expandedAtMost, all: part.total })) : null,
      ] : h("div", { class: "row small", role: "group", "aria-label": t("Depth") }, h("span", { class: "soft" }, t("Depth")),
        [1, 2, 3].map((steps) => h("button", { class: "second small step", type: "button", "aria-pressed": String(steps === depth), onclick: () => actions.deepen(steps) }, String(steps)))),
      h("a", { class: "small", href: address("search", [], { q: one.name }) }, t("Passages"))),
    mayCurate() ? entityForms(one, actions.types(), actions.shown) : null,
    h("h4", {}, tn(one.degree, "{count} relationship", "{count} relationships")),
    relationshipList(part, actions),
    mayCurate() ? newRelationship(one, actions.shown) : null);
}

// The relationships of an entity, the strongest first, and a button for more of them.
function relationshipList(part, actions) {
  const one = part.entity;
  const byId = new Map(part.nodes.map((node) => [node.id, node]));
  const own = part.edges.filter((edge) => edge.source === one.id || edge.target === one.id);
  const item = (edge) => {
    const other = byId.get(edge.source === one.id ? edge.target : edge.source);
    const [source, target] = edge.source === one.id ? [one.name, other.name] : [other.name, one.name];
    return h("li", {}, h("div", { class: "row" }, entityButton(other, actions), other.type ? badge(other.type) : null),
      edge.description ? h("div", { class: "small soft" }, edge.description) : null,
      mayCurate() && edge.keywords ? relationshipForm(edge, source, target, one, actions.shown) : null);
  };
  const limit = Math.min(own.length + LISTED_MORE, MOST_LISTED);
  const more = async () => {
    const larger = relationshipList(await get(`/api/graph/entities/${one.id}`, { limit }), actions);
    box.replaceWith(larger);
    $(`li:nth-child(${own.length + 1}) .link`, larger)?.focus();
  };
  const box = h("div", {}, h("ul", { class: "list items" }, own.map(item)),
    own.length < one.degree ? h("p", { class: "row small soft" }, t("The {count} strongest are listed.", { count: own.length }), limit > own.length ? h("button", { class: "link", type: "button", onclick: () => more().catch(complain) }, t("Show more")) : null) : null);
  return box;
}

// A form for the path between two. unknown: the name that led nowhere, with names near it.
export function pathForm(source = "", target = "", isOpen = false) {
  const form = h("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); const { source: from, target: to } = event.target.elements; go("graph", ["path"], { source: from.value.trim(), target: to.value.trim() }); } },
    ...[["source", t("From"), source], ["target", t("To"), target]].map(([name, label, value]) => h("label", {}, label, nameBox({ name, label, value, placeholder: "", required: true }))),
    h("div", { class: "row" }, h("button", { class: "second" }, t("Show the path"))));
  return card(h("details", { open: isOpen }, h("summary", {}, t("Path between two")), form));
}

// Of the two names of a path, those that nobody has, with names that are near.
export async function unknownNames(source, target) {
  const unknown = await Promise.all([source, target].map(async (name) => ((await named(name)) ? null : { name, near: await get("/api/graph/entities", { query: name, top_k: 4 }) })));
  return unknown.map((one, index) => one && h("div", {}, h("p", { class: "error small", role: "alert" }, t("There is no entity called “{name}”.", { name: one.name })),
    one.near.length ? h("p", { class: "small row" }, t("Do you mean:"), one.near.map((hit) => h("a", { href: address("graph", ["path"], index ? { source, target: hit.name } : { source: hit.name, target }) }, hit.name))) : null)).filter(Boolean);
}

export function pathCard(part, actions) {
  const byId = new Map(part.nodes.map((node) => [node.id, node]));
  const steps = part.path.map((id, index) => {
    const before = part.path[index - 1];
    const edge = part.edges.find(({ source, target }) => (source === before && target === id) || (source === id && target === before));
    return h("li", {}, index ? h("div", { class: "small soft" }, edge?.description || "↓") : null, entityButton(byId.get(id), actions));
  });
  return card(h("h3", {}, t("The path")), h("ol", { class: "list items" }, steps));
}

// What an answer rests on.
export function whyCards({ answer, question, back }, openPassage, colors) {
  const { context } = answer;
  const titles = new Map(context.references.map((one) => [one.number, one.title || one.source_key]));
  const cited = new Set(answer.citations.map((citation) => citation.chunk_id));
  return [
    card(h("h3", {}, question), h("p", { class: "small lines" }, answer.answer), h("a", { href: back }, t("Back to the answer"))),
    card(h("h3", {}, t("Passages")), h("ul", { class: "list items" }, context.chunks.map((chunk) => h("li", { class: "row" }, swatch(cited.has(chunk.chunk_id) ? colors.cited : colors.other),
      h("button", { class: "link grow", type: "button", onclick: () => openPassage(chunk) }, `[${chunk.reference}] ${titles.get(chunk.reference) ?? ""}`), cited.has(chunk.chunk_id) ? badge(t("cited")) : null)))),
    context.relationships.length ? card(h("details", {}, h("summary", {}, t("Relationships")), h("ul", { class: "list items small" }, context.relationships.map((edge) => h("li", {}, h("span", { class: "name" }, `${edge.source} – ${edge.target}`), h("div", { class: "soft" }, edge.description)))))) : null,
  ];
}

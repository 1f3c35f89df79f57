// The graph: overview, community, type, entity, path, and why an answer holds. The address says which, and how it is drawn.

import { get, session } from "./api.js";
import { $, complain, h, refusal, toast } from "./dom.js";
import { open as openDocument } from "./document.js";
import * as canvas from "./graph-canvas.js";
import { mayCurate, newEntity } from "./graph-edit.js";
import { COLORS, GREY, groupBy, legend } from "./graph-groups.js";
import { short } from "./graph-labels.js";
import { named, nameBox } from "./graph-names.js";
import { png, svg } from "./graph-picture.js";
import * as side from "./graph-side.js";
import { graphOf, kept } from "./graph-why.js";
import { language, t, tn } from "./i18n.js";
import { address, go, place, remember } from "./router.js";

export { why } from "./graph-why.js";

// A graph of no more entities is shown as it is; a larger one as its groups.
const SMALL = 300;
const SIZES = [100, 300, 1000, 2000, 5000, 20000];
// Entities of a neighborhood, by its depth; more are asked for in steps. And those that an expansion brings.
const AROUND = [60, 150, 400];
const MORE_AROUND = [150, 400, 1000, 2000];
const EXPANDED = 30;
const CONNECTED = 3;
const PLAIN = { show: "", limit: SMALL, layout: "", color: "", depth: 1, chosen: "", open: "", find: "", source: "", target: "", parent: "" };

// state: {wanted, kind, part, nodes: id -> node, groups, hidden, expanded: id -> ids that it brought}; frame: elements.
let state = null;
let frame = null;
let leaving = null;
let turns = 0;
let moves = 0;
let sheet = null;

export async function view(main, asked = null) {
  clearTimeout(leaving);
  const wanted = read(asked ?? place());
  const isThere = frame?.root.isConnected && state && !state.failed && state.wanted.key === wanted.key;
  // The theme has changed.
  if (isThere && !asked) return canvas.recolor();
  if (isThere) return adjust(wanted).catch(complain);
  await style();
  if (!frame?.root.isConnected) build(main);
  return open(wanted);
}

// The next view may be this one again, of another address.
export function stop() {
  leaving = setTimeout(() => {
    canvas.clear();
    state = frame = null;
    document.body.classList.remove("full");
  });
}

export const forget = () => { state = null; };

function read({ parts, values }) {
  const [kind = "overview", id = ""] = parts;
  const wanted = { kind, id, parts };
  for (const [name, plain] of Object.entries(PLAIN)) {
    const value = values.get(name) ?? plain;
    wanted[name] = typeof plain === "number" ? Number(value) || plain : value;
  }
  // What is drawn; the rest says how.
  wanted.key = JSON.stringify([session.corpus, parts, wanted.show, wanted.limit, wanted.depth, wanted.source, wanted.target, wanted.parent]);
  return wanted;
}

const valuesOf = (wanted) => Object.fromEntries(Object.keys(PLAIN).filter((name) => wanted[name] !== PLAIN[name]).map((name) => [name, wanted[name]]));

// Changes how it is drawn, and the address with it. isNew: Back leads to what was.
function move(changes, { isNew = false } = {}) {
  const next = { ...state.wanted, ...changes };
  remember("graph", next.parts, valuesOf(next), { isNew });
  return adjust(next).catch(complain);
}
// What is drawn, in words, and a button for more of it where there is more.
const saidOf = (sentence, sizes, drawn, all) => {
  const next = drawn < all && sizes.find((size) => size > drawn);
  return [sentence, next ? h("button", { class: "link", type: "button", onclick: () => draw({ limit: next, show: state.canGroup ? "entities" : state.wanted.show }) }, t("Show more")) : null].filter(Boolean);
};
// Draws something else.
const draw = (changes) => go("graph", state.wanted.parts, valuesOf({ ...state.wanted, chosen: "", open: "", ...changes }));

// The rules of this view: fetched with the first graph.
function style() {
  sheet ??= new Promise((done) => {
    const link = h("link", { rel: "stylesheet", href: "/static/graph.css", onload: done, onerror: () => { link.remove(); sheet = null; done(); } });
    document.head.append(link);
  });
  return sheet;
}

function build(main) {
  const icon = (label, line, onclick) => h("button", { class: "second icon", type: "button", "aria-label": label, title: label, onclick }, drawn(line));
  const menu = h("details", { class: "menu", onfocusout: ({ relatedTarget }) => { if (relatedTarget && !menu.contains(relatedTarget)) menu.open = false; }, onkeydown: (event) => { if (event.key === "Escape" && menu.open) { event.stopPropagation(); menu.open = false; $("summary", menu).focus(); } } },
    h("summary", { class: "second" }, t("View")), h("div", { class: "fields", id: "view-menu" }));
  const finder = h("form", { class: "row grow", role: "search", onsubmit: (event) => { event.preventDefault(); seek(event.target.elements.entity.value.trim()).catch(complain); } },
    nameBox({ name: "entity", label: t("Find an entity"), onchoose: (hit) => goTo(hit.id), onhits: light }), h("button", { class: "second" }, t("Find")));
  const toolbar = h("div", { class: "toolbar" }, finder, h("div", { class: "row" }, menu,
    icon(t("Zoom out"), "M3 8h10", canvas.zoomOut), icon(t("Zoom in"), "M3 8h10M8 3v10", canvas.zoomIn), icon(t("Whole graph"), "M8 5.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5M8 1v3M8 12v3M1 8h3M12 8h3", canvas.whole), icon(t("Full screen"), "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4", full)));
  const drawing = h("div", { class: "canvas", id: "canvas", role: "img", "aria-label": t("Drawing of the graph. The list beside it has the same entities.") });
  const chips = h("div", { id: "groups" });
  const said = h("div", { class: "said small soft", id: "legend", role: "status" });
  const list = h("div", { class: "side", id: "side" });
  const root = h("div", { class: "graph" }, h("div", { class: "stage" }, h("h1", { class: "visually-hidden" }, t("Graph")), toolbar, drawing, chips, said), list);
  root.addEventListener("pointerdown", ({ target }) => { if (!menu.contains(target)) menu.open = false; });
  frame = { root, menu: $("#view-menu", menu), finder: $("input", finder), drawing, chips, said, list };
  main.replaceChildren(root);
}

// A sign of lines: fonts lack some.
function drawn(line) {
  const space = "http://www.w3.org/2000/svg";
  const sign = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", line);
  sign.setAttribute("viewBox", "0 0 16 16");
  sign.setAttribute("aria-hidden", "true");
  sign.append(path);
  return sign;
}

function full() {
  const isFull = document.body.classList.toggle("full");
  // Where the browser refuses, the page is full at least.
  if (isFull) document.documentElement.requestFullscreen?.().catch(() => {});
  else if (document.fullscreenElement) document.exitFullscreen();
}
document.addEventListener("fullscreenchange", () => document.body.classList.toggle("full", Boolean(document.fullscreenElement)));

const KINDS = { overview, community: overview, type: ofType, entity, path, why };

async function open(wanted) {
  const turn = (turns += 1);
  frame.root.classList.remove("failed");
  // What is drawn anew is seen from its beginning.
  if (state?.wanted.parts.join("/") !== wanted.parts.join("/")) {
    [frame.root.parentElement.scrollTop, frame.list.scrollTop] = [0, 0];
    $(".menu", frame.root).open = false;
  }
  frame.said.replaceChildren(t("Loading …"));
  frame.drawing.setAttribute("aria-busy", "true");
  try {
    if (wanted.kind === "entity" && !wanted.id) return await byName(wanted);
    const made = await (Object.hasOwn(KINDS, wanted.kind) ? KINDS[wanted.kind] : overview)(wanted);
    if (turn !== turns || !frame?.root.isConnected) return null;
    state = { wanted: { ...wanted, chosen: "", open: "", find: "" }, hidden: new Set(), expanded: new Map(), sought: "", ...made };
    state.nodes = new Map(state.part.nodes.map((node) => [String(node.id), node]));
    regroup();
    renderMenu();
    renderSide();
    frame.said.replaceChildren(...[state.said].flat());
    frame.finder.value = wanted.find;
    try {
      await canvas.draw(frame.drawing, { ...toDraw({ nodes: state.part.nodes, edges: state.drawn ?? state.part.edges }), lit: state.lit, chosen: wanted.chosen || state.centre || null }, layoutOf(wanted), { choose: pressed, open: opened });
    } catch (error) {
      // The list is there.
      if (turn === turns) frame.said.replaceChildren(refusal(error, () => open(read(place()))));
    }
    if (turn !== turns || !frame || !state) return null;
    // Somebody may have chosen something meanwhile.
    const now = read(place());
    await adjust(now.key === wanted.key ? now : wanted);
    canvas.choose(state?.chosen ?? null);
    return null;
  } catch (error) {
    if (turn === turns && frame) await fail(error, wanted);
    return null;
  } finally {
    if (turn === turns) frame?.drawing.removeAttribute("aria-busy");
  }
}

// As of an entity that is gone: the way on stays.
async function fail(error, wanted) {
  frame.root.classList.add("failed");
  state = { wanted, failed: true, part: { nodes: [], edges: [] }, nodes: new Map(), expanded: new Map() };
  canvas.clear();
  frame.chips.replaceChildren();
  frame.menu.replaceChildren();
  const isGone = error.code === "02000";
  frame.said.replaceChildren(isGone ? h("span", { role: "alert" }, wanted.kind === "path" ? t("There is no such path.") : t("This is not in the graph, or no longer.")) : refusal(error, () => open(read(place()))));
  const trail = side.trail([t("Overview"), address("graph")], [titleOf(wanted)]);
  frame.list.replaceChildren(trail, side.pathForm(wanted.source, wanted.target, wanted.kind === "path"));
  if (!isGone || wanted.kind !== "path") return;
  const unknown = await side.unknownNames(wanted.source, wanted.target).catch(() => []);
  if (unknown.length) trail.after(h("div", { class: "card" }, unknown));
}

const titleOf = ({ kind, id }) => ({ __proto__: null, path: t("Path"), why: t("Why?"), entity: t("Entity"), community: t("Community"), type: id })[kind] ?? t("Overview");

// #/CORPUS/graph/entity?name=NAME, as other views and programs write it.
async function byName(wanted) {
  const name = place().values.get("name") ?? "";
  const hit = await named(name);
  if (!hit) throw Object.assign(new Error(), { code: "02000" });
  remember("graph", ["entity", String(hit.id)], valuesOf(wanted));
  return open(read(place()));
}

async function overview(wanted) {
  const community = wanted.kind === "community" ? wanted.id : null;
  const [map, own] = await Promise.all([get("/api/graph/map", { parent: community }), community ? get(`/api/graph/communities/${encodeURIComponent(community)}`) : null]);
  const title = own ? side.communityName(own) : "";
  const canGroup = map.nodes.length > 1;
  const isMap = canGroup && (wanted.show === "groups" || (wanted.show !== "entities" && map.entities > SMALL));
  map.nodes = map.nodes.map((node) => ({ ...node, label: node.type === undefined ? side.communityName(node) : node.type || t("Without a type") }));
  const shared = { title, own, map, canGroup, isMap };
  if (isMap) {
    return { ...shared, kind: "map", part: map, drawn: strongest(map), said: t("{entities} entities and {relationships} relationships, in groups that open. The strongest connections are drawn.", map) };
  }
  const part = await get("/api/graph", { limit: wanted.limit, community });
  const isAll = part.nodes.length >= map.entities;
  const counts = { entities: part.nodes.length, relationships: part.edges.length, all: map.entities };
  return { ...shared, kind: "entities", part, said: isAll ? t("{entities} entities, {relationships} relationships.", counts) : saidOf(t("The {entities} most connected of {all} entities, {relationships} relationships.", counts), SIZES, part.nodes.length, map.entities) };
}

// Of each group the strongest connections, of communities those with each other: all of them would be one tangle.
function strongest({ nodes, edges }) {
  const isType = new Set(nodes.filter((node) => node.type !== undefined).map(({ id }) => id));
  const counts = new Map();
  const drawn = [];
  for (const edge of edges) {
    const ends = [edge.source, edge.target];
    const kinds = ends.filter((id) => isType.has(id)).length;
    // Nearly all communities have most to do with the concepts in none: of these connections, the types' own count.
    const own = kinds === 1 ? ends.filter((id) => isType.has(id)) : ends;
    if (!own.some((id) => (counts.get(id) ?? 0) < CONNECTED)) continue;
    drawn.push(edge);
    for (const id of own) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return drawn;
}

async function ofType(wanted) {
  const part = await get("/api/graph", { limit: wanted.limit, type: wanted.id, community: wanted.parent || null });
  const counts = { entities: part.nodes.length, all: part.total, relationships: part.edges.length, type: wanted.id };
  const sentence = part.total > part.nodes.length ? t("The {entities} most connected of {all} entities of the type {type} in no community, {relationships} relationships.", counts) : t("{entities} entities of the type {type} in no community, {relationships} relationships.", counts);
  return { kind: "entities", title: wanted.id, part, said: saidOf(sentence, SIZES, part.nodes.length, part.total) };
}

async function entity(wanted) {
  const part = await get(`/api/graph/entities/${encodeURIComponent(wanted.id)}`, { depth: wanted.depth, limit: wanted.limit === PLAIN.limit ? AROUND[wanted.depth - 1] : Math.min(wanted.limit, MORE_AROUND.at(-1)) });
  const drawn = part.nodes.length - 1;
  const values = { name: part.entity.name, all: part.total };
  const sentence = drawn < part.total ? t("{name} and {count} of {all} entities around it, the strongest connections first.", { ...values, count: drawn }) : tn(drawn, "{name} and {count} entity around it.", "{name} and {count} entities around it.", values);
  return { kind: "entity", title: part.entity.name, part, centre: wanted.id, said: saidOf(sentence, MORE_AROUND, drawn, part.total) };
}

async function path({ source, target }) {
  const part = await get("/api/graph/path", { source, target });
  part.nodes.forEach((node) => { node.hop = Math.max(0, part.path.indexOf(node.id)); });
  const values = { source, target };
  return {
    kind: "path", title: t("Path"), part, lit: new Set(part.path.map(String)),
    said: part.path.length ? tn(part.path.length - 1, "{count} relationship from {source} to {target}.", "{count} relationships from {source} to {target}.", values) : t("No path of at most six relationships leads from {source} to {target}.", values),
  };
}

async function why(wanted) {
  const answered = kept(wanted.id);
  const { lit, ...part } = graphOf(answered.answer);
  return { kind: "why", title: t("Why?"), answered, part, lit, said: t("Why? What the answer cites is lit: {count} of {all} entities and passages.", { count: lit.size, all: part.nodes.length }) };
}

// What a drawing takes of nodes and edges.
function toDraw({ nodes, edges }) {
  const isMap = state.kind === "map";
  // A type may be a thousand times as large as a community.
  const weight = (node) => (isMap ? Math.log(1 + node.size) ** 3 : node.degree);
  const largest = Math.max(1, ...[...state.nodes.values()].map(weight));
  // The count is seen, however long the name is; a title without a model is a list of names.
  const label = (node) => `${short(node.type === undefined ? (node.title || node.names[0]).split(", ")[0] : node.label, innerWidth < 860 ? 15 : 24)} · ${node.size.toLocaleString(language)}`;
  return {
    nodes: nodes.map((node) => ({ id: node.id, name: isMap ? label(node) : node.name, color: colorOf(node), group: state.groups.of(node).id, weight: weight(node) / largest, data: node })),
    edges: edges.map((edge) => ({ source: edge.source, target: edge.target, weight: Number(edge.count ?? edge.weight ?? 1), label: edge.count?.toLocaleString(language) })),
  };
}

const hasCommunities = () => state.part.nodes.some((node) => node.community != null);
const colorKind = () => (["type", "community"].includes(state.wanted.color) ? state.wanted.color : state.kind === "entities" && hasCommunities() ? "community" : "type");

function regroup() {
  if (state.kind === "map") {
    const of = (node) => (node.type === undefined ? groups[0] : groups[1]);
    const groups = [{ id: "communities", label: t("Communities"), color: COLORS[0], count: 0 }, { id: "types", label: t("In no community, by type"), color: COLORS[4], count: 0 }];
    for (const node of state.part.nodes) of(node).count += 1;
    state.groups = { groups: groups.filter(({ count }) => count), of };
  } else {
    const names = new Map((state.map?.nodes ?? []).filter((node) => node.community !== undefined).map((node) => [node.community, node.label]));
    state.groups = groupBy([...state.nodes.values()], colorKind(), (id) => names.get(id) ?? t("Community {number}", { number: String(id) }));
  }
  frame.chips.classList.toggle("few", state.groups.groups.length < 4);
  frame.chips.replaceChildren(legend(state.groups.groups, state.hidden, () => canvas.hide(state.hidden)));
}

function renderMenu() {
  const { wanted, kind } = state;
  const select = (label, name, options, value, onchange) => h("label", {}, label, h("select", { name, onchange: (event) => onchange(event.target.value) }, options.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text))));
  const isList = kind === "entities";
  frame.menu.replaceChildren(...[
    state.canGroup && select(t("Show"), "show", [["groups", t("Groups")], ["entities", t("Entities")]], state.isMap ? "groups" : "entities", (show) => draw({ show })),
    isList && select(t("Entities drawn"), "limit", SIZES.map((size) => [size, size.toLocaleString(language)]), wanted.limit, (limit) => draw({ limit: Number(limit), show: state.canGroup ? "entities" : wanted.show })),
    select(t("Layout"), "layout", [["force", t("By connection")], ["rings", t("Rings")], ["circle", t("Circle")], ["groups", t("By the legend")], kind === "path" && ["line", t("Line")]].filter(Boolean), layoutOf(wanted), (layout) => move({ layout })),
    kind !== "map" && hasCommunities() && select(t("Colors"), "color", [["community", t("Community")], ["type", t("Type")]], colorKind(), (color) => move({ color })),
    h("div", { class: "row" }, h("span", { class: "small soft" }, t("Picture")),
      h("button", { class: "second small", type: "button", onclick: () => png(pictureName()).catch(complain) }, "PNG"),
      h("button", { class: "second small", type: "button", onclick: () => svg(pictureName()) }, "SVG")),
  ].filter(Boolean));
}
const pictureName = () => [session.corpus, state.title || t("Graph")].join(" ");

const actions = {
  choose: (id) => goTo(id),
  expand: (id) => move({ open: [...openIds(state.wanted), String(id)].join(",") }),
  collapse: (id) => move({ open: openIds(state.wanted).filter((one) => one !== String(id)).join(",") }),
  expandedAtMost: EXPANDED,
  isExpanded: (id) => state.expanded.has(String(id)),
  deepen: (depth) => draw({ depth, limit: PLAIN.limit }),
  types: () => [...new Set([...state.nodes.values()].map((node) => node.type).filter(Boolean))].sort(),
  shown: changed,
};
const layoutOf = (wanted) => wanted.layout || (state.kind === "path" ? "line" : "force");
const openIds = (wanted) => (wanted.open ? wanted.open.split(",") : []);

// In the drawing where it is there; else what is around it is drawn.
function goTo(id) {
  if (state.kind !== "map" && state.nodes.has(String(id))) {
    const isNew = String(id) !== (state.wanted.chosen || state.centre);
    return move({ chosen: String(id) === state.centre ? "" : String(id) }, { isNew });
  }
  return go("graph", ["entity", String(id)]);
}

function pressed(node) {
  if (!node) {
    if (state.wanted.chosen) move({ chosen: "" }, { isNew: true });
  } else if (state.kind === "map") location.hash = hrefOf(node);
  else if (node.chunk) openPassage(node.chunk);
  else if (typeof node.id === "number") goTo(node.id);
  else go("graph", ["entity"], { name: node.name });
}

function opened(node) {
  if (typeof node.id === "number" && String(node.id) !== state.centre) actions[actions.isExpanded(node.id) ? "collapse" : "expand"](node.id);
}

const openPassage = (chunk) => openDocument(chunk.document_id, { chunk: chunk.content, sought: state.answered.answer.answer });
const hrefOf = (node) => (node.type === undefined ? address("graph", ["community", String(node.community)]) : address("graph", ["type", node.type], { parent: state.wanted.kind === "community" ? state.wanted.id : null }));
const colorOf = (node) => state.groups.of(node).color;
// Of what may not be in the drawing.
const colorIfDrawn = ({ id }) => (state.nodes.has(String(id)) ? colorOf(state.nodes.get(String(id))) : GREY);

function renderSide() {
  const { kind, wanted, own, map } = state;
  const home = [t("Overview"), address("graph")];
  frame.chosen = h("div");
  frame.found = h("div");
  frame.entities = h("div");
  frame.list.replaceChildren(...[
    h("h2", { class: "visually-hidden" }, state.title || t("Overview")),
    state.title ? side.trail(home, [state.title]) : null,
    own?.summary ? h("div", { class: "card" }, h("h3", {}, state.title), h("p", { class: "small lines" }, own.summary)) : null,
    kind === "why" ? side.whyCards(state.answered, openPassage, { cited: COLORS[1], other: GREY }) : null,
    frame.found,
    frame.chosen,
    kind === "path" && state.part.path.length ? side.pathCard(state.part, actions) : null,
    kind === "map" ? side.mapList(state.part, own ? t("Groups inside") : t("Groups"), hrefOf, colorOf) : frame.entities,
    kind === "entities" && map?.nodes.length > 1 ? h("details", { class: "card" }, h("summary", {}, t("Groups")), side.mapList(map, t("Groups"), hrefOf, colorOf)) : null,
    side.pathForm(wanted.source || (kind === "entity" ? state.title : ""), wanted.target, kind === "path"),
    mayCurate() ? h("div", { class: "card" }, newEntity(actions.types(), created)) : null,
  ].flat().filter(Boolean));
  renderList();
}

function renderList() {
  if (state.kind === "map") return;
  const nodes = [...state.nodes.values()].filter((node) => typeof node.id === "number").sort((a, b) => b.degree - a.degree);
  frame.entities.replaceChildren(side.entityList(t("In the drawing"), nodes, colorOf, actions));
}

// Brings what is shown to what is wanted, of the same drawing.
async function adjust(wanted) {
  const turn = (moves += 1);
  const before = state.wanted;
  const own = state;
  const isLatest = () => own === state && turn === moves;
  state.wanted = wanted;
  if (wanted.color !== before.color) {
    state.hidden.clear();
    regroup();
    canvas.paintGroups(state.groups.of);
    canvas.hide(state.hidden);
    renderMenu();
    renderList();
  }
  if (wanted.layout !== before.layout && frame.drawing.firstChild) {
    renderMenu();
    canvas.lay(layoutOf(wanted));
  }
  for (const id of state.expanded.keys()) if (!openIds(wanted).includes(id)) collapse(id);
  // What is folded away took others with it.
  for (const id of openIds(own.wanted)) {
    if (!own.expanded.has(id)) await expand(id, own);
    if (!isLatest()) return;
  }
  if (wanted.find !== own.sought) await found(wanted.find);
  if (!isLatest()) return;
  const chosen = wanted.chosen || state.centre || null;
  if (chosen !== state.chosen || own.wanted.open !== own.chosenOpen) await showChosen(chosen);
}

async function showChosen(chosen) {
  const own = state;
  state.chosen = chosen;
  state.chosenOpen = state.wanted.open;
  canvas.choose(chosen);
  if (!chosen) return frame.chosen.replaceChildren();
  canvas.show(chosen);
  try {
    const isCentre = chosen === own.centre;
    const part = isCentre ? own.part : await get(`/api/graph/entities/${encodeURIComponent(chosen)}`);
    if (own !== state || state.chosen !== chosen) return;
    frame.chosen.replaceChildren(side.entityCard(part, actions, { depth: isCentre ? own.wanted.depth : null, isDrawn: state.nodes.has(chosen) }));
    if (!isCentre && frame.list.scrollTop) frame.chosen.scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (own === state) frame.chosen.replaceChildren(h("div", { class: "card" }, error.code === "02000" ? t("This is not in the graph, or no longer.") : refusal(error, () => showChosen(chosen))));
  }
}

async function expand(id, own) {
  let part;
  try {
    part = await get(`/api/graph/entities/${encodeURIComponent(id)}`, { limit: EXPANDED });
  } catch (error) {
    if (own === state) state.wanted = { ...state.wanted, open: openIds(state.wanted).filter((one) => one !== id).join(",") };
    if (error.code !== "02000") complain(error);
    return;
  }
  if (own !== state || own.expanded.has(id) || !openIds(own.wanted).includes(id)) return;
  const fresh = part.nodes.filter((node) => !own.nodes.has(String(node.id)));
  for (const node of fresh) own.nodes.set(String(node.id), node);
  own.expanded.set(id, fresh.map((node) => String(node.id)));
  regroup();
  canvas.paintGroups(own.groups.of);
  renderList();
  await canvas.add(toDraw({ nodes: fresh, edges: part.edges }), id);
  if (own !== state) return;
  canvas.hide(own.hidden);
  if (!fresh.length) toast(t("All around it is drawn already."));
}

// Takes away what the expansion brought, and what expansions of these brought.
function collapse(id) {
  const gone = state.expanded.get(id) ?? [];
  state.expanded.delete(id);
  for (const one of gone) if (state.expanded.has(one)) collapse(one);
  for (const one of gone) state.nodes.delete(one);
  state.wanted = { ...state.wanted, open: openIds(state.wanted).filter((one) => one !== id && !gone.includes(one)).join(",") };
  canvas.drop(gone);
  regroup();
  canvas.paintGroups(state.groups.of);
  renderList();
}

// While one types: those in the drawing that are meant light up.
function light(hits) {
  if (!state) return 0;
  const text = frame.finder.value.trim().toLowerCase();
  if (!text) {
    if (state.wanted.find) move({ find: "" });
    return canvas.find(null);
  }
  const own = [...state.nodes].filter(([, node]) => (node.label ?? node.name).toLowerCase().includes(text) || node.names?.some((name) => name.toLowerCase().includes(text))).map(([id]) => id);
  return canvas.find([...hits.map(({ id }) => String(id)).filter((id) => state.nodes.has(id)), ...own]);
}

async function seek(text) {
  if (!text) return;
  if (text === state.wanted.find) await found(text);
  else await move({ find: text }, { isNew: true });
}

async function found(text) {
  const own = state;
  own.sought = text;
  frame.finder.value = text;
  if (!text) {
    frame.found?.replaceChildren();
    canvas.find(null);
    return;
  }
  let hits = await get("/api/graph/names", { text, limit: 30 });
  // By what it means, where nothing is called so.
  if (!hits.length) hits = (await get("/api/graph/entities", { query: text })).map((hit) => ({ ...hit, id: hit.entity_id }));
  if (own !== state || own.sought !== text || !frame?.found) return;
  const count = light(hits);
  frame.found.replaceChildren(hits.length ? side.entityList(t("Found"), hits, colorIfDrawn, actions) : h("div", { class: "card" }, t("No entity has such a name.")));
  if (count) $(".card", frame.found).append(h("p", { class: "small soft" }, tn(count, "{count} of the drawing is lit.", "{count} of the drawing are lit.")));
}

// After a change: the same again, with the entity of this name (null: it is gone).
async function changed(name) {
  const hit = name ? await named(name) : null;
  const { wanted } = state;
  const isCentre = state.centre && state.chosen === state.centre;
  const parts = isCentre ? (hit ? ["entity", String(hit.id)] : []) : wanted.parts;
  remember("graph", parts, valuesOf({ ...wanted, chosen: isCentre || !hit ? "" : String(hit.id) }));
  await open(read(place()));
}

async function created(name) {
  const hit = name ? await named(name) : null;
  go("graph", hit ? ["entity", String(hit.id)] : []);
}

// The graph: overview, community, entity, path, and why an answer holds. sigma.js draws, a worker arranges.

import { get, post, session, remove } from "./api.js";
import { $, color, complain, fill, h, refusal, toast } from "./dom.js";
import { open } from "./document.js";

// Okabe and Ito's colors, told apart by most eyes, in both themes.
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a5cc4", "#8c6d46", "#e34a6f", "#4f9d2f"];
const GREY = "#8b93a0";
const SIZES = [200, 500, 1000, 2000, 5000, 20000];
// Of more, whatever is pointed at is lit without dimming the rest, which would mean every node and edge anew.
const DIMMED = 2000;

let libraries = null;
let sigma = null;
let graph = null;
let worker = null;
let job = 0;
// Of what is asked for, the last is drawn.
let turns = 0;
let lit = null;
let hovered = null;
let palette = new Map();
let current = { size: 500 };

// Some 260 kB: fetched with the first graph.
function load() {
  libraries ??= ["graphology.umd.min.js", "sigma.min.js"].reduce(
    (before, name) => before.then(() => new Promise((done, failed) => {
      document.head.append(h("script", { src: `/static/vendor/${name}`, onload: done, onerror: () => failed(new Error(`${name} cannot be loaded`)) }));
    })), Promise.resolve()).catch((error) => { libraries = null; throw error; });
  return libraries;
}

export async function view(main) {
  stop();
  const stage = h("div", { class: "stage" },
    h("div", { class: "canvas", id: "canvas", role: "img", "aria-label": "Drawing of the graph. The list beside it has the same entities." }),
    h("div", { class: "tools" },
      h("button", { class: "second", type: "button", "aria-label": "Closer", onclick: () => sigma?.getCamera().animatedZoom(1.6) }, "+"),
      h("button", { class: "second", type: "button", "aria-label": "Farther", onclick: () => sigma?.getCamera().animatedUnzoom(1.6) }, "−"),
      h("button", { class: "second", type: "button", "aria-label": "Whole graph", onclick: () => sigma?.getCamera().animatedReset() }, "⤢")),
    h("div", { class: "legend small soft", id: "legend", role: "status" }));
  main.replaceChildren(h("div", { class: "graph" }, stage, h("div", { class: "side", id: "side" })));
  try {
    await (current.redraw ?? overview)();
  } catch (error) {
    // As of an entity that is gone: the way on stays.
    legend(refusal(error, () => view(main)));
    side(finders(), h("div", { class: "card" }, toOverview()));
  }
}

export function stop() {
  sigma?.kill();
  sigma = null;
  worker?.terminate();
  worker = null;
}

export const forget = () => { current = { size: 500 }; };

// The drawing with its entities, and the communities: each is there as soon as it can be, and without the other.
async function overview(community = null) {
  current.redraw = () => overview(community);
  turns += 1;
  const communities = h("div");
  const entities = h("div");
  side(
    finders(),
    h("div", { class: "card" },
      h("div", { class: "row" }, h("h3", { class: "grow" }, community ? name(community) : "Communities"),
        community ? h("button", { class: "second small", type: "button", onclick: () => attempt(overview) }, "All")
          : h("label", { class: "small soft row" }, "Entities", h("select", { "aria-label": "Entities drawn", onchange: (event) => { current.size = Number(event.target.value); attempt(() => overview(community)); } },
            SIZES.map((size) => h("option", { value: size, selected: size === current.size }, size.toLocaleString()))))),
      community?.summary ? h("p", { class: "small" }, community.summary) : null,
      communities),
    entities);
  await Promise.all([
    fill(legend(), async () => {
      const part = await get("/api/graph", { limit: current.size, community: community?.id });
      if (!entities.isConnected) return null;
      colorBy(part.nodes);
      entities.replaceChildren(list(part.nodes.slice(0, 40), community ? "Its entities" : "Most connected"));
      await draw(part);
      const label = community ? `${count(part.nodes)} entities of a community` : `The ${count(part.nodes)} most connected entities`;
      return `${label}, ${count(part.edges)} relationships. ${palette.size ? "A color is a community; grey is any other, or none." : ""}`;
    }),
    fill(communities, async () => {
      const inside = await get("/api/graph/communities", { parent: community?.id });
      return inside.length
        ? h("ul", { class: "list items" }, inside.map((one) => h("li", {},
          h("div", { class: "row" }, dot(one.id), h("button", { class: "link grow", type: "button", onclick: () => attempt(() => overview(one)) }, name(one)), h("span", { class: "badge", title: "Entities" }, one.size.toLocaleString())))))
        : h("p", { class: "soft small" }, community ? "No communities inside." : "No communities: they are made by a worker, and shown to who sees the whole corpus.");
    })]);
}

const toOverview = () => h("button", { class: "second small", type: "button", onclick: () => attempt(overview) }, "Overview");

const count = (items) => items.length.toLocaleString();
const name = (community) => community.title || community.names.join(", ") || `Community ${community.id}`;

async function entity(id) {
  const turn = ++turns;
  const part = await get(`/api/graph/entities/${id}`);
  if (turn !== turns) return;
  current.redraw = () => entity(id);
  const { entity: one } = part;
  legend(`${one.name}: ${part.nodes.length - 1} of ${one.degree} relationships`);
  const byId = new Map(part.nodes.map((node) => [node.id, node]));
  const own = part.edges.filter((edge) => edge.source === id || edge.target === id);
  colorBy(part.nodes);
  side(
    finders(one.name),
    h("div", { class: "card" },
      h("div", { class: "row" }, h("h3", { class: "grow" }, one.name), h("span", { class: "badge" }, one.type)),
      h("p", { class: "small lines" }, one.description),
      h("div", { class: "row" },
        toOverview(),
        h("a", { class: "small", href: `#/${encodeURIComponent(session.corpus)}/search?q=${encodeURIComponent(one.name)}` }, "Passages")),
      session.may.includes("curate") ? curation(one) : null),
    h("div", { class: "card" }, h("h3", {}, "Relationships"), h("ul", { class: "list items" }, own.map((edge) => {
      const other = byId.get(edge.source === id ? edge.target : edge.source);
      return h("li", {}, h("button", { class: "link name", type: "button", onclick: () => attempt(() => entity(other.id)) }, other.name), h("div", { class: "small soft" }, edge.description));
    }))));
  await draw(part, new Set([id]));
}

async function path(source, target) {
  const turn = ++turns;
  const part = await get("/api/graph/path", { source, target });
  if (turn !== turns) return;
  current.redraw = () => path(source, target);
  const byId = new Map(part.nodes.map((node) => [node.id, node]));
  legend(part.path.length ? `${part.path.length - 1} relationships from ${source} to ${target}` : `No path of at most six relationships from ${source} to ${target}`);
  const steps = part.path.slice(1).map((id, index) => {
    const before = part.path[index];
    const edge = part.edges.find(({ source: s, target: t }) => (s === before && t === id) || (s === id && t === before));
    return h("li", {}, h("div", { class: "small soft" }, edge?.description), h("button", { class: "link name", type: "button", onclick: () => attempt(() => entity(id)) }, byId.get(id).name));
  });
  side(finders(source, target), h("div", { class: "card" }, toOverview()),
    part.path.length ? h("div", { class: "card" }, h("h3", {}, byId.get(part.path[0]).name), h("ol", { class: "list items" }, steps)) : null);
  await draw(part, new Set(part.path));
}

// What an answer rests on: its entities and relationships, and the passages; what it cites is lit.
export async function why(answer, question) {
  const { context } = answer;
  const cited = new Set(answer.citations.map((citation) => citation.chunk_id));
  const ids = new Map(context.entities.map((one) => [one.name, one.entity_id]));
  const nodes = context.entities.map((one) => ({ id: one.entity_id, name: one.name, type: one.type, degree: one.degree, description: one.description, community: null }));
  const titles = new Map(context.references.map((one) => [one.number, one.title || one.source_key]));
  const light = new Set();
  const edges = [];
  for (const edge of context.relationships) {
    for (const end of [edge.source, edge.target]) {
      if (ids.has(end)) continue;
      ids.set(end, `name ${end}`);
      nodes.push({ id: `name ${end}`, name: end, type: "", degree: 1, description: "", community: null });
    }
    edges.push({ id: edge.relationship_id, source: ids.get(edge.source), target: ids.get(edge.target), weight: Number(edge.weight), description: edge.description });
  }
  for (const chunk of context.chunks) {
    const id = `chunk ${chunk.chunk_id}`;
    nodes.push({ id, name: `[${chunk.reference}] ${titles.get(chunk.reference) ?? ""}`, type: "passage", degree: 8, description: chunk.content, community: null, chunk });
    const lower = chunk.content.toLowerCase();
    for (const [entityName, entityId] of ids) {
      if (!lower.includes(entityName.toLowerCase())) continue;
      edges.push({ id: `${id} ${entityId}`, source: id, target: entityId, weight: 1, description: "" });
      if (cited.has(chunk.chunk_id)) light.add(entityId);
    }
    if (cited.has(chunk.chunk_id)) light.add(id);
  }
  current.redraw = async () => {
    turns += 1;
    palette = new Map();
    legend(`Why: ${light.size} of ${nodes.length} entities and passages are those that the answer cites`);
    side(
      h("div", { class: "card" }, h("h3", {}, question), h("p", { class: "small" }, answer.answer),
        h("a", { href: `#/${encodeURIComponent(session.corpus)}/search` }, "Back to the answer")),
      h("div", { class: "card" }, h("h3", {}, "Passages"), h("ul", { class: "list items" }, context.chunks.map((chunk) => h("li", { class: "row" },
        dot(null, cited.has(chunk.chunk_id) ? COLORS[1] : GREY),
        h("button", { class: "link grow", type: "button", onclick: () => open(chunk.document_id, { chunk: chunk.content, sought: answer.answer }) }, `[${chunk.reference}] ${titles.get(chunk.reference) ?? ""}`))))),
      h("div", { class: "card" }, h("h3", {}, "Relationships"), h("ul", { class: "list items" }, context.relationships.map((edge) => h("li", { class: "small" }, h("span", { class: "name" }, `${edge.source} – ${edge.target}`), h("div", { class: "soft" }, edge.description))))));
    await draw({ nodes, edges }, light);
  };
  location.hash = `#/${encodeURIComponent(session.corpus)}/graph`;
}

const finders = (source = "", target = "") => h("div", { class: "card" }, finder(), pathFinder(source, target));

function finder() {
  return h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); attempt(async () => {
    const hits = await get("/api/graph/entities", { query: event.target.elements.entity.value });
    if (!hits.length) toast("There is no such entity");
    else if (hits.length === 1) await entity(hits[0].entity_id);
    else results.replaceChildren(list(hits.map((one) => ({ ...one, id: one.entity_id })), "Found"));
  }); } },
  h("input", { name: "entity", class: "grow", placeholder: "Find an entity", "aria-label": "Find an entity", required: true }), h("button", { class: "second" }, "Find"));
}

function pathFinder(source, target) {
  return h("details", {}, h("summary", { class: "small soft" }, "Path between two"),
    h("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); const { source: from, target: to } = event.target.elements; attempt(() => path(from.value, to.value)); } },
      h("input", { name: "source", value: source, placeholder: "From", "aria-label": "From", required: true }),
      h("input", { name: "target", value: target, placeholder: "To", "aria-label": "To", required: true }), h("button", { class: "second" }, "Show the path")));
}

function curation(one) {
  const change = (kind, values, done) => attempt(async () => {
    const { id } = await post("/api/curations", { kind, arguments: values });
    await (done ?? current.redraw)();
    toast("Done", { label: "Undo", run: () => attempt(async () => { await remove(`/api/curations/${id}`); toast("Undone"); await current.redraw(); }) });
  });
  const form = (label, field, kind, values) => h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); const value = event.target.elements.value.value.trim(); if (value) change(kind, values(value), kind === "merge_entities" ? overview : null); } },
    h("input", { name: "value", class: "grow", placeholder: field, "aria-label": field }), h("button", { class: "second small" }, label));
  return h("details", { class: "curation" }, h("summary", { class: "small soft" }, "Change this entity"), h("div", { class: "fields" },
    form("Rename", "New name", "rename_entity", (value) => ({ entity: one.name, new_name: value })),
    form("Set", "Type", "edit_entity", (value) => ({ entity: one.name, type: value })),
    form("Set", "Description", "edit_entity", (value) => ({ entity: one.name, description: value })),
    form("Merge", "Merge into the entity", "merge_entities", (value) => ({ entities: [one.name], target: value })),
    h("button", { class: "danger small", type: "button", onclick: () => change("delete_entity", { entity: one.name }, overview) }, "Delete")));
}

const list = (nodes, title) => h("div", { class: "card" }, h("h3", {}, title), h("ul", { class: "list items" }, nodes.map((node) => h("li", { class: "row" },
  node.community === undefined ? null : dot(node.community), h("button", { class: "link grow", type: "button", onclick: () => attempt(() => entity(node.id)) }, node.name), h("span", { class: "badge" }, node.type)))));

const dot = (community, value) => {
  const element = h("span", { class: "swatch", "data-community": community });
  element.style.background = value ?? palette.get(community) ?? GREY;
  return element;
};

const results = h("div");
function side(...cards) {
  results.replaceChildren();
  const box = $("#side");
  if (!box) return;
  box.replaceChildren(...cards.filter(Boolean).toSpliced(1, 0, results));
}
// A new place for what is said of the drawing: what was asked before may still write to the old one.
function legend(...children) {
  const box = h("div", {}, ...children);
  $("#legend")?.replaceChildren(box);
  return box;
}
const attempt = (work) => work().catch(complain);

async function draw(part, light = null) {
  await load();
  const box = $("#canvas");
  if (!box) return;
  lit = light;
  hovered = null;
  graph = new graphology.UndirectedGraph();
  const largest = Math.max(1, ...part.nodes.map((node) => node.degree));
  const places = start(part.nodes);
  part.nodes.forEach((node, index) => {
    const size = (part.nodes.length > 600 ? 2 : 4) + 11 * Math.sqrt(node.degree / largest);
    graph.addNode(node.id, { ...places[index], label: node.name, size: node.chunk ? 7 : size, color: node.chunk ? COLORS[4] : (palette.get(node.community) ?? (palette.size ? GREY : COLORS[0])), data: node });
  });
  for (const edge of part.edges) {
    if (edge.source !== edge.target && !graph.hasEdge(edge.source, edge.target)) {
      graph.addEdge(edge.source, edge.target, { size: Math.min(4, 0.6 + Math.log2(1 + edge.weight) / 3), weight: edge.weight });
    }
  }
  sigma?.kill();
  const theme = { text: color("--text"), sheet: color("--sheet"), line: color("--line"), edge: color("--edge"), accent: color("--accent") };
  sigma = new Sigma(graph, box, {
    allowInvalidContainer: true,
    // What is said of the drawing stands below it.
    stagePadding: 48,
    labelFont: getComputedStyle(document.body).fontFamily,
    labelColor: { color: theme.text },
    labelSize: 13,
    labelRenderedSizeThreshold: part.nodes.length > 600 ? 6 : 5,
    labelDensity: 0.5,
    labelGridCellSize: 120,
    defaultEdgeColor: theme.edge,
    zIndex: true,
    minCameraRatio: 0.02,
    maxCameraRatio: 4,
    defaultDrawNodeHover: drawHovered(theme),
    nodeReducer: (id, data) => (isDim(id) ? { ...data, color: theme.line, label: hovered ? null : data.label, zIndex: 0 } : { ...data, zIndex: 1, forceLabel: (lit?.size ?? 99) < 30 && lit.has(key(id)) }),
    edgeReducer: (edge, data) => {
      const [source, target] = graph.extremities(edge);
      if (hovered && (hovered === source || hovered === target)) return { ...data, color: theme.accent, zIndex: 1 };
      if (hovered && isSmall()) return { ...data, hidden: true };
      return lit?.has(key(source)) && lit.has(key(target)) ? { ...data, color: theme.accent, size: data.size + 0.8, zIndex: 1 } : data;
    },
  });
  sigma.on("enterNode", ({ node }) => { box.style.cursor = "pointer"; hover(node); });
  sigma.on("leaveNode", () => { box.style.cursor = ""; hover(null); });
  sigma.on("clickNode", ({ node }) => {
    const { chunk, id } = graph.getNodeAttribute(node, "data");
    if (chunk) open(chunk.document_id, { chunk: chunk.content, sought: "" });
    else if (typeof id === "number") attempt(() => entity(id));
  });
  arrange(part.edges);
}

function hover(node) {
  const changed = [hovered, node].filter(Boolean);
  hovered = node;
  sigma.refresh(isSmall() ? { skipIndexation: true } : { skipIndexation: true, partialGraph: { nodes: changed, edges: changed.flatMap((id) => graph.edges(id)) } });
}

const key = (id) => (/^\d+$/.test(id) ? Number(id) : id);
const isSmall = () => graph.order <= DIMMED;
const isDim = (id) => (hovered && isSmall() ? id !== hovered && !graph.areNeighbors(id, hovered) : Boolean(lit?.size) && lit.size < graph.order && !lit.has(key(id)) && !isNextTo(id));
// The other ends of one lit entity are what one looks for there.
const isNextTo = (id) => lit.size === 1 && graph.areNeighbors(id, String([...lit][0]));

// Sets the colors of communities, also of those that are listed already.
function colorBy(nodes) {
  const sizes = new Map();
  for (const { community } of nodes) if (community != null) sizes.set(community, (sizes.get(community) ?? 0) + 1);
  const largest = [...sizes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, COLORS.length);
  palette = new Map(largest.map(([community], index) => [community, COLORS[index]]));
  for (const swatch of document.querySelectorAll("#side [data-community]")) swatch.style.background = palette.get(Number(swatch.dataset.community)) ?? GREY;
}

// Each community around a place of its own, so that the first picture has its shape already. The same for the same graph.
function start(nodes) {
  const members = new Map();
  const golden = Math.PI * (3 - Math.sqrt(5));
  for (const { community } of nodes) if (!members.has(community)) members.set(community, { number: members.size, count: 0 });
  return nodes.map(({ community }) => {
    const group = members.get(community);
    const place = group.count++;
    const far = 60 * Math.sqrt(group.number);
    const near = 4 * Math.sqrt(place);
    return { x: far * Math.cos(golden * group.number) + near * Math.cos(golden * place), y: far * Math.sin(golden * group.number) + near * Math.sin(golden * place) };
  });
}

function arrange(edges) {
  worker?.terminate();
  worker = new Worker("/static/layout-worker.js");
  const number = ++job;
  worker.onmessage = ({ data }) => {
    if (data.number !== job || !sigma) return;
    graph.updateEachNodeAttributes((id, attributes) => ({ ...attributes, ...data.positions[id] }), { attributes: ["x", "y"] });
    document.documentElement.dataset.arranged = String(number);
  };
  const nodes = graph.mapNodes((id, { x, y }) => ({ id, x, y }));
  worker.postMessage({ number, nodes, edges: edges.filter(({ source, target }) => source !== target).map(({ source, target, weight }) => [String(source), String(target), weight]) });
}

// sigma's own hover box is white in both themes.
const drawHovered = (theme) => (context, data, settings) => {
  const size = settings.labelSize;
  context.font = `600 ${size}px ${settings.labelFont}`;
  const width = context.measureText(data.label ?? "").width + 16;
  context.fillStyle = theme.sheet;
  context.strokeStyle = theme.accent;
  context.beginPath();
  context.roundRect(data.x + data.size + 2, data.y - size, width, 2 * size, 6);
  context.fill();
  context.stroke();
  context.beginPath();
  context.arc(data.x, data.y, data.size + 2, 0, 2 * Math.PI);
  context.fillStyle = data.color;
  context.fill();
  context.stroke();
  context.fillStyle = theme.text;
  context.fillText(data.label ?? "", data.x + data.size + 10, data.y + size / 3);
};

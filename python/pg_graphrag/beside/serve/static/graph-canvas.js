// The drawing: sigma.js draws nodes and edges, a canvas upon it rings and labels, a worker arranges.

import { color, h } from "./dom.js";
import { t } from "./i18n.js";
import { FONT, arrange } from "./graph-labels.js";

// Of more, whatever is pointed at is lit without dimming the rest, which would mean every node and edge anew.
const DIMMED = 2000;
// So many edges would be one disc of their color.
const DENSE = 1500;
const PADDING = 28;
// Pixels; on a phone nodes are smaller.
const NARROW = 500;
// Labels are sought for so many nodes in view, the most important first.
const TRIED = 400;

// Of a label's ground, how much hides what is behind it.
export const BEHIND = 0.75;

let libraries = null;
let sigma = null;
let graph = null;
let overlay = null;
let box = null;
let on = {};
let worker = null;
// Ends the layout that is at work.
let ended = null;
let job = 0;
let theme = null;
let order = [];
// Nodes that are lit, by the view; those found, by who seeks; the chosen one; the one pointed at.
let lit = null;
let found = null;
let chosen = null;
let hovered = null;

// Some 260 kB: fetched with the first graph. What failed is asked for again with the next.
function load() {
  libraries ??= ["graphology.umd.min.js", "sigma.min.js"].reduce(
    (before, name) => before.then(() => new Promise((done, failed) => {
      document.head.append(h("script", { src: `/static/vendor/${name}`, onload: done, onerror: ({ target }) => { target.remove(); failed(new Error(t("The drawing cannot be loaded. The list beside has its entities."))); } }));
    })), Promise.resolve()).catch((error) => { libraries = null; throw error; });
  return libraries;
}

export function clear() {
  resized.disconnect();
  sigma?.kill();
  sigma = null;
  graph = null;
  halt();
  overlay?.remove();
}

// part: {nodes: [{id, name, color, group, weight, data}], edges: [{source, target, weight, label}], lit, chosen}; weight is 0 to 1.
// handlers: choose(data), open(data).
export async function draw(element, part, layout, handlers) {
  await load();
  if (!element.isConnected) return;
  clear();
  [box, on, lit, chosen, found, hovered] = [element, handlers, part.lit ?? null, part.chosen ?? null, null, null];
  theme = colors();
  graph = new graphology.UndirectedGraph();
  const places = start(part.nodes);
  part.nodes.forEach((node, index) => insert(node, places[index], part.nodes.length));
  connect(part.edges);
  sigma = new Sigma(graph, box, {
    allowInvalidContainer: true,
    stagePadding: PADDING,
    renderLabels: false,
    zIndex: true,
    minCameraRatio: 0.02,
    maxCameraRatio: 4,
    doubleClickZoomingRatio: 1,
    defaultDrawNodeHover: () => {},
    nodeReducer: (id, data) => ({ ...data, color: isDim(id) ? mix(data.color) : data.color, zIndex: isDim(id) ? 0 : id === chosen ? 2 : 1 }),
    edgeReducer: reduceEdge,
  });
  overlay = h("canvas", { class: "overlay", "aria-hidden": "true" });
  box.append(overlay);
  resized.disconnect();
  resized.observe(box);
  sigma.on("afterRender", paint);
  sigma.on("enterNode", ({ node }) => { box.style.cursor = "pointer"; hover(node); });
  sigma.on("leaveNode", () => { box.style.cursor = ""; hover(null); });
  sigma.on("clickNode", ({ node }) => on.choose(graph.getNodeAttribute(node, "data")));
  sigma.on("doubleClickNode", (event) => { event.preventSigmaDefault(); on.open(graph.getNodeAttribute(event.node, "data")); });
  sigma.on("clickStage", () => on.choose(null));
  drag();
  rank();
  await lay(layout);
}

function insert({ id, name, color: own, group, weight, data }, place, count) {
  const [least, more] = count > 600 ? [2.5, 10] : count > 150 ? [4, 13] : [6, 13];
  const scale = box.clientWidth < NARROW ? 0.65 : 1;
  graph.addNode(String(id), { ...place, label: name, size: scale * (least + more * Math.sqrt(Math.min(1, weight))), color: own, group, data });
}

function connect(edges) {
  for (const { source, target, weight, label } of edges) {
    const ends = [String(source), String(target)];
    if (ends[0] !== ends[1] && ends.every((id) => graph.hasNode(id)) && !graph.hasEdge(...ends)) {
      graph.addEdge(...ends, { size: Math.min(5, 0.7 + Math.log2(1 + weight) / 3), weight, label });
    }
  }
}

const resized = new ResizeObserver(() => sigma?.refresh());

// Adds what is around a node, in place: what is there already stays where it is. Gives the ids that are new.
export async function add(part, around) {
  if (!graph) return part.nodes.map(({ id }) => String(id));
  const fresh = part.nodes.filter(({ id }) => !graph.hasNode(String(id)));
  const old = new Set(graph.nodes());
  const middle = graph.hasNode(around) ? graph.getNodeAttributes(around) : { x: 0, y: 0 };
  // A fan, away from what is there.
  const places = graph.mapNodes((_, { x, y }) => [x, y]);
  const [left, down] = [0, 1].map((axis) => places.reduce((sum, one) => sum + one[axis] / places.length, 0));
  const away = Math.atan2(middle.y - down, middle.x - left);
  const wide = Math.min(2 * Math.PI * (1 - 1 / (fresh.length + 1)), 0.6 * fresh.length);
  fresh.forEach((node, index) => {
    const angle = away + wide * (fresh.length > 1 ? index / (fresh.length - 1) - 0.5 : 0);
    const far = Math.max(110, 13 * fresh.length) * (index % 2 ? 0.75 : 1);
    insert(node, { x: middle.x + far * Math.cos(angle), y: middle.y + far * Math.sin(angle) }, graph.order);
  });
  connect(part.edges);
  rank();
  // What sigma does not know yet it cannot repaint.
  sigma.refresh();
  await lay("force", old);
  return fresh.map(({ id }) => String(id));
}

export function drop(ids) {
  if (!graph) return;
  for (const id of ids) if (graph.hasNode(id)) graph.dropNode(id);
  if (hovered && !graph.hasNode(hovered)) hovered = null;
  rank();
  sigma.refresh();
}

export function choose(id) {
  chosen = id === null ? null : String(id);
  sigma?.refresh({ skipIndexation: true });
}

// Lights the nodes that somebody seeks; null: none are sought.
export function find(ids) {
  found = ids && new Set(ids.map(String).filter((id) => graph?.hasNode(id)));
  if (!found?.size) found = null;
  sigma?.refresh({ skipIndexation: true });
  return found?.size ?? 0;
}

export function hide(groups) {
  graph?.updateEachNodeAttributes((_, attributes) => ({ ...attributes, hidden: groups.has(attributes.group) }), { attributes: ["hidden"] });
}

export function paintGroups(groupOf) {
  graph?.updateEachNodeAttributes((_, attributes) => {
    const { id, color: own } = groupOf(attributes.data);
    return { ...attributes, group: id, color: own };
  }, { attributes: ["color", "group"] });
}

export const has = (id) => Boolean(graph?.hasNode(String(id)));
export const zoomIn = () => sigma?.getCamera().animatedZoom(1.6);
export const zoomOut = () => sigma?.getCamera().animatedUnzoom(1.6);
export const whole = () => sigma?.getCamera().animatedReset();
export function recolor() {
  theme = colors();
  sigma?.refresh();
}

// Brings a node into view, where it is not.
export function show(id) {
  if (!has(id)) return;
  const at = sigma.getNodeDisplayData(String(id));
  const { x, y } = sigma.framedGraphToViewport(at);
  const { width, height } = sigma.getDimensions();
  if (x < PADDING || y < PADDING || x > width - PADDING || y > height - PADDING) sigma.getCamera().animate({ x: at.x, y: at.y });
}

// Whoever waits for a layout that another takes the place of goes on.
function halt() {
  ended?.();
  ended = null;
  worker?.terminate();
  worker = null;
}

export function lay(layout, pinned = null) {
  halt();
  worker = new Worker("/static/layout-worker.js");
  const number = (job += 1);
  const { width, height } = sigma.getDimensions();
  const nodes = graph.mapNodes((id, { x, y, size, group, data }) => ({ id, x, y, size, group, hop: data.hop, isFixed: Boolean(pinned?.has(id)) }));
  const edges = graph.mapEdges((_, { weight }, source, target) => [source, target, weight]);
  return new Promise((done) => {
    ended = done;
    const finish = () => { document.documentElement.dataset.arranged = String(number); done(); };
    worker.onmessage = ({ data }) => {
      if (data.number !== job || !sigma) return done();
      if (!pinned) sigma.setCustomBBox(null);
      graph.updateEachNodeAttributes((id, attributes) => ({ ...attributes, ...data.positions[id] }), { attributes: ["x", "y"] });
      return finish();
    };
    // Then they stay where they began, which is a picture too.
    worker.onerror = finish;
    worker.postMessage({ number, layout, nodes, edges, width: width - 2 * PADDING, height: height - 2 * PADDING });
  });
}

// Each community around a place of its own, so that the first picture has its shape already. The same for the same graph.
function start(nodes) {
  const members = new Map();
  const golden = Math.PI * (3 - Math.sqrt(5));
  for (const { group } of nodes) if (!members.has(group)) members.set(group, { number: members.size, count: 0 });
  return nodes.map(({ group }) => {
    const own = members.get(group);
    const place = own.count++;
    const [far, near] = [60 * Math.sqrt(own.number), 4 * Math.sqrt(place)];
    return { x: far * Math.cos(golden * own.number) + near * Math.cos(golden * place), y: far * Math.sin(golden * own.number) + near * Math.sin(golden * place) };
  });
}

function drag() {
  let held = null;
  sigma.on("downNode", ({ node }) => {
    held = node;
    // Else the whole graph would move where one of its nodes is taken outside.
    sigma.setCustomBBox(sigma.getBBox());
  });
  sigma.on("moveBody", ({ event, preventSigmaDefault }) => {
    if (!held || !graph.hasNode(held)) return;
    const { width, height } = sigma.getDimensions();
    const inside = (value, most) => Math.max(8, Math.min(value, most - 8));
    const { x, y } = sigma.viewportToGraph({ x: inside(event.x, width), y: inside(event.y, height) });
    graph.mergeNodeAttributes(held, { x, y });
    preventSigmaDefault();
    event.original.preventDefault();
    event.original.stopPropagation();
  });
  const release = () => { held = null; };
  for (const name of ["upNode", "upStage"]) sigma.on(name, release);
}

function hover(node) {
  const changed = [hovered, node].filter((id) => id && graph.hasNode(id));
  hovered = node;
  sigma.refresh(isSmall() ? { skipIndexation: true } : { skipIndexation: true, partialGraph: { nodes: changed, edges: changed.flatMap((id) => graph.edges(id)) } });
}

const isSmall = () => graph.order <= DIMMED;
const isNear = (id, other) => id === other || graph.areNeighbors(id, other);

function isDim(id) {
  if (hovered && isSmall() && graph.hasNode(hovered)) return !isNear(id, hovered);
  if (found) return !found.has(id);
  if (lit?.size) return !lit.has(id) && id !== chosen;
  if (chosen && isSmall() && graph.hasNode(chosen)) return !isNear(id, chosen);
  return false;
}

function reduceEdge(edge, data) {
  const [source, target] = graph.extremities(edge);
  const focus = hovered ?? chosen;
  if (focus === source || focus === target) return { ...data, color: theme.accent, zIndex: 2 };
  if (hovered && isSmall()) return { ...data, color: theme.faint, zIndex: 0 };
  if (!found && lit?.size && lit.has(source) && lit.has(target)) return { ...data, color: theme.accent, size: data.size + 0.8, zIndex: 1 };
  return { ...data, color: isDim(source) || isDim(target) || graph.size > DENSE ? theme.faint : theme.edge };
}

function colors() {
  const own = { text: color("--text"), soft: color("--soft"), sheet: color("--sheet"), edge: color("--edge"), accent: color("--accent"), font: getComputedStyle(document.body).fontFamily };
  const sheet = numbers(own.sheet);
  return { ...own, back: sheet, faint: between(numbers(own.edge), sheet, 0.45) };
}
const pencil = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function numbers(value) {
  pencil.clearRect(0, 0, 1, 1);
  pencil.fillStyle = value;
  pencil.fillRect(0, 0, 1, 1);
  return [...pencil.getImageData(0, 0, 1, 1).data].slice(0, 3);
}
const between = (one, other, share) => `rgb(${one.map((part, index) => Math.round(part * share + other[index] * (1 - share))).join(",")})`;
const mixed = new Map();
// A color that steps back behind the others, as of this theme.
function mix(value) {
  const key = `${value} ${theme.back}`;
  if (!mixed.has(key)) mixed.set(key, between(numbers(value), theme.back, 0.28));
  return mixed.get(key);
}

// The most important nodes first: large ones.
function rank() {
  order = graph.nodes().sort((a, b) => graph.getNodeAttribute(b, "size") - graph.getNodeAttribute(a, "size"));
}

// What is to be seen now, in pixels: {width, height, theme, nodes, edges, rings, labels}. For the overlay and for pictures.
export function scene({ isWhole = false } = {}) {
  const { width, height } = sigma.getDimensions();
  const view = (id) => {
    const data = sigma.getNodeDisplayData(id);
    return { id, ...sigma.framedGraphToViewport(data), radius: sigma.scaleSize(data.size), color: data.color, isHidden: data.hidden };
  };
  const isThere = ({ x, y, radius, isHidden }) => !isHidden && x > -radius && y > -radius && x < width + radius && y < height + radius;
  const important = [chosen, hovered, ...(found ?? []), ...(lit && lit.size < 40 ? lit : [])].filter((id) => id && graph.hasNode(id));
  const nodes = [];
  for (const id of new Set([...important, ...order])) {
    if (!isWhole && nodes.length >= TRIED) break;
    const node = view(id);
    if (isThere(node)) nodes.push(node);
  }
  const measure = (text, isStrong) => {
    pencil.font = `${isStrong ? "600 " : ""}${FONT}px ${theme.font}`;
    return pencil.measureText(text).width;
  };
  const strong = new Set(important);
  const isQuiet = hovered && isSmall();
  // Small nodes among many have a label when one comes nearer.
  const least = graph.order > 600 ? 5 : 0;
  const wanted = nodes.filter(({ id, radius }) => strong.has(id) || (radius >= least && !(isQuiet && isDim(id))))
    .sort((a, b) => strong.has(b.id) - strong.has(a.id) || isDim(a.id) - isDim(b.id))
    .map((node) => ({ ...node, radius: node.radius + (node.id === chosen || found?.has(node.id) ? 5 : 0), text: graph.getNodeAttribute(node.id, "label"), isStrong: node.id === chosen || node.id === hovered || Boolean(found?.has(node.id)), isDim: isDim(node.id) }));
  const rings = nodes.filter(({ id }) => id === chosen || id === hovered || found?.has(id)).map((node) => ({ ...node, isChosen: node.id === chosen }));
  const labels = arrange(wanted, nodes, { width, height, measure, most: graph.order > 600 ? 45 : 90 });
  const edges = [];
  if (isWhole || graph.size <= DIMMED) {
    graph.forEachEdge((edge, { label }, source, target) => {
      const [a, b] = [view(source), view(target)];
      if (a.isHidden || b.isHidden || (!isWhole && !label)) return;
      const data = sigma.getEdgeDisplayData(edge);
      edges.push({ a, b, color: data.color, size: sigma.scaleSize(data.size), zIndex: data.zIndex, label: label && (source === hovered || target === hovered || source === chosen || target === chosen) ? label : null });
    });
  }
  return { width, height, theme, nodes: isWhole ? nodes : [], edges: edges.sort((a, b) => a.zIndex - b.zIndex), rings, labels };
}

function paint() {
  const now = scene();
  const ratio = devicePixelRatio || 1;
  if (overlay.width !== Math.round(now.width * ratio) || overlay.height !== Math.round(now.height * ratio)) {
    [overlay.width, overlay.height] = [Math.round(now.width * ratio), Math.round(now.height * ratio)];
  }
  const context = overlay.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, now.width, now.height);
  sketch(context, { ...now, edges: now.edges.filter(({ label }) => label).map((edge) => ({ ...edge, color: null })) });
  // For tests, and for who looks at the page with tools: what is labelled, and where.
  box.labels = now.labels;
}

// Draws a scene upon a canvas.
export function sketch(context, { theme: own, nodes, edges, rings, labels }) {
  for (const { a, b, color: line, size } of edges.filter((edge) => edge.color)) {
    context.strokeStyle = line;
    context.lineWidth = size;
    context.beginPath();
    context.moveTo(a.x, a.y);
    context.lineTo(b.x, b.y);
    context.stroke();
  }
  for (const { x, y, radius, color: fill } of nodes.toReversed()) {
    context.fillStyle = fill;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  }
  for (const { x, y, radius, isChosen } of rings) {
    for (const [line, far, width] of isChosen ? [[own.sheet, 1.5, 3], [own.text, 4, 3]] : [[own.sheet, 1, 2], [own.accent, 3, 2]]) {
      context.strokeStyle = line;
      context.lineWidth = width;
      context.beginPath();
      context.arc(x, y, radius + far, 0, 2 * Math.PI);
      context.stroke();
    }
  }
  context.lineJoin = "round";
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const { a, b, label } of edges.filter((edge) => edge.label)) write(context, own, label, (a.x + b.x) / 2, (a.y + b.y) / 2, own.accent, true);
  context.textAlign = "left";
  for (const { text, left, top, width, height, isStrong, isDim: isFar } of labels) {
    // Lines do not go through words.
    context.globalAlpha = BEHIND;
    context.fillStyle = own.sheet;
    context.fillRect(left - 1, top, width + 2, height);
    context.globalAlpha = isFar ? 0.45 : 1;
    write(context, own, text, left + 1, top + height / 2, own.text, isStrong);
  }
  context.globalAlpha = 1;
}

function write(context, own, text, x, y, fill, isStrong) {
  context.font = `${isStrong ? "600 " : ""}${FONT}px ${own.font}`;
  context.strokeStyle = own.sheet;
  context.lineWidth = 3;
  context.strokeText(text, x, y);
  context.fillStyle = fill;
  context.fillText(text, x, y);
}

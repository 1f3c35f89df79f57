// Places of nodes, worked out in a thread of its own: the page draws meanwhile.
// Takes {number, layout, nodes: [{id, x, y, size, hop, group, isFixed}], edges: [[source, target, weight]], width, height},
// gives {number, positions: {id: {x, y}}}. Sizes, width and height are pixels; so are the places that come out.
/* global importScripts */

// Numbers of a node and of an edge in ForceAtlas2's matrices.
const NODE = 10;
const EDGE = 3;
const MASS = 6;
const SETTINGS = {
  linLogMode: true,
  outboundAttractionDistribution: false,
  adjustSizes: false,
  edgeWeightInfluence: 1,
  scalingRatio: 10,
  strongGravityMode: false,
  gravity: 1,
  slowDown: 2,
  barnesHutTheta: 0.7,
};
const GOLDEN = Math.PI * (3 - Math.sqrt(5));
// Of more, some lie upon each other anyway.
const PUSHED = 3000;
const GAP = 5;

const layouts = () => ({ force, circle, rings, groups, line });

onmessage = ({ data: { number, layout, nodes, edges, width, height } }) => {
  const isPinned = nodes.some((node) => node.isFixed);
  // What is new around a fixed node has its place already, and is only pushed off the others.
  let places = isPinned ? nodes.map(({ x, y }) => ({ x, y })) : (layouts()[layout] ?? force)(nodes, edges);
  if (!isPinned) {
    if (layout === "force") places = spread(places);
    places = fit(places, width, height, layout === "force" || layout === "groups");
  }
  if (nodes.length <= PUSHED) push(places, nodes);
  postMessage({ number, positions: Object.fromEntries(nodes.map(({ id }, index) => [id, places[index]])) });
};

// Who is connected comes near each other: ForceAtlas2.
function force(nodes, edges) {
  if (!self.module) {
    self.module = {};
    importScripts("vendor/forceatlas2.iterate.js");
  }
  const iterate = self.module.exports;
  const places = new Map(nodes.map(({ id }, index) => [id, index * NODE]));
  const matrix = new Float32Array(nodes.length * NODE);
  nodes.forEach(({ x, y }, index) => matrix.set([x, y, 0, 0, 0, 0, 1, 1, 1, 0], index * NODE));
  const links = new Float32Array(edges.length * EDGE);
  edges.forEach(([source, target, weight], index) => {
    const strength = Math.log2(1 + weight);
    matrix[places.get(source) + MASS] += strength;
    matrix[places.get(target) + MASS] += strength;
    links.set([places.get(source), places.get(target), strength], index * EDGE);
  });
  const settings = { ...SETTINGS, barnesHutOptimize: nodes.length > 500 };
  const steps = nodes.length > 1000 ? 150 : nodes.length > 200 ? 300 : 600;
  for (let step = 0; step < steps; step++) iterate(settings, matrix, links);
  return nodes.map((_, index) => ({ x: matrix[index * NODE], y: matrix[index * NODE + 1] }));
}

// All on one circle, groups beside each other.
function circle(nodes) {
  const order = nodes.map((node, index) => ({ ...node, index })).sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : b.size - a.size));
  const places = [];
  order.forEach(({ index }, at) => { places[index] = { x: Math.sin((2 * Math.PI * at) / nodes.length), y: Math.cos((2 * Math.PI * at) / nodes.length) }; });
  return places;
}

// Rings around the middle: by the distance from the entity that is in it, else by how connected they are.
function rings(nodes, edges) {
  const isNear = nodes.some(({ hop }) => hop);
  const order = nodes.map((node, index) => ({ ...node, index })).sort((a, b) => b.size - a.size);
  const levels = [];
  if (isNear) for (const node of order) (levels[node.hop ?? 1] ??= []).push(node);
  else for (let at = 0, ring = 0; at < order.length; at += Math.max(1, 8 * ring), ring++) levels[ring] = order.slice(at, at + Math.max(1, 8 * ring));
  const neighbours = new Map();
  for (const [source, target] of edges) for (const [one, other] of [[source, target], [target, source]]) neighbours.set(one, [...(neighbours.get(one) ?? []), other]);
  const angles = new Map();
  const places = [];
  // No ring is so full that its nodes touch.
  let radius = 0;
  levels.filter(Boolean).forEach((level, ring) => {
    radius = level.length === 1 && !ring ? 0 : Math.max(radius + 1, level.length / 7);
    // Near those of the ring within that they belong to.
    const wish = (node) => {
      const known = (neighbours.get(node.id) ?? []).map((id) => angles.get(id)).filter((angle) => angle !== undefined);
      return known.length && ring > 1 ? Math.min(...known) : Infinity;
    };
    const sorted = level.map((node) => ({ node, angle: wish(node) })).sort((a, b) => (a.angle === b.angle ? (a.node.group < b.node.group ? -1 : 1) : a.angle - b.angle));
    const first = Number.isFinite(sorted[0].angle) ? sorted[0].angle : 0;
    sorted.forEach(({ node }, at) => {
      const angle = first + (2 * Math.PI * at) / level.length;
      angles.set(node.id, angle);
      places[node.index] = { x: radius * Math.sin(angle), y: radius * Math.cos(angle) };
    });
  });
  return places;
}

// From left to right, as a path is read; up and down, so that names have a place.
const line = (nodes) => nodes.map(({ hop = 0 }) => ({ x: hop, y: (hop % 2) * 0.2 }));

// A heap for each group of the legend, the largest first.
function groups(nodes) {
  const members = new Map();
  nodes.forEach(({ group, size }, index) => members.set(group, [...(members.get(group) ?? []), { index, size }]));
  const heaps = [...members.values()].sort((a, b) => b.length - a.length);
  const places = [];
  const columns = Math.ceil(Math.sqrt(heaps.length * 1.5));
  let [x, y, row] = [0, 0, 0];
  heaps.forEach((heap, number) => {
    const radius = Math.sqrt(heap.length) + 1;
    if (number && number % columns === 0) [x, y, row] = [0, y - 2 * row - 1, 0];
    row = Math.max(row, radius);
    heap.sort((a, b) => b.size - a.size).forEach(({ index }, at) => {
      const far = Math.sqrt(at);
      places[index] = { x: x + radius + far * Math.cos(GOLDEN * at), y: y - radius + far * Math.sin(GOLDEN * at) };
    });
    x += 2 * radius + 1;
  });
  return places;
}

// A few nodes far outside would make the rest a point: distances from the middle grow less, the farther they are.
function spread(places) {
  const count = places.length;
  const [x, y] = ["x", "y"].map((axis) => places.reduce((sum, place) => sum + place[axis] / count, 0));
  const distances = places.map((place) => Math.hypot(place.x - x, place.y - y));
  const middle = distances.slice().sort((a, b) => a - b)[Math.floor(count / 2)] || 1;
  return places.map((place, index) => {
    const distance = distances[index];
    const factor = distance > middle ? (middle * (1 + Math.log(distance / middle))) / distance : 1;
    return { x: (place.x - x) * factor, y: (place.y - y) * factor };
  });
}

// As large as the canvas; where its shape may change, also as wide.
function fit(places, width, height, mayStretch) {
  const range = (axis) => {
    let [least, most] = [Infinity, -Infinity];
    for (const place of places) [least, most] = [Math.min(least, place[axis]), Math.max(most, place[axis])];
    return [least, most - least || 1];
  };
  const [[left, wide], [bottom, tall]] = [range("x"), range("y")];
  let [across, up] = [width / wide, height / tall];
  const most = mayStretch ? 1.7 : 1;
  [across, up] = [Math.min(across, up * most), Math.min(up, across * most)];
  return places.map(({ x, y }) => ({ x: (x - left) * across, y: (y - bottom) * up }));
}

// Pushes nodes apart that lie upon each other.
function push(places, nodes) {
  const cell = 2 * Math.max(...nodes.map(({ size }) => size), 1) + GAP;
  for (let round = 0; round < 40; round++) {
    const cells = new Map();
    places.forEach(({ x, y }, index) => {
      const key = `${Math.floor(x / cell)} ${Math.floor(y / cell)}`;
      if (cells.has(key)) cells.get(key).push(index);
      else cells.set(key, [index]);
    });
    let isMoved = false;
    for (const [key, inside] of cells) {
      const [column, row] = key.split(" ").map(Number);
      for (const [right, up] of [[0, 0], [1, 0], [0, 1], [1, 1], [-1, 1]]) {
        for (const other of cells.get(`${column + right} ${row + up}`) ?? []) {
          for (const one of inside) {
            if (one === other || (!right && !up && one > other)) continue;
            const [a, b] = [places[one], places[other]];
            const least = nodes[one].size + nodes[other].size + GAP;
            const [x, y] = [b.x - a.x || (one - other) * 0.01, b.y - a.y || 0.01];
            const distance = Math.hypot(x, y);
            if (distance >= least) continue;
            const share = nodes[one].isFixed ? 1 : nodes[other].isFixed ? 0 : 0.5;
            if (nodes[one].isFixed && nodes[other].isFixed) continue;
            const far = (least - distance) / distance;
            isMoved = true;
            b.x += x * far * share;
            b.y += y * far * share;
            a.x -= x * far * (1 - share);
            a.y -= y * far * (1 - share);
          }
        }
      }
    }
    if (!isMoved) return;
  }
}

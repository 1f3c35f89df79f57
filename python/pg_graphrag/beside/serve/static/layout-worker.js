// ForceAtlas2 in a thread of its own: the page draws meanwhile.
// Takes {number, nodes: [{id, x, y}], edges: [[source, target, weight]]}, gives {number, positions: {id: {x, y}}}.
/* global importScripts */

self.module = {};
importScripts("vendor/forceatlas2.iterate.js");
const iterate = self.module.exports;

// Numbers of a node and of an edge in iterate's matrices.
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

onmessage = ({ data: { number, nodes, edges } }) => {
  const places = new Map(nodes.map(({ id }, index) => [id, index * NODE]));
  const matrix = new Float32Array(nodes.length * NODE);
  nodes.forEach(({ x, y }, index) => matrix.set([x, y, 0, 0, 0, 0, 1, 1, 1, 0], index * NODE));
  const links = new Float32Array(edges.length * EDGE);
  edges.forEach(([source, target, weight], index) => {
    const force = Math.log2(1 + weight);
    matrix[places.get(source) + MASS] += force;
    matrix[places.get(target) + MASS] += force;
    links.set([places.get(source), places.get(target), force], index * EDGE);
  });
  const settings = { ...SETTINGS, barnesHutOptimize: nodes.length > 500 };
  const steps = nodes.length > 1000 ? 150 : nodes.length > 200 ? 300 : 600;
  for (let step = 0; step < steps; step++) iterate(settings, matrix, links);
  spread(matrix);
  const positions = Object.fromEntries(nodes.map(({ id }, index) => [id, { x: matrix[index * NODE], y: matrix[index * NODE + 1] }]));
  postMessage({ number, positions });
};

// A few nodes far outside would make the rest a point: distances from the middle grow less, the farther they are.
function spread(matrix) {
  const count = matrix.length / NODE;
  let [x, y] = [0, 0];
  for (let at = 0; at < matrix.length; at += NODE) [x, y] = [x + matrix[at] / count, y + matrix[at + 1] / count];
  const distances = [];
  for (let at = 0; at < matrix.length; at += NODE) distances.push(Math.hypot(matrix[at] - x, matrix[at + 1] - y));
  const middle = distances.slice().sort((a, b) => a - b)[Math.floor(count / 2)] || 1;
  distances.forEach((distance, index) => {
    const factor = distance > middle ? (middle * (1 + Math.log(distance / middle))) / distance : 1;
    matrix[index * NODE] = x + (matrix[index * NODE] - x) * factor;
    matrix[index * NODE + 1] = y + (matrix[index * NODE + 1] - y) * factor;
  });
}

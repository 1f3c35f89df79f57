// Where labels go: none upon another, none cut off at the edge, and upon a node only where there is no other place.

const LONGEST = 34;
const GAP = 4;
export const FONT = 13;

export const short = (text, longest = LONGEST) => ([...text].length > longest ? `${[...text].slice(0, longest - 1).join("").trimEnd()}…` : text);

// labels: [{text, x, y, radius, isStrong}], the most important first; nodes: [{x, y, radius}] that they should not cover.
// Gives [{...label, text, left, top, width, height}] of those that have a place.
export function arrange(labels, nodes, { width, height, measure, most = 70 }) {
  const taken = [];
  const grid = discs(nodes);
  for (const label of labels) {
    if (taken.length >= most) break;
    const text = short(label.text);
    const size = { width: measure(text, label.isStrong) + 2, height: FONT + 4 };
    const place = spots(label, size).find((spot) => isWithin(spot, size, width, height) && !taken.some((other) => overlap(spot, size, other)) && !covers(grid, spot, size, label))
      ?? (label.isStrong ? spots(label, size).map((spot) => inside(spot, size, width, height)).find((spot) => !taken.some((other) => overlap(spot, size, other))) : null);
    if (place) taken.push({ ...label, ...place, ...size, text });
  }
  return taken;
}

// Right of the node, left, below, above, and between these.
const spots = ({ x, y, radius }, { width, height }) => [
  { left: x + radius + GAP, top: y - height / 2 },
  { left: x - radius - GAP - width, top: y - height / 2 },
  { left: x - width / 2, top: y + radius + GAP / 2 },
  { left: x - width / 2, top: y - radius - GAP / 2 - height },
  ...[[1, 1], [1, -1], [-1, 1], [-1, -1]].map(([right, down]) => ({ left: x + right * (0.7 * radius + GAP) - (right < 0 ? width : 0), top: y + down * (0.7 * radius + GAP) - (down < 0 ? height : 0) })),
];
const isWithin = ({ left, top }, size, width, height) => left >= 2 && top >= 2 && left + size.width <= width - 2 && top + size.height <= height - 2;
const inside = ({ left, top }, size, width, height) => ({ left: Math.max(2, Math.min(left, width - 2 - size.width)), top: Math.max(2, Math.min(top, height - 2 - size.height)) });
const overlap = (spot, size, other) => spot.left < other.left + other.width + GAP && other.left < spot.left + size.width + GAP && spot.top < other.top + other.height && other.top < spot.top + size.height;

const CELL = 48;
function discs(nodes) {
  const grid = new Map();
  for (const node of nodes) {
    for (let column = Math.floor((node.x - node.radius) / CELL); column <= (node.x + node.radius) / CELL; column++) {
      for (let row = Math.floor((node.y - node.radius) / CELL); row <= (node.y + node.radius) / CELL; row++) {
        const key = `${column} ${row}`;
        if (grid.has(key)) grid.get(key).push(node);
        else grid.set(key, [node]);
      }
    }
  }
  return grid;
}

function covers(grid, { left, top }, { width, height }, own) {
  for (let column = Math.floor(left / CELL); column <= (left + width) / CELL; column++) {
    for (let row = Math.floor(top / CELL); row <= (top + height) / CELL; row++) {
      for (const { x, y, radius } of grid.get(`${column} ${row}`) ?? []) {
        if (x === own.x && y === own.y) continue;
        const [near, level] = [Math.max(left, Math.min(x, left + width)), Math.max(top, Math.min(y, top + height))];
        if (Math.hypot(x - near, y - level) < radius) return true;
      }
    }
  }
  return false;
}

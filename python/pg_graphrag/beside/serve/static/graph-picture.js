// The drawing as a file: PNG, or SVG, whose texts stay texts.

import { h } from "./dom.js";
import { BEHIND, scene, sketch } from "./graph-canvas.js";
import { FONT } from "./graph-labels.js";

const SCALE = 2;

export async function png(name) {
  const now = scene({ isWhole: true });
  const canvas = h("canvas", { width: now.width * SCALE, height: now.height * SCALE });
  const context = canvas.getContext("2d");
  context.scale(SCALE, SCALE);
  context.fillStyle = now.theme.sheet;
  context.fillRect(0, 0, now.width, now.height);
  sketch(context, now);
  save(await new Promise((done) => canvas.toBlob(done, "image/png")), `${name}.png`);
}

export function svg(name) {
  const { width, height, theme, nodes, edges, rings, labels } = scene({ isWhole: true });
  const text = (value, x, y, more) => element("text", { x, y, "dominant-baseline": "central", "font-family": theme.font, "font-size": FONT, fill: theme.text, stroke: theme.sheet, "stroke-width": 3, "stroke-linejoin": "round", "paint-order": "stroke", ...more }, value);
  const root = element("svg", { width, height, viewBox: `0 0 ${width} ${height}` },
    element("rect", { width, height, fill: theme.sheet }),
    ...edges.map(({ a, b, color, size }) => element("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, stroke: color, "stroke-width": size })),
    ...nodes.toReversed().map(({ x, y, radius, color }) => element("circle", { cx: x, cy: y, r: radius, fill: color })),
    ...rings.map(({ x, y, radius, isChosen }) => element("circle", { cx: x, cy: y, r: radius + 3, fill: "none", stroke: isChosen ? theme.text : theme.accent, "stroke-width": isChosen ? 3 : 2 })),
    ...edges.filter(({ label }) => label).map(({ a, b, label }) => text(label, (a.x + b.x) / 2, (a.y + b.y) / 2, { "text-anchor": "middle", fill: theme.accent, "font-weight": 600 })),
    ...labels.map(({ left, top, width: wide, height: tall }) => element("rect", { x: left - 1, y: top, width: wide + 2, height: tall, fill: theme.sheet, opacity: BEHIND })),
    ...labels.map(({ text: value, left, top, height: tall, isStrong, isDim }) => text(value, left + 1, top + tall / 2, { "font-weight": isStrong ? 600 : 400, opacity: isDim ? 0.45 : 1 })));
  save(new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" }), `${name}.svg`);
}

function element(tag, values, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(values)) made.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  made.append(...children);
  return made;
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name.replace(/[\\/:*?"<>|]+/g, "_"), hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Which color a node has, and the legend that says so: by type, or by community. A group can be hidden.

import { h } from "./dom.js";
import { language, t } from "./i18n.js";

// Okabe and Ito's colors, told apart by most eyes, in both themes.
export const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a5cc4", "#8c6d46", "#e34a6f", "#4f9d2f"];
export const GREY = "#8b93a0";
const OTHER = "other";

// {of: node -> group, groups: [{id, label, color, count}]}, the largest groups first, the rest as one.
export function groupBy(nodes, kind, communityName) {
  const own = (node) => (kind === "community" ? node.community ?? OTHER : node.type || OTHER);
  const counts = new Map();
  for (const node of nodes) counts.set(own(node), (counts.get(own(node)) ?? 0) + 1);
  // In the order of size; what is equal by name, so that the same graph has the same colors.
  const largest = [...counts].filter(([group]) => group !== OTHER).sort((a, b) => b[1] - a[1] || (String(a[0]) < String(b[0]) ? -1 : 1)).slice(0, COLORS.length);
  const groups = largest.map(([id, count], index) => ({ id: String(id), label: kind === "community" ? communityName(id) : String(id), color: COLORS[index], count }));
  const rest = nodes.length - groups.reduce((sum, { count }) => sum + count, 0);
  if (rest) groups.push({ id: OTHER, label: t("Others"), color: GREY, count: rest });
  const known = new Map(groups.map((group) => [group.id, group]));
  const other = known.get(OTHER) ?? { id: OTHER, color: GREY };
  return { groups, of: (node) => known.get(String(own(node))) ?? other };
}

// Buttons that hide a group and show it; `hidden` is a set of groups' ids, changed by them.
export function legend(groups, hidden, changed) {
  const chips = groups.map((group) => {
    const chip = h("button", { class: "chip", type: "button", "aria-pressed": String(!hidden.has(group.id)), title: t("Hide or show"), onclick: () => {
      if (!hidden.delete(group.id)) hidden.add(group.id);
      chip.setAttribute("aria-pressed", String(!hidden.has(group.id)));
      changed();
    } }, swatch(group.color), h("span", { class: "name" }, group.label), h("span", { class: "soft" }, group.count.toLocaleString(language)));
    return chip;
  });
  return h("div", { class: "chips", role: "group", "aria-label": t("Legend: each button hides or shows its entities") }, chips);
}

export function swatch(color) {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.background = color;
  return element;
}

// Why an answer holds, as a graph: its entities, relationships and passages; what it cites is lit. The answers are kept in the
// tab's storage, so that a reload and a step back show them again.

import { t } from "./i18n.js";
import { address, go } from "./router.js";

const KEPT = 12;
const FRESH = 20;
const fresh = new Map();

export function why(answer, question) {
  const key = Date.now().toString(36);
  // The conversation that one came from, with its own address.
  fresh.set(key, { answer, question, back: location.hash });
  for (const old of [...fresh.keys()].slice(0, -FRESH)) fresh.delete(old);
  try {
    const old = Object.keys(sessionStorage).filter((name) => name.startsWith("why ")).sort();
    for (const name of old.slice(0, Math.max(0, old.length - KEPT + 1))) sessionStorage.removeItem(name);
    sessionStorage.setItem(`why ${key}`, JSON.stringify(fresh.get(key)));
  } catch {
    // The storage is full or closed: until the next reload it is there.
  }
  go("graph", ["why", key]);
}

export function kept(key) {
  const found = fresh.get(key) ?? JSON.parse(sessionStorage.getItem(`why ${key}`) ?? "null");
  if (!found) throw Object.assign(new Error(t("This browser tab no longer has the answer. Ask again to see why it holds.")), { hint: null });
  return { ...found, back: found.back || address("search") };
}

// {nodes, edges, lit}
export function graphOf({ context, citations }) {
  const cited = new Set(citations.map((citation) => citation.chunk_id));
  const ids = new Map(context.entities.map((one) => [one.name, one.entity_id]));
  const nodes = context.entities.map((one) => ({ id: one.entity_id, name: one.name, type: one.type, degree: one.degree, description: one.description }));
  const titles = new Map(context.references.map((one) => [one.number, one.title || one.source_key]));
  const lit = new Set();
  const edges = [];
  for (const edge of context.relationships) {
    for (const end of [edge.source, edge.target]) {
      if (ids.has(end)) continue;
      ids.set(end, `name ${end}`);
      nodes.push({ id: `name ${end}`, name: end, type: "", degree: 1, description: "" });
    }
    edges.push({ id: edge.relationship_id, source: ids.get(edge.source), target: ids.get(edge.target), weight: Number(edge.weight), description: edge.description });
  }
  for (const chunk of context.chunks) {
    const id = `chunk ${chunk.chunk_id}`;
    nodes.push({ id, name: `[${chunk.reference}] ${titles.get(chunk.reference) ?? ""}`, type: t("Passages"), degree: 8, description: chunk.content, chunk, isCited: cited.has(chunk.chunk_id) });
    const lower = chunk.content.toLowerCase();
    for (const [name, entity] of ids) {
      if (!lower.includes(name.toLowerCase())) continue;
      edges.push({ id: `${id} ${entity}`, source: id, target: entity, weight: 1, description: "" });
      if (cited.has(chunk.chunk_id)) lit.add(String(entity));
    }
    if (cited.has(chunk.chunk_id)) lit.add(id);
  }
  return { nodes, edges, lit };
}

// What people changed of the graph, with undo, and what could be merged.

import { get, post, remove, session } from "./api.js";
import { $, complain, fill, h, refill, toast } from "./dom.js";

export async function view(main) {
  main.replaceChildren(h("div", { class: "column" }, h("h1", {}, "Curation"),
    h("p", { class: "soft" }, "What people know better than the documents. Each change can be undone, in any order, and leaves no trace. Entities are changed where they are shown: in the graph."),
    h("section", {}, h("div", { class: "row" }, h("h2", { class: "grow" }, "Could be one"), h("button", { class: "second", type: "button", id: "suggest", onclick: () => fill($("#suggestions"), suggestions) }, "Look for them")), h("div", { id: "suggestions" })),
    h("section", {}, h("h2", {}, "Changes"), h("div", { id: "changes" }))));
  await fill($("#changes"), changes);
}

async function changes() {
  const made = await get("/api/curations");
  const may = session.may.includes("curate");
  return made.length ? h("table", {}, h("tbody", {}, made.map((one) => h("tr", { class: one.undone_at ? "undone" : null },
    h("td", {}, String(one.id)),
    h("td", {}, h("strong", {}, one.kind.replaceAll("_", " ")), h("div", { class: "small soft" }, describe(one.arguments))),
    h("td", { class: "small soft" }, `${one.made_by}, ${new Date(one.made_at).toLocaleString()}`),
    h("td", {}, one.undone_at ? h("span", { class: "badge" }, "undone") : may ? h("button", { class: "second small", type: "button", "aria-label": `Undo change ${one.id}`, onclick: () => undo(one.id) }, "Undo") : null)))))
    : h("p", { class: "soft" }, "Nobody has changed anything.");
}

const describe = (values) => Object.entries(values).filter(([, value]) => value !== null && value !== "").map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join("; ");

async function undo(id) {
  try {
    await remove(`/api/curations/${id}`);
    toast("Undone");
    await refill($("#changes"), changes);
  } catch (error) {
    complain(error);
  }
}

async function suggestions() {
  const pairs = await get("/api/curations/suggestions");
  return pairs.length ? h("ul", { class: "list items" }, pairs.map((one) => h("li", { class: "row" },
    h("span", { class: "grow" }, h("strong", {}, one.entity), " → ", h("strong", {}, one.target), h("span", { class: "small soft" }, ` ${one.reason}`)),
    h("button", { class: "second small", type: "button", onclick: (event) => merge(one, event.target.closest("li")) }, "Merge")))) : h("p", { class: "soft" }, "None.");
}

async function merge(one, item) {
  try {
    const { id } = await post("/api/curations", { kind: "merge_entities", arguments: { entities: [one.entity], target: one.target } });
    item.remove();
    toast("Merged", { label: "Undo", run: () => undo(id) });
    await refill($("#changes"), changes);
  } catch (error) {
    complain(error);
  }
}

// What people changed of the graph, with undo, and what could be merged.

import { get, post, remove, session } from "./api.js";
import { $, complain, h, toast } from "./dom.js";

export async function view(main) {
  main.replaceChildren(h("div", { class: "column" }, h("h1", {}, "Curation"),
    h("p", { class: "soft" }, "What people know better than the documents. Each change can be undone, in any order, and leaves no trace. Entities are changed where they are shown: in the graph."),
    h("section", {}, h("div", { class: "row" }, h("h2", { class: "grow" }, "Could be one"), h("button", { class: "second", type: "button", id: "suggest", onclick: suggest }, "Look for them")), h("div", { id: "suggestions" })),
    h("section", {}, h("h2", {}, "Changes"), h("div", { id: "changes" }))));
  await fill();
}

async function fill() {
  try {
    const changes = await get("/api/curations");
    const may = session.may.includes("curate");
    $("#changes").replaceChildren(changes.length ? h("table", {}, h("tbody", {}, changes.map((one) => h("tr", { class: one.undone_at ? "undone" : null },
      h("td", {}, String(one.id)),
      h("td", {}, h("strong", {}, one.kind.replaceAll("_", " ")), h("div", { class: "small soft" }, describe(one.arguments))),
      h("td", { class: "small soft" }, `${one.made_by}, ${new Date(one.made_at).toLocaleString()}`),
      h("td", {}, one.undone_at ? h("span", { class: "badge" }, "undone") : may ? h("button", { class: "second small", type: "button", "aria-label": `Undo change ${one.id}`, onclick: () => undo(one.id) }, "Undo") : null)))))
      : h("p", { class: "soft" }, "Nobody has changed anything."));
  } catch (error) {
    $("#changes").replaceChildren(h("p", { class: "soft" }, error.message));
  }
}

const describe = (values) => Object.entries(values).filter(([, value]) => value !== null && value !== "").map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join("; ");

async function undo(id) {
  try {
    await remove(`/api/curations/${id}`);
    toast("Undone");
    await fill();
  } catch (error) {
    complain(error);
  }
}

async function suggest() {
  const box = $("#suggestions");
  box.replaceChildren(h("p", { class: "soft", role: "status" }, "Looking …"));
  try {
    const suggestions = await get("/api/curations/suggestions");
    box.replaceChildren(suggestions.length ? h("ul", { class: "list items" }, suggestions.map((one) => h("li", { class: "row" },
      h("span", { class: "grow" }, h("strong", {}, one.entity), " → ", h("strong", {}, one.target), h("span", { class: "small soft" }, ` ${one.reason}`)),
      h("button", { class: "second small", type: "button", onclick: (event) => merge(one, event.target.closest("li")) }, "Merge")))) : h("p", { class: "soft" }, "None."));
  } catch (error) {
    box.replaceChildren(h("p", { class: "error" }, error.message));
  }
}

async function merge(one, item) {
  try {
    const { id } = await post("/api/curations", { kind: "merge_entities", arguments: { entities: [one.entity], target: one.target } });
    item.remove();
    toast("Merged", { label: "Undo", run: () => undo(id) });
    await fill();
  } catch (error) {
    complain(error);
  }
}

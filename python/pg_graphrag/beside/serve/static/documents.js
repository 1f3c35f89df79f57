// Documents: what there is, upload with progress, delete.

import { get, progress, remove, session, upload } from "./api.js";
import { $, complain, fill, h, refill, refusal, toast } from "./dom.js";
import { open } from "./document.js";

// Bytes of one request: files go in several, so that the bar moves.
const BATCH = 8 << 20;
let watching = null;

export async function view(main) {
  const may = session.may.includes("insert");
  const file = h("input", { type: "file", multiple: true, class: "visually-hidden", id: "files", "aria-label": "Files to upload", tabindex: "-1", onchange: (event) => send([...event.target.files]) });
  const drop = h("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); drop.classList.remove("over"); send([...event.dataTransfer.files]); },
  }, file, h("button", { type: "button", onclick: () => file.click() }, "Choose files"), h("p", { class: "soft small" }, "or drop them here: text, Markdown, HTML, PDF, Word, PowerPoint, Excel, CSV, EPUB, e-mail, notebooks"));
  const filter = h("input", { type: "search", placeholder: "Key or title", "aria-label": "Key or title", oninput: () => { clearTimeout(filter.timer); filter.timer = setTimeout(() => refill($("#documents"), list), 250); } });
  main.replaceChildren(h("div", { class: "column" },
    may ? h("section", { "aria-label": "Upload" }, drop, h("div", { id: "sent" })) : "",
    h("div", { id: "progress", class: "card", role: "status" }),
    h("div", { class: "row" }, h("h1", { class: "grow" }, "Documents"), filter),
    h("div", { id: "documents" })));
  watch();
  await fill($("#documents"), list);

  async function send(files) {
    const sent = $("#sent");
    const bar = h("progress", { max: files.length, value: 0, "aria-label": "Upload" });
    const notes = h("ul", { class: "list small" });
    sent.replaceChildren(h("div", { class: "card" }, bar, notes));
    let done = 0;
    for (const batch of batches(files)) {
      try {
        const form = new FormData();
        for (const one of batch) form.append("files", one, one.webkitRelativePath || one.name);
        for (const { name, inserted, updated, unchanged, errors } of await upload(form)) {
          const counts = [[inserted, "new"], [updated, "changed"], [unchanged, "unchanged"]].filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(", ");
          notes.append(h("li", {}, `${name}: ${counts || "nothing"}`, errors.map((error) => h("div", { class: "error" }, error))));
        }
      } catch (error) {
        notes.append(h("li", { class: "error" }, `${batch.map((one) => one.name).join(", ")}: ${error.message}`));
      }
      done += batch.length;
      bar.value = done;
    }
    watch();
    await refill($("#documents"), list);
  }

  async function list() {
    const page = await get("/api/documents", { text: filter.value || null });
    if (!page.documents.length) return h("p", { class: "soft" }, filter.value ? "None has this in key or title." : "There are no documents yet.");
    const body = h("tbody");
    const more = h("div");
    more.append(...append(page, body, more));
    return [h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Document"), h("th", {}, "Status"), h("th", {}, "Characters"), h("th", {}, h("span", { class: "visually-hidden" }, "Delete")))), body), more];
  }

  // Appends a page of documents; returns the button for the next, which takes its place in `more`.
  function append({ documents, next }, body, more) {
    body.append(...documents.map((one) => h("tr", {},
      h("td", {}, h("button", { class: "link", type: "button", onclick: () => open(one.document_id) }, one.title || one.source_key), h("div", { class: "soft small" }, one.source_key), one.error ? h("div", { class: "error small" }, one.error) : null),
      h("td", {}, h("span", { class: `badge ${one.status}` }, one.status)),
      h("td", { class: "soft small" }, one.characters.toLocaleString()),
      h("td", {}, may ? h("button", { class: "danger small", type: "button", "aria-label": `Delete ${one.title || one.source_key}`, onclick: () => take(one) }, "✕") : null))));
    const rest = async () => append(await get("/api/documents", { text: filter.value || null, after: next }), body, more);
    return next === null ? [] : [h("p", {}, h("button", { class: "second", type: "button", onclick: () => fill(more, rest) }, "More"))];
  }

  async function take(one) {
    if (!confirm(`Delete ${one.title || one.source_key}, and what it says?`)) return;
    try {
      await remove(`/api/documents/${one.document_id}`);
      toast("Deleted");
      watch();
      await refill($("#documents"), list);
    } catch (error) {
      complain(error);
    }
  }
}

export function stop() {
  watching?.abort();
  watching = null;
}

// Shows how far the indexing is until nothing is pending.
async function watch() {
  stop();
  const own = (watching = new AbortController());
  try {
    for await (const { event, data } of progress(own.signal)) {
      const box = $("#progress");
      if (!box || own.signal.aborted) return;
      if (event === "error") throw Object.assign(new Error(data.message), data);
      const parts = ["documents", "indexed", "pending", "failed", "entities", "relationships"].filter((name) => data[name] || name === "documents" || name === "indexed").map((name) => `${data[name].toLocaleString()} ${name}`);
      const bar = h("progress", { max: data.documents || 1, "aria-label": "Indexed" });
      bar.value = data.documents ? data.documents - data.pending : 1;
      const idle = data.pending && data.leased === 0 ? h("div", { class: "soft small" }, "Waiting for a worker: pg-graphrag worker, or pg-graphrag serve --worker") : null;
      box.replaceChildren(...[bar, h("div", { class: "small" }, parts.join(" · ")), idle].filter(Boolean));
    }
  } catch (error) {
    if (error.name !== "AbortError") $("#progress")?.replaceChildren(refusal(error, watch));
  }
}

function* batches(files) {
  let batch = [];
  let size = 0;
  for (const file of files) {
    if (batch.length && (size + file.size > Math.min(BATCH, session.max_upload) || batch.length >= 20)) {
      yield batch;
      batch = [];
      size = 0;
    }
    batch.push(file);
    size += file.size;
  }
  if (batch.length) yield batch;
}

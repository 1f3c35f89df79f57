// Documents: what there is, by state and order; upload with progress; delete, retry, index again.

import { get, post, progress, session, upload } from "./api.js";
import { $, complain, fill, h, refill, refusal, toast } from "./dom.js";
import { open } from "./document.js";
import { language, t, tn } from "./i18n.js";
import { remember } from "./router.js";

// Bytes of one request: files go in several, so that the bar moves.
const BATCH = 8 << 20;
const PAGE = 50;
// As they are listed at first: the newest on top.
const USUAL = { sort: "number", descending: true };
const STATES = ["indexed", "pending", "failed", "retracted"];
// Milliseconds until a stream that ended while documents are pending is asked for again.
const PAUSE = 1000;
let watching = null;
let typing = null;

const stateWord = (state) => ({ indexed: t("indexed"), pending: t("pending"), failed: t("failed"), retracted: t("retracted") })[state] ?? state;

export async function view(main, { values }) {
  const may = session.may.includes("insert");
  const shown = { find: values.get("find") ?? "", status: values.get("status") ?? "", sort: values.get("sort") || USUAL.sort, descending: (values.get("descending") ?? String(!values.has("sort"))) === "true", page: Number(values.get("page")) || 1 };
  const chosen = new Set();
  const filter = h("input", { type: "search", placeholder: t("Key or title"), "aria-label": t("Key or title"), value: shown.find, oninput: () => { clearTimeout(typing); typing = setTimeout(() => show({ find: filter.value, page: 1 }), 250); } });
  const status = h("select", { "aria-label": t("Status"), onchange: () => show({ status: status.value, page: 1 }) }, h("option", { value: "" }, t("All states")), STATES.map((state) => h("option", { value: state }, stateWord(state))));
  status.value = shown.status;
  // Where there is no room for the columns. An order of theirs that is none of these has an empty line.
  const order = h("select", { class: "narrow", "aria-label": t("Order"), onchange: () => { const [sort, way] = order.value.split(" "); show({ sort, descending: way === "down", page: 1 }); } },
    [["number down", t("Newest first")], ["title up", t("By title")], ["size down", t("Largest first")], ["changed down", t("Changed last")]].map(([value, text]) => h("option", { value }, text)));
  const actions = h("div", { class: "row", id: "actions", hidden: true });
  main.replaceChildren(h("div", { class: "column" },
    may ? h("section", { "aria-label": t("Upload") }, dropZone(), h("div", { id: "sent" })) : "",
    h("div", { id: "progress", class: "card" }),
    h("div", { class: "row head" }, h("h1", { class: "grow" }, t("Documents")), order, status, filter),
    actions,
    h("div", { id: "documents" })));
  const refresh = () => refill($("#documents"), list);
  watch(refresh);
  await fill($("#documents"), list);

  async function show(change, isNew = !("find" in change)) {
    Object.assign(shown, change);
    const isUsual = shown.sort === USUAL.sort && shown.descending === USUAL.descending;
    remember("documents", [], { ...shown, sort: isUsual ? null : shown.sort, descending: isUsual ? null : shown.descending, page: shown.page > 1 ? shown.page : null }, { isNew });
    chosen.clear();
    await refresh();
  }

  async function list() {
    const { documents, total } = await get("/api/documents", { ...shown, page: null, find: null, status: shown.status || null, text: shown.find || null, limit: PAGE, offset: (shown.page - 1) * PAGE });
    if (!documents.length && shown.page > 1) return show({ page: 1 }, false);
    chooseActions();
    order.value = `${shown.sort} ${shown.descending ? "down" : "up"}`;
    if (!documents.length) return h("p", { class: "soft" }, shown.find || shown.status ? t("No document fits.") : t("There are no documents yet."));
    const all = h("input", { type: "checkbox", "aria-label": t("Choose all on this page"), onchange: () => choose(documents, all.checked) });
    all.checked = documents.every(({ document_id: id }) => chosen.has(id));
    return [
      h("table", { class: "documents" },
        h("thead", {}, h("tr", {}, may ? h("th", {}, all) : null, heading(t("Document"), "title"), heading(t("Status"), "status"), heading(t("Characters"), "size", "number"), heading(t("Changed"), "changed", "number"))),
        h("tbody", {}, documents.map(row))),
      pages(total)];
  }

  function heading(text, sort, kind) {
    const isSorted = shown.sort === sort;
    return h("th", { class: kind, "aria-sort": isSorted ? (shown.descending ? "descending" : "ascending") : null },
      h("button", { class: "link", type: "button", onclick: () => show({ sort, descending: isSorted && !shown.descending, page: 1 }) }, text, isSorted ? (shown.descending ? " ▾" : " ▴") : ""));
  }

  function row(one) {
    const title = one.title || one.source_key;
    const box = h("input", { type: "checkbox", "aria-label": t("Choose {title}", { title }), onchange: () => { chosen[box.checked ? "add" : "delete"](one.document_id); chooseActions(); } });
    box.checked = chosen.has(one.document_id);
    return h("tr", {},
      may ? h("td", {}, box) : null,
      h("td", {}, h("button", { class: "link", type: "button", onclick: () => open(one.document_id) }, title), title === one.source_key ? null : h("div", { class: "soft small" }, one.source_key), one.error ? h("div", { class: "error small" }, one.error) : null),
      h("td", {}, h("span", { class: `badge ${one.status}` }, stateWord(one.status))),
      h("td", { class: "number soft small" }, one.characters.toLocaleString(language)),
      h("td", { class: "number soft small" }, h("time", { datetime: one.updated_at, title: new Date(one.updated_at).toLocaleString(language) }, new Date(one.updated_at).toLocaleDateString(language))));
  }

  function pages(total) {
    const count = Math.ceil(total / PAGE);
    const step = (label, page) => h("button", { class: "second small", type: "button", disabled: page < 1 || page > count, onclick: () => show({ page }) }, label);
    return h("nav", { class: "row pages", "aria-label": t("Pages") }, h("span", { class: "soft small grow" }, tn(total, "{count} document", "{count} documents")),
      count > 1 ? [step(t("Previous"), shown.page - 1), h("span", { class: "small" }, t("{page} of {pages}", { page: shown.page, pages: count })), step(t("Next"), shown.page + 1)] : null);
  }

  function choose(documents, isChosen) {
    for (const { document_id: id } of documents) chosen[isChosen ? "add" : "delete"](id);
    for (const box of document.querySelectorAll("#documents tbody input")) box.checked = isChosen;
    chooseActions();
  }

  function chooseActions() {
    actions.hidden = !chosen.size;
    actions.replaceChildren(h("span", { class: "small" }, tn(chosen.size, "{count} chosen", "{count} chosen")), h("button", { class: "danger small", type: "button", id: "delete", onclick: take }, t("Delete")));
  }

  async function take() {
    if (!confirm(tn(chosen.size, "Delete {count} document, and what it says?", "Delete {count} documents, and what they say?"))) return;
    try {
      const { deleted } = await post("/api/documents/delete", { documents: [...chosen] });
      toast(tn(deleted, "{count} document deleted", "{count} documents deleted"));
      chosen.clear();
    } catch (error) {
      complain(error);
    }
    watch(refresh);
    await refresh();
  }

  function dropZone() {
    const file = h("input", { type: "file", multiple: true, hidden: true, id: "files", onchange: () => { send([...file.files]); file.value = ""; } });
    const drop = h("div", {
      class: "drop",
      ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
      ondragleave: () => drop.classList.remove("over"),
      ondrop: (event) => { event.preventDefault(); drop.classList.remove("over"); send([...event.dataTransfer.files]); },
    }, file, h("button", { type: "button", onclick: () => file.click() }, t("Choose files")), h("p", { class: "soft small" }, t("or drop them here: text, Markdown, HTML, PDF, Word, PowerPoint, Excel, CSV, EPUB, e-mail, notebooks")));
    return drop;
  }

  async function send(files) {
    const { corpus } = session;
    const bar = h("progress", { max: files.length, value: 0, "aria-label": t("Upload") });
    const summary = h("span", { class: "small grow", role: "status" });
    const notes = h("ul", { class: "list small" });
    const each = h("details", { class: "small", hidden: true }, h("summary", {}, t("Each file")), notes);
    const problems = h("div", { class: "small error", role: "alert" });
    const counts = { inserted: 0, updated: 0, unchanged: 0 };
    const leaving = new AbortController();
    const cancel = h("button", { class: "second small", type: "button", onclick: () => leaving.abort() }, t("Cancel"));
    $("#sent").replaceChildren(h("div", { class: "card" }, bar, h("div", { class: "row" }, summary, cancel), problems, each));
    let done = 0;
    for (const batch of batches(files)) {
      try {
        const form = new FormData();
        for (const one of batch) form.append("files", one, one.webkitRelativePath || one.name);
        for (const result of await upload(form, leaving.signal, corpus)) {
          for (const name of Object.keys(counts)) counts[name] += result[name];
          notes.append(h("li", {}, `${result.name}: ${outcome(result)}`));
          problems.append(...result.errors.map((error) => h("div", {}, `${result.name}: ${error}`)));
        }
      } catch (error) {
        if (error.name === "AbortError") {
          problems.append(h("div", {}, tn(files.length - done, "Cancelled: {count} file may not be in.", "Cancelled: {count} files may not be in.")));
          break;
        }
        problems.append(h("div", {}, `${batch.map((one) => one.name).join(", ")}: ${error.message}`));
      }
      done += batch.length;
      bar.value = done;
      summary.textContent = `${tn(files.length, "{done} of {count} file", "{done} of {count} files", { done })}: ${outcome(counts)}`;
      each.hidden = notes.childElementCount < 2;
    }
    cancel.remove();
    if (session.corpus !== corpus) return;
    watch(refresh);
    await refresh();
  }
}

function outcome({ inserted, updated, unchanged }) {
  const parts = [inserted && t("{count} new", { count: inserted }), updated && t("{count} changed", { count: updated }), unchanged && t("{count} unchanged", { count: unchanged })].filter(Boolean);
  return parts.join(", ") || t("nothing");
}

export function stop() {
  clearTimeout(typing);
  watching?.abort();
  watching = null;
}

// Shows how far the indexing is until nothing is pending; the list follows.
async function watch(refresh) {
  watching?.abort();
  const own = (watching = new AbortController());
  let before = null;
  try {
    do {
      // The server ends the stream after some minutes, whatever is pending.
      if (before) await new Promise((done) => setTimeout(done, PAUSE));
      for await (const { event, data } of progress(own.signal)) {
        const box = $("#progress");
        if (!box || own.signal.aborted) return;
        if (event === "error") throw Object.assign(new Error(data.message), data);
        tell(box, data, refresh);
        if (before && (before.pending !== data.pending || before.failed !== data.failed)) refresh();
        before = data;
      }
    } while (before?.pending && !own.signal.aborted);
  } catch (error) {
    if (error.name !== "AbortError") $("#progress")?.replaceChildren(refusal(error, () => watch(refresh)));
  }
}

function tell(box, data, refresh) {
  const words = { documents: tn(data.documents, "{count} document", "{count} documents"), indexed: t("{count} indexed", { count: data.indexed }), pending: t("{count} pending", { count: data.pending }), failed: t("{count} failed", { count: data.failed }), entities: tn(data.entities ?? 0, "{count} entity", "{count} entities"), relationships: tn(data.relationships ?? 0, "{count} relationship", "{count} relationships") };
  const parts = Object.keys(words).filter((name) => data[name] || name === "documents" || name === "indexed").map((name) => words[name]);
  // What is read out is changed and not made anew.
  if (!$("#counts", box)) box.replaceChildren(h("progress", { "aria-label": t("Indexed") }), h("div", { class: "row" }, h("div", { class: "small grow", id: "counts", role: "status" }), h("div", { class: "row", id: "again" })), h("div", { class: "soft small", id: "idle" }));
  Object.assign($("progress", box), { max: data.documents || 1, value: data.documents ? data.documents - data.pending : 1 });
  $("#counts", box).textContent = parts.join(" · ");
  const act = async (path, sentence) => {
    try {
      const { queued } = await post(path, {});
      toast(sentence(queued));
    } catch (error) {
      complain(error);
    }
    watch(refresh);
    await refresh();
  };
  const may = session.may.includes("insert");
  const retry = may && data.may_retry && data.failed ? h("button", { class: "second small", type: "button", id: "retry", onclick: () => act("/api/documents/retry", (count) => t("{count} tried again", { count })) }, t("Try the failed ones again")) : null;
  const reindex = may && data.may_reindex && data.documents ? h("button", { class: "second small", type: "button", id: "reindex", onclick: () => confirm(t("Index all documents again? The graph is empty at first and grows back.")) && act("/api/documents/reindex", (count) => t("{count} queued", { count })) }, t("Index all again")) : null;
  $("#again", box).replaceChildren(...[retry, reindex].filter(Boolean));
  $("#idle", box).textContent = data.pending && data.leased === 0 ? t("Nothing is indexing at the moment. Whoever runs this server can start it.") : "";
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

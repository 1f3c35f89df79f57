// Questions: passages, or an answer whose citations open the sentence in its document.

import { ask, post, session } from "./api.js";
import { h } from "./dom.js";
import { open } from "./document.js";
import { nearest, sentences } from "./sentences.js";
import { why } from "./graph.js";
import { verdict } from "./verdict.js";

const EXCERPT = 420;
const LONGEST_WORD = 30;
let running = null;
let last = { text: "", mode: "hybrid", results: null };

export function view(main, { values }) {
  const asked = values.get("q");
  if (asked) last.text = asked;
  const text = h("textarea", { id: "question", rows: 1, "aria-label": "Question", placeholder: "Ask or search the documents", enterkeyhint: "search", onkeydown: keys });
  text.value = last.text;
  const mode = h("select", { id: "mode", "aria-label": "Mode" }, session.modes.map((name) => h("option", { value: name }, name)));
  mode.value = last.mode;
  const results = last.results ?? h("div", { id: "results" });
  last.results = results;
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); run(search); } },
    h("div", { class: "question" }, text, h("button", { id: "search" }, "Search"), h("button", { id: "ask", type: "button", class: "second", onclick: () => run(answer) }, "Ask")),
    h("div", { class: "options row small soft" }, h("label", { class: "row" }, "Mode", mode), h("span", {}, "hybrid for most questions, bm25 for exact names and codes, graph_global for the corpus as a whole")));
  main.replaceChildren(h("div", { class: "column" }, form, results));
  text.focus({ preventScroll: true });
  if (asked) run(search);

  function keys(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    run(event.ctrlKey || event.metaKey ? answer : search);
  }

  async function run(work) {
    last.text = text.value.trim();
    last.mode = mode.value;
    if (!last.text) return;
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    try {
      await work(results, last.text, last.mode, signal);
    } catch (error) {
      if (error.name !== "AbortError") results.replaceChildren(h("p", { class: "card error", role: "alert" }, error.message, error.hint ? h("div", { class: "soft small" }, error.hint) : null));
    }
  }
}

async function search(results, query, mode, signal) {
  results.replaceChildren(h("p", { class: "soft", role: "status" }, "Searching …"));
  const start = performance.now();
  const { results: hits } = await post("/api/search", { query, mode, top_k: 10 }, signal);
  const seconds = ((performance.now() - start) / 1000).toFixed(2);
  const judged = verdict("Do these passages answer it?", { question: query, mode });
  results.replaceChildren(
    h("p", { class: "soft small", role: "status" }, hits.length ? `${hits.length} passages, ${seconds} s` : "Nothing was found. Other words, or another mode?"),
    h("ol", { class: "list hits" }, hits.map((hit) => card(hit, query, judged.mark))),
    judged.line);
}

function card(hit, query, mark) {
  const sentence = nearest(hit.content, query);
  const show = () => open(hit.document_id, { chunk: hit.content, sought: query });
  const place = [hit.explain.section, hit.explain.page && `p. ${hit.explain.page}`].filter(Boolean).join(" · ");
  return h("li", { class: "card" },
    h("button", { class: "link title", type: "button", onclick: show }, hit.title || hit.source_key),
    h("div", { class: "soft small" }, [hit.title && hit.source_key, place].filter(Boolean).join(" — ")),
    h("p", { class: "small" }, excerpt(hit.content, sentence)), mark(hit.source_key));
}

function excerpt(content, sentence) {
  const from = Math.max(0, (sentence?.start ?? 0) - EXCERPT / 3);
  const to = Math.min(content.length, from + EXCERPT);
  // Between words, where there are blanks.
  const start = from && from + Math.max(0, content.slice(from, from + LONGEST_WORD).search(/\s/));
  const end = Math.max(sentence?.end ?? 0, to < content.length ? to - content.slice(to - LONGEST_WORD, to).match(/(\s\S*)?$/)[0].length : to);
  const parts = sentence
    ? [content.slice(start, sentence.start), h("mark", {}, content.slice(sentence.start, sentence.end)), content.slice(sentence.end, end)]
    : [content.slice(start, end)];
  const plain = (part) => (typeof part === "string" ? part.replace(/^#{1,6} /gm, "") : part);
  return [start > 0 ? "… " : "", ...parts.map(plain), end < content.length ? " …" : ""];
}

async function answer(results, question, mode, signal) {
  const box = h("div", { class: "answer wait", "aria-live": "polite", "aria-busy": "true" });
  const below = h("div");
  results.replaceChildren(h("div", { class: "card" }, box), below);
  let text = "";
  for await (const { event, data } of ask({ question, mode }, signal)) {
    if (event === "error") {
      box.classList.remove("wait");
      if (!text) box.parentElement.remove();
      below.replaceChildren(h("p", { class: "card error", role: "alert" }, data.message, data.hint ? h("div", { class: "soft small" }, data.hint) : null));
      if (!text) {
        const found = h("div");
        below.append(h("h2", {}, "Passages"), found);
        await search(found, question, mode, signal);
      }
      return;
    }
    if (event === "piece") box.textContent = text += data.text;
    else finish(box, below, data, question, mode);
  }
}

function finish(box, below, made, question, mode) {
  box.classList.remove("wait");
  box.setAttribute("aria-busy", "false");
  const byNumber = new Map(made.citations.map((citation) => [citation.number, citation]));
  const parts = made.answer.split(/(\[\d+\])/);
  let before = "";
  box.replaceChildren(...parts.map((part) => {
    const citation = byNumber.get(Number(part.slice(1, -1)));
    if (!/^\[\d+\]$/.test(part) || !citation) {
      before += part;
      return part;
    }
    return h("button", { class: "cite", type: "button", title: citation.title || citation.source_key, onclick: cited(citation, before, question) }, String(citation.number));
  }));
  const judged = verdict("Is this a good answer?", { question, mode, answer: made.answer }, made.citations.map((citation) => citation.source_key));
  below.replaceChildren(
    h("h2", {}, "Sources"),
    h("ol", { class: "list" }, made.citations.map((citation) => h("li", { class: "card row" },
      h("span", { class: "badge" }, String(citation.number)),
      h("button", { class: "link", type: "button", onclick: cited(citation, said(made.answer, citation.number), question) }, citation.title || citation.source_key),
      h("span", { class: "soft small" }, [citation.section, citation.pages && `p. ${citation.pages}`].filter(Boolean).join(" · ")),
      citation.source_key === null ? null : judged.mark(citation.source_key)))),
    judged.line,
    h("p", { class: "row" }, h("button", { class: "second", type: "button", id: "why", onclick: () => why(made, question) }, "Why? Show its part of the graph"),
      h("span", { class: "soft small" }, `from ${made.context.tokens.toLocaleString()} tokens of entities, relationships and passages`)));
}

// Opens the sentence that says most of the one before the mark.
const cited = (citation, before, question) => () => {
  // Rows of a statement have no document.
  if (citation.document_id === null) return;
  const sought = sentences(before).at(-1)?.text || question;
  open(citation.document_id, { chunk: citation.content ?? "", sought });
};

const said = (text, number) => text.slice(0, text.indexOf(`[${number}]`)).replace(/\[\d+\]/g, "");

export function step(direction) {
  const titles = [...document.querySelectorAll(".hits .title")];
  if (!titles.length) return;
  const at = titles.indexOf(document.activeElement);
  titles[Math.min(titles.length - 1, Math.max(0, at + direction))].focus();
}

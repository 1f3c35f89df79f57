// Passages of a search, and the context that a model would be given.

import { post } from "./api.js";
import { copy, h } from "./dom.js";
import { open } from "./document.js";
import { t, tn } from "./i18n.js";
import { nearest } from "./sentences.js";
import { retrieval } from "./settings.js";
import { verdict } from "./verdict.js";
import { plain } from "./written.js";

const EXCERPT = 420;
const LONGEST_WORD = 30;

// What was found, as elements.
export async function search(query, settings, signal) {
  const start = performance.now();
  const { results: hits } = await post("/api/search", { query, top_k: 10, ...retrieval(settings) }, signal);
  const seconds = Number(((performance.now() - start) / 1000).toFixed(2));
  if (!hits.length) return [h("p", { class: "soft", role: "status" }, t("Nothing was found. Other words, or another mode?"))];
  const judged = verdict(t("Do these passages answer it?"), { question: query, mode: settings.mode });
  return [
    h("p", { class: "soft small", role: "status" }, tn(hits.length, "{count} passage, {seconds} s", "{count} passages, {seconds} s", { seconds })),
    h("ol", { class: "list hits" }, hits.map((hit) => card(hit, query, judged.mark))),
    judged.line,
  ];
}

function card(hit, query, mark) {
  const sentence = nearest(hit.content, query);
  const show = () => open(hit.document_id, { chunk: hit.content, sought: query, picture: hit.explain.picture });
  return h("li", { class: "card" },
    h("button", { class: "link title", type: "button", onclick: show }, hit.title || hit.source_key),
    h("div", { class: "soft small" }, [hit.title && hit.source_key, place(hit.explain.section, hit.explain.pages)].filter(Boolean).join(" — ")),
    h("p", { class: "small" }, excerpt(hit.content, sentence)), mark(hit.source_key));
}

export const place = (section, pages) => [section, pages && t("p. {pages}", { pages: String(pages) })].filter(Boolean).join(" · ");

function excerpt(content, sentence) {
  const from = Math.max(0, (sentence?.start ?? 0) - EXCERPT / 3);
  const to = Math.min(content.length, from + EXCERPT);
  // Between words, where there are blanks.
  const start = from && from + Math.max(0, content.slice(from, from + LONGEST_WORD).search(/\s/));
  const end = Math.max(sentence?.end ?? 0, to < content.length ? to - content.slice(to - LONGEST_WORD, to).match(/(\s\S*)?$/)[0].length : to);
  const parts = sentence
    ? [plain(content.slice(start, sentence.start)), h("mark", {}, plain(content.slice(sentence.start, sentence.end))), plain(content.slice(sentence.end, end))]
    : [plain(content.slice(start, end))];
  return [start > 0 ? "… " : "", ...parts, end < content.length ? " …" : ""];
}

// What a model would be given, with its tokens.
export async function context(query, settings, signal) {
  const body = { query, max_tokens: Number(settings.tokens) || null, ...retrieval(settings) };
  const { prompt, tokens } = await post("/api/context", body, signal);
  return [
    h("div", { class: "row" }, h("h2", { class: "grow" }, t("A model would be given {count} tokens", { count: tokens })),
      h("button", { class: "second small", type: "button", onclick: () => copy(prompt) }, t("Copy"))),
    h("pre", { class: "context card small", tabindex: 0 }, prompt),
  ];
}

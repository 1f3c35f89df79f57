// An answer: as it comes, then with its citations, sources and what can be done with it.

import { ask } from "./api.js";
import { copy, h, refusal } from "./dom.js";
import { open } from "./document.js";
import { t, tn } from "./i18n.js";
import { elements, growing, ready } from "./markdown.js";
import { place } from "./passages.js";
import { address } from "./router.js";
import { nearest, sentences } from "./sentences.js";
import { retrieval, summary, unusual } from "./settings.js";
import { history } from "./threads.js";
import { verdict } from "./verdict.js";

// Asks a turn's question and shows the answer in the box as it comes. The turn has it afterwards.
export async function run(turn, before, box, signal) {
  const text = h("div", { class: "answer wait" });
  box.replaceChildren(text);
  Object.assign(turn, { answer: "", citations: [], error: null, isStopped: false });
  try {
    const body = { question: turn.question, history: history(before), max_tokens: Number(turn.settings.tokens) || null, ...retrieval(turn.settings) };
    const pieces = ask(body, signal);
    await ready();
    const grow = growing(text);
    let isDue = false;
    const show = () => { isDue = false; if (!signal.aborted) grow(turn.answer); };
    for await (const { event, data } of pieces) {
      if (event === "error") throw data;
      if (event === "answer") Object.assign(turn, { answer: data.answer, citations: data.citations, usage: data.usage, context: data.context, tokens: data.context.tokens });
      else {
        turn.answer += data.text;
        if (!isDue) requestAnimationFrame(show);
        isDue = true;
      }
      if (signal.aborted) break;
    }
  } catch (error) {
    if (error.name !== "AbortError") turn.error = { message: error.message, hint: error.hint };
  }
  turn.isStopped = signal.aborted;
}

// The answer of a turn, whole. `again` asks anew.
export function whole(turn, again) {
  const { question, settings, citations, usage, error } = turn;
  const byNumber = new Map(citations.map((citation) => [String(citation.number), citation]));
  const said = new Map();
  const cite = (number, before) => {
    const citation = byNumber.get(number);
    if (!citation) return null;
    if (!said.has(number)) said.set(number, before);
    return h("button", { class: "cite", type: "button", title: citation.title || citation.source_key, "aria-label": t("Source {number}: {title}", { number, title: citation.title || citation.source_key }), onclick: () => show(turn, citation, before) }, number);
  };
  const text = h("div", { class: "answer" }, turn.answer ? elements(turn.answer, cite) : null);
  // What no model wrote says so in its first line.
  if (usage?.answer === "extracts") text.firstElementChild?.classList.add("note");
  const judged = verdict(t("Is this a good answer?"), { question, mode: settings.mode, answer: turn.answer }, citations.map(({ source_key }) => source_key));
  const sources = citations.map((citation) => h("li", {},
    h("span", { class: "cite" }, String(citation.number)),
    h("button", { class: "link source", type: "button", onclick: () => show(turn, citation, said.get(String(citation.number)) ?? "") }, citation.title || citation.source_key),
    h("span", { class: "soft small" }, place(citation.section, citation.pages)),
    citation.source_key === null ? null : judged.mark(citation.source_key)));
  const isWhole = turn.answer && !error && !turn.isStopped;
  return [
    text,
    turn.isStopped && h("p", { class: "soft small" }, t("Stopped")),
    error && refusal(error, again),
    error && !turn.answer && h("p", {}, h("a", { href: address("search", [], { q: question, ...unusual(settings) }) }, t("Search for passages"))),
    sources.length > 0 && h("ol", { class: "list sources small", "aria-label": t("Sources") }, sources),
    h("div", { class: "row actions" },
      turn.answer && h("button", { class: "second small", type: "button", onclick: () => copy(markdown(turn)) }, t("Copy")),
      !error && h("button", { class: "second small again", type: "button", onclick: again }, t("Ask again")),
      isWhole && turn.context && h("button", { class: "second small why", type: "button", title: t("The part of the graph that it rests on"), onclick: async () => (await import("./graph.js")).why(turn, question) }, t("Why?")),
      isWhole && judged.line),
    h("p", { class: "soft small" }, [summary(settings), isWhole && turn.tokens > 0 && tn(turn.tokens, "{count} token read", "{count} tokens read")].filter(Boolean).join(" · ")),
  ].filter(Boolean);
}

// Opens the sentence that says most of the one before the mark. Rows of a statement have no document.
function show(turn, citation, before) {
  if (citation.document_id === null) return;
  const sought = sentences(before).at(-1)?.text || turn.question;
  // A number may stand for several chunks of the document.
  const chunks = (turn.context?.chunks ?? []).filter(({ reference }) => reference === citation.number).map(({ content }) => content);
  const best = chunks.map((chunk) => [nearest(chunk, sought)?.score ?? 0, chunk]).sort(([a], [b]) => b - a)[0];
  open(citation.document_id, { chunk: best?.[1] ?? citation.content ?? "", sought, picture: citation.picture });
}

function markdown({ answer, citations }) {
  const sources = citations.map(({ number, title, source_key, section, pages }) => `[${number}] ${[title, title === source_key ? null : source_key, place(section, pages)].filter(Boolean).join(", ")}`);
  return [answer, ...(sources.length ? [`${t("Sources")}:`, sources.join("\n")] : [])].join("\n\n");
}

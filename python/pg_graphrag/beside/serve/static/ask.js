// Questions: a thread of answers, or what a search finds. One box asks and searches.

import { get, session } from "./api.js";
import { $, h, refusal, toast } from "./dom.js";
import * as answer from "./answer.js";
import { address, go, remember } from "./router.js";
import { language, t } from "./i18n.js";
import { ready } from "./markdown.js";
import * as passages from "./passages.js";
import * as preferences from "./settings.js";
import * as threads from "./threads.js";

// What is asked: {thread, list, controller}. It goes on while another view is shown.
let running = null;
let searching = null;
// What the corpus offers to who begins, by caller and corpus.
const offers = new Map();

let shown = null;

// Where one was in this corpus, as an address: [view, parts, values].
export function last() {
  if (shown?.corpus !== session.corpus) return ["ask"];
  if (shown.thread) return ["ask", [shown.thread.id]];
  return shown.search ? ["search", [], { ...shown.search, document: null, text: null }] : ["ask"];
}

export async function view(main, { view: name, parts, values }) {
  searching?.abort();
  const settings = preferences.current(values);
  const query = name === "search" ? values.get("q") : null;
  const isRunning = running !== null && running.thread.id === parts[0] && name === "ask";
  const thread = isRunning ? running.thread : name === "ask" && parts[0] ? threads.find(parts[0]) : null;
  const list = isRunning ? running.list : h("div", { id: "results", "aria-live": "polite" });
  const page = { thread, list, settings, corpus: session.corpus, search: query ? Object.fromEntries(values) : null };
  shown = page;
  const side = h("nav", { class: "threads", "aria-label": t("Threads"), id: "threads" });
  const talk = h("div", { class: "talk" }, h("h1", { class: "visually-hidden" }, t("Ask")), top(side), list, composer(page, query));
  main.replaceChildren(h("div", { class: "ask", "data-state": query ? "search" : thread ? "thread" : "start" }, side, talk));
  fillThreads(side, thread?.id);
  showBusy();
  if (!matchMedia("(pointer: coarse)").matches) $("#question").focus({ preventScroll: true });
  if (query) await find(page, query, values.get("show"));
  else if (isRunning) toLast(list);
  else if (thread) await showThread(page);
  else await begin(page, name === "ask" && parts[0] && !thread);
}

const top = (side) => h("div", { class: "row top" },
  h("button", { class: "second small", type: "button", "aria-controls": "threads", "aria-expanded": "false", onclick: ({ target }) => target.setAttribute("aria-expanded", String(side.classList.toggle("open"))) }, t("Threads")),
  h("a", { class: "button second small", href: address("ask") }, t("New thread")));

function composer(page, query) {
  const { settings } = page;
  const text = h("textarea", { id: "question", rows: 1, "aria-label": t("Question"), placeholder: page.thread ? t("Ask further") : t("Ask the documents"), enterkeyhint: "send", onkeydown: keys, oninput: fit });
  text.value = query ?? "";
  const line = h("span", { class: "soft small", id: "set" }, preferences.summary(settings));
  const fields = h("div", { class: "fields" });
  const long = h("p", { class: "small", role: "alert" });
  offered().then(({ rerank }) => fields.replaceChildren(...preferences.form(settings, { canRerank: rerank, change: () => { line.textContent = preferences.summary(settings); } }).filter(Boolean),
    h("button", { class: "second small", type: "button", id: "context", onclick: () => search("context") }, t("Show what a model would read"))));
  const form = h("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); send(); } },
    h("div", { class: "box" }, long, text, h("div", { class: "row" },
      h("details", { class: "settings small" }, h("summary", {}, t("Settings")), fields), line, h("span", { class: "grow" }),
      h("button", { id: "search", class: "second", type: "button", title: t("Passages as they stand in the documents (Ctrl+Enter)"), onclick: () => search() }, t("Search")),
      h("button", { id: "ask" }, t("Ask")))));
  requestAnimationFrame(fit);
  return form;

  // As high as its text.
  function fit() {
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, innerHeight / 3)}px`;
    // Said once, and not with each letter.
    const problem = [...text.value].length > session.max_question ? t("The question is too long: at most {count} characters are read.", { count: session.max_question }) : "";
    if (long.textContent !== problem) long.textContent = problem;
    long.classList.toggle("error", Boolean(problem));
  }

  function keys(event) {
    // 229: in Safari, Return that confirms a conversion.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) search();
    else if (!running || running.thread !== page.thread) send();
  }

  function send() {
    if (running && running.thread === page.thread) {
      running.controller.abort();
      return;
    }
    const question = text.value.trim();
    if (!isValid()) return;
    text.value = "";
    $(".settings", form).open = false;
    fit();
    askNow(page, question, { ...settings });
  }

  function search(show) {
    const q = text.value.trim();
    if (isValid()) go("search", [], { q, ...preferences.unusual(settings), show });
  }

  function isValid() {
    if (!text.value.trim() || long.textContent) {
      text.focus();
      return false;
    }
    try {
      preferences.retrieval(settings);
      return true;
    } catch (error) {
      toast(error.message);
      $(".settings", form).open = true;
      $("#filter", form).focus();
      return false;
    }
  }
}

async function find(page, query, show) {
  searching = new AbortController();
  const { signal } = searching;
  page.list.replaceChildren(h("p", { class: "soft", role: "status" }, t("Searching …")));
  try {
    page.list.replaceChildren(...(await passages[show === "context" ? "context" : "search"](query, page.settings, signal)));
  } catch (error) {
    if (error.name !== "AbortError") page.list.replaceChildren(refusal(error, () => find(page, query, show)));
  }
}

async function askNow(page, question, settings) {
  if (!page.thread) {
    page.thread = threads.begin();
    page.list.replaceChildren();
    $(".ask").dataset.state = "thread";
    $("#question").placeholder = t("Ask further");
    remember("ask", [page.thread.id], {}, { isNew: true });
  }
  const turn = { question, settings };
  page.thread.turns.push(turn);
  const box = article(page, turn);
  toLast(page.list);
  await runTurn(page, turn, box);
}

// The place of a turn in the thread; returns the box for its answer.
function article(page, turn) {
  const box = h("div");
  page.list.append(h("article", { class: "turn" }, h("h2", { class: "asked" }, turn.question), box));
  return box;
}

async function runTurn(page, turn, box) {
  const { thread, list } = page;
  running?.controller.abort();
  const mine = { thread, list, controller: new AbortController() };
  running = mine;
  // Until its answer is there, reload shows it as one that was stopped.
  Object.assign(turn, { answer: "", citations: [], isStopped: true });
  threads.keep(thread);
  fillThreads($("#threads"), thread.id);
  showBusy();
  await answer.run(turn, thread.turns.slice(0, thread.turns.indexOf(turn)), box, mine.controller.signal);
  finish(page, turn, box);
  threads.keep(thread);
  if (running === mine) running = null;
  showBusy();
}

function finish(page, turn, box) {
  box.replaceChildren(...answer.whole(turn, () => {
    turn.settings = { ...page.settings };
    runTurn(page, turn, box);
  }));
}

async function showThread(page) {
  await ready();
  for (const turn of page.thread.turns) finish(page, turn, article(page, turn));
  toLast(page.list);
}

// The last question at the top: its answer is read from there, while it comes.
const toLast = (list) => list.lastElementChild?.scrollIntoView({ block: "start" });

function showBusy() {
  const button = $("#ask");
  if (!button || !shown) return;
  const isBusy = running !== null && running.thread === shown.thread;
  shown.list.setAttribute("aria-busy", String(isBusy));
  button.textContent = isBusy ? t("Stop") : t("Ask");
  button.classList.toggle("second", isBusy);
}

function fillThreads(side, current) {
  if (!side) return;
  const all = threads.all();
  side.closest(".ask").classList.toggle("kept", all.length > 0);
  side.replaceChildren(
    h("a", { class: "button second small", href: address("ask") }, t("New thread")),
    h("ul", { class: "list" }, all.map((thread) => h("li", {},
      h("a", { href: address("ask", [thread.id]), "aria-current": thread.id === current ? "page" : null, title: threads.name(thread) }, threads.name(thread)),
      h("button", { class: "plain small", type: "button", "aria-label": t("Delete the thread {name}", { name: threads.name(thread) }), onclick: () => forget(thread, current) }, "✕")))));
}

function forget(thread, current) {
  if (running?.thread.id === thread.id) {
    running.thread.isForgotten = true;
    running.controller.abort();
  }
  threads.forget(thread.id);
  if (thread.id === current) go("ask");
  else fillThreads($("#threads"), current);
  toast(t("Thread deleted"), { label: t("Undo"), run: () => { threads.keep(thread); fillThreads($("#threads"), current); } });
}

// The first screen: questions that this corpus can answer.
async function begin(page, isLost) {
  const questions = h("div", { class: "suggestions" });
  page.list.replaceChildren(h("h2", {}, t("What would you like to know?")),
    h("p", { class: "soft" }, isLost ? t("This thread is not kept in this browser.") : t("Answers come from the documents of {corpus}, with their sources.", { corpus: session.corpus })), questions);
  questions.replaceChildren(...suggestions(await offered()).map(({ question, mode }) =>
    h("button", { class: "second", type: "button", onclick: () => askNow(page, question, { ...page.settings, ...(mode && { mode }) }) }, question)));
}

// Of each kind one, the kinds that are there; no name twice, and none that is a plain word.
function suggestions({ themes, entities, pairs }) {
  const named = new Set();
  const first = (list, names) => {
    const found = list.find((one) => names(one).every((name) => !named.has(name) && !/^[a-z]+$/.test(name)));
    for (const name of found ? names(found) : []) named.add(name);
    return found;
  };
  const entity = first(entities, ({ name }) => [name]);
  // Titles that no model wrote are names.
  const theme = first(themes.map(({ title, names }) => (title ? title.split(", ") : names)), (names) => names);
  const pair = first(pairs, (names) => names) ?? pairs.find((names) => !names.every((name) => named.has(name)));
  return [
    entity && { question: /^person$/i.test(entity.type) ? t("Who is {name}?", entity) : t("What is {name}?", entity) },
    pair && { question: t("How are {a} and {b} connected?", { a: pair[0], b: pair[1] }) },
    theme && { question: theme.length === 1 ? t("What do the documents say about {name}?", { name: theme[0] }) : t("What have {names} to do with each other?", { names: new Intl.ListFormat(language).format(theme) }) },
    themes.length > 0 && { question: t("What are the main themes?"), mode: "graph_global" },
  ].filter(Boolean);
}

// Without it, there are no suggestions.
function offered() {
  const key = `${session.name}/${session.corpus}`;
  if (!offers.has(key)) {
    offers.set(key, get("/api/start").catch(() => {
      offers.delete(key);
      return { themes: [], entities: [], pairs: [], rerank: false };
    }));
  }
  return offers.get(key);
}

// From a title or source to the next.
export function step(direction) {
  const titles = [...document.querySelectorAll(".hits .title, .source")];
  if (!titles.length) return;
  const at = titles.indexOf(document.activeElement);
  titles[Math.min(titles.length - 1, Math.max(0, at + direction))].focus();
}

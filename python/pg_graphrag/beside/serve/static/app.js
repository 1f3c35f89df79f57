// The frame: who is there, which corpus and view, theme and keys.

import { begin, get, request, session } from "./api.js";
import { $, complain, h, isDark, refusal } from "./dom.js";
import { close, open } from "./document.js";
import * as ask from "./ask.js";
import * as curation from "./curation.js";
import * as documents from "./documents.js";
import * as i18n from "./i18n.js";
import { t } from "./i18n.js";
import { address, go, place } from "./router.js";
import { empty, form, who } from "./sign-in.js";

// Fetched with the first graph; then this is that module.
const graph = { forget() {}, async view(...given) {
  try {
    Object.assign(graph, await import("./graph.js"));
  } catch {
    // A browser may keep the failure of a module until the page is loaded again.
    if (current === graph) $("#main").replaceChildren(h("div", { class: "column" }, h("div", { class: "card" }, refusal(new Error(t("The graph cannot be loaded")), () => location.reload()))));
    return;
  }
  if (current === graph) graph.view(...given);
} };
const VIEWS = { ask, graph, documents, curation };
let current = null;

async function start() {
  await i18n.load();
  i18n.translate(document);
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  const { token, refused, place: asked } = Object.fromEntries(new URLSearchParams(location.hash.startsWith("#/") ? "" : location.hash.slice(1)));
  // Whom the provider's sign-in left outside may try again for the same place.
  const wanted = asked ?? (refused && sessionStorage.getItem("place"));
  // Out of the address, so that it is in no history.
  if (token || refused) history.replaceState(null, "", `/${wanted?.startsWith("/") ? `#${wanted}` : ""}`);
  const before = session.name;
  try {
    await begin(token && (await mayReplace(token)) ? token : null);
  } catch (error) {
    if (error.status === 401) signIn(token ? t("The token is not known: the server may have been started again.") : null, refused);
    else $("#main").replaceChildren(h("div", { class: "column" }, h("div", { class: "card" }, refusal(error, start))));
    return;
  }
  await enter(before);
}

// A link could sign one in as whoever sent it: who has a session is asked before that of another takes its place.
async function mayReplace(token) {
  const own = await fetch("/api/session").catch(() => null);
  if (!own?.ok) return true;
  const [{ name }, other] = await Promise.all([own.json(), request("GET", "/api/session", { headers: { authorization: `Bearer ${token}` } }).then((reply) => reply.json())]);
  if (name === other.name) return true;
  if (!confirm(t("You are signed in as {name}. Sign in with the token of this address instead?", { name }))) return false;
  empty();
  return true;
}

// before: who was in this tab until now.
async function enter(before) {
  isSigningIn = false;
  if (before && before !== session.name) {
    empty();
    location.reload();
    return;
  }
  try {
    // Without the list, the pages of the server's own corpus.
    const corpora = await get("/api/corpora").catch((error) => { if (error.status === 401) throw error; complain(error); return []; });
    const names = [...new Set([session.corpus, ...corpora.map(({ name }) => name)])];
    $("#corpus").replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    $("#who").replaceChildren(who());
    $("#bar").hidden = false;
    route();
  } catch (error) {
    if (error.status !== 401) complain(error);
  }
}

let isSigningIn = false;
function signIn(reason, refused) {
  if (isSigningIn) return;
  isSigningIn = true;
  current?.stop?.();
  current = null;
  close();
  $("#bar").hidden = true;
  const before = session.name;
  form($("#main"), () => enter(before), { reason, refused });
}

function route(event) {
  const at = place();
  const { corpus, view, parts, values } = at;
  if (corpus !== session.corpus) {
    session.corpus = corpus;
    graph.forget();
  }
  if (![...$("#corpus").options].some((option) => option.value === session.corpus)) $("#corpus").append(h("option", { value: session.corpus }, session.corpus));
  $("#corpus").value = session.corpus;
  const name = Object.hasOwn(VIEWS, view) ? view : "ask";
  for (const link of document.querySelectorAll("#views a")) {
    // From elsewhere back to the thread or search where one was.
    link.href = address(...(link.dataset.view === "ask" && name !== "ask" ? ask.last() : [link.dataset.view]));
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${$("#views [aria-current]").textContent} · ${session.corpus} · pg_graphrag`;
  const document_id = view === "document" ? parts[0] : values.get("document");
  if (document_id) open(Number(document_id), { chunk: values.get("text") ?? "", sought: values.get("text") ?? "", picture: Number(values.get("picture")) || null });
  else close();
  if (event?.oldURL && besides(new URL(event.oldURL).hash) === besides(location.hash)) return;
  current?.stop?.();
  current = VIEWS[name];
  current.view($("#main"), at);
}

// The address without the document that is open.
function besides(hash) {
  const [path, query] = hash.split("?");
  const rest = new URLSearchParams(query);
  for (const name of ["document", "text", "picture"]) rest.delete(name);
  return `${path}?${rest}`;
}

addEventListener("hashchange", (event) => { if (location.hash.startsWith("#token=")) start(); else if (!isSigningIn) route(event); });
addEventListener("signed-out", () => { if (!$("#bar").hidden) signIn(t("Your session has ended. Sign in again to go on.")); });
$("#corpus").addEventListener("change", (event) => { session.corpus = event.target.value; graph.forget(); go(Object.keys(VIEWS).find((name) => VIEWS[name] === current)); });
$("#theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
  if (current === graph) graph.view($("#main"));
});
$("#language").value = i18n.language;
$("#language").addEventListener("change", ({ target }) => { localStorage.setItem("language", target.value); location.reload(); });
$("#help").addEventListener("click", () => $("#keys").showModal());
// Who speaks to the computer presses such keys unawares.
$("#single").checked = localStorage.getItem("single keys") !== "off";
$("#single").addEventListener("change", ({ target }) => localStorage.setItem("single keys", target.checked ? "on" : "off"));
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && close()) return;
  const isTyping = event.target.closest?.("input, textarea, select, dialog");
  if (isTyping || !$("#single").checked || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = { 1: "ask", 2: "graph", 3: "documents", 4: "curation" }[event.key];
  if (view) go(...(view === "ask" && current !== ask ? ask.last() : [view]));
  else if (event.key === "/") { event.preventDefault(); if (current !== ask) go(...ask.last()); setTimeout(() => $("#question")?.focus()); }
  else if (event.key === "?") $("#keys").showModal();
  else if (event.key === "j" || event.key === "k") ask.step(event.key === "j" ? 1 : -1);
});
addEventListener("unhandledrejection", (event) => { if (event.reason?.status !== 401) complain(event.reason); });

start();

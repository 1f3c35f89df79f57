// Markdown as elements. markdown-it makes tokens and h() elements of them: no text of a model or document becomes markup.
// Links lead to other pages by http, https and mailto alone; a picture is a link to it; formulas and diagrams come later.

import { copy, h } from "./dom.js";
import { t } from "./i18n.js";
import { diagram, formula, library } from "./libraries.js";

const LINK = /^(?:https?:\/\/|mailto:)/i;
const CITATION = /\[(\d{1,9})\]/y;
// What stands behind an element of an array, and never behind a citation: the server's rule.
const AFTER_SUBSCRIPT = /^(?:(?:\.|->)[A-Za-z_]|[({]|\[[^\d\]]| ?(?:[-+*/%:]?=|[+*/%<>] ?\w))/;
const MATH = [/\\\(([^]+?)\\\)/y, /\$(?![\s$])((?:\\.|[^$\\])*?[^\s$\\])\$(?!\d)/y, /\\\[([^]+?)\\\]/y, /\$\$([^]+?)\$\$/y];

let parser = null;

// To be waited for before anything is shown.
export async function ready() {
  if (parser) return;
  await library("markdown-it.min.js");
  const md = markdownit({ html: false, linkify: true }).disable("reference");
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  md.validateLink = (href) => LINK.test(href);
  md.inline.ruler.before("escape", "math", math);
  md.inline.ruler.before("link", "cite", citation);
  md.core.ruler.push("headings", headings);
  parser = md;
}

// Elements of a text. cite(number, before): the element of a citation behind the text `before`; null: it is none.
export function elements(text, cite) {
  const seen = { text: "" };
  return built(parser.parse(text, {}), cite, seen, true);
}

// Shows a text in a box as it grows: blocks that are as they were stay, so that nothing flickers.
export function growing(box) {
  let keys = [];
  return (text) => {
    const source = whole(text);
    const lines = source.split("\n");
    const groups = blocks(parser.parse(source, {}));
    const made = groups.map(([first]) => `${first.type} ${lines.slice(...first.map).join("\n")}`);
    const same = made.findIndex((key, at) => key !== keys[at]);
    const from = same < 0 ? made.length : same;
    for (const old of [...box.children].slice(from)) old.remove();
    for (const group of groups.slice(from)) box.append(...built(group, (number) => h("span", { class: "cite" }, number), { text: "" }, false));
    keys = made;
  };
}

function blocks(tokens) {
  const found = [];
  for (const token of tokens) {
    if (token.level === 0 && token.nesting >= 0) found.push([]);
    found.at(-1).push(token);
  }
  return found;
}

// What has begun looks as it will: open marks are closed; a table waits for its second row, a citation or link for its end.
function whole(text) {
  if ((text.match(/^ {0,3}(?:```|~~~)/gm) ?? []).length % 2) return text;
  const start = text.lastIndexOf("\n\n") + 1;
  let last = text.slice(start).replace(/(?:!?\[[^\]\n]{0,80}|!?\[(?!\d+\]$)[^\]\n]*\](?:\([^)\n]*)?|[*_~`\\#|$]+|\n *(?:[-+*]|\d{1,3}\.) *)$/, "");
  if (/^\s*\|/.test(last) && last.trim().split("\n").length < 3) last = "";
  for (const mark of ["**", "`", "$$"]) if ((last.split(mark).length - 1) % 2) last += mark;
  if (/(?<![\w*\\])\*(?=[^\s*])[^*\n]*$/.test(last)) last += "*";
  return text.slice(0, start) + last;
}

function math(state, silent) {
  const display = ["\\[", "$$"].includes(state.src.slice(state.pos, state.pos + 2));
  for (const pattern of MATH.slice(display ? 2 : 0, display ? 4 : 2)) {
    pattern.lastIndex = state.pos;
    const match = pattern.exec(state.src.slice(0, state.posMax));
    if (!match) continue;
    // [1] between brackets that are escaped is a citation.
    if (/^\d+$/.test(match[1])) return false;
    if (!silent) Object.assign(state.push("math", "", 0), { content: match[1].trim(), block: display });
    state.pos += match[0].length;
    return true;
  }
  return false;
}

// The question above is an h2: headings below it leave out no level, whatever the text does.
function headings({ tokens }) {
  const above = [];
  for (const token of tokens.filter(({ type }) => type === "heading_open")) {
    while (above.at(-1) >= token.tag) above.pop();
    above.push(token.tag);
    token.meta = `h${Math.min(6, 2 + above.length)}`;
  }
}

function citation(state, silent) {
  CITATION.lastIndex = state.pos;
  const match = CITATION.exec(state.src);
  if (!match) return false;
  const rest = state.src.slice(state.pos + match[0].length, state.pos + match[0].length + 4);
  if (/\w/.test(state.src[state.pos - 1] ?? " ") && AFTER_SUBSCRIPT.test(rest)) return false;
  if (!silent) state.push("cite", "", 0).content = match[1];
  state.pos += match[0].length;
  return true;
}

function built(tokens, cite, seen, isDone) {
  const root = h("div");
  const open = [root];
  for (const token of tokens) {
    if (token.hidden) continue;
    const top = open.at(-1);
    if (token.type === "inline") top.append(...built(token.children, cite, seen, isDone));
    else if (token.nesting < 0) open.pop();
    else if (token.nesting > 0) {
      // Blocks end what is said before them; the cells of a row say one thing.
      if (token.block) seen.text += token.type.startsWith("t") && token.type !== "tr_open" ? " " : "\n";
      const element = opened(token);
      top.append(token.type === "table_open" ? h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("Table") }, element) : element);
      open.push(element);
    } else top.append(leaf(token, cite, seen, isDone));
  }
  return [...root.childNodes];
}

function opened(token) {
  if (token.type === "link_open") return h("a", { href: token.attrGet("href"), target: "_blank", rel: "noopener noreferrer" });
  const element = h(token.meta ?? token.tag, { start: token.attrGet("start") });
  element.style.textAlign = /text-align:(\w+)/.exec(token.attrGet("style") ?? "")?.[1] ?? "";
  return element;
}

function leaf(token, cite, seen, isDone) {
  const { type, content } = token;
  if (type === "cite") return cite(content, seen.text) ?? `[${content}]`;
  if (type === "math") return formula(content, token.block);
  if (type === "fence" || type === "code_block") {
    const code = h("pre", { tabindex: 0 }, h("code", {}, content));
    const box = h("div", { class: "code" }, h("button", { class: "second small", type: "button", onclick: () => copy(content) }, t("Copy")), code);
    return isDone && token.info.trim() === "mermaid" ? diagram(content, box) : box;
  }
  if (type === "image") {
    const href = token.attrGet("src");
    return h("a", { href, target: "_blank", rel: "noopener noreferrer" }, token.content || href);
  }
  if (type === "softbreak" || type === "hardbreak") seen.text += "\n";
  if (type === "softbreak") return "\n";
  if (type === "hardbreak") return h("br");
  if (type === "hr") return h("hr");
  seen.text += content;
  return type === "code_inline" ? h("code", {}, content) : content;
}

// The text of a document as elements. Readers write Markdown: its headings, code, tables and bold words are shown as such, and
// everything else as it stands, so that a passage of the text is found by its place.

import { h } from "./dom.js";

// What opens code: ```b``` in a line does not. A page may begin with it: a form feed ends the one before.
const FENCE = /^\f* {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$/;
const ROW = /^\s*\|.*\|\s*$/;
const isRule = (line) => line.includes("-") && /^\s*\|[\s:|-]+\|\s*$/.test(line);
const STRONG = /(?<![\w*])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?![\w*])|(?<!`)`([^`\n]+)`(?!`)/g;

// passage and sentence: {start, end} of what is lit, or null.
export function written(content, passage, sentence) {
  const elements = [];
  const lines = linesOf(content);
  // Marks of code from so long on are closed nowhere.
  const unclosed = { "`": Infinity, "~": Infinity };
  let rest = 0;
  const block = (from, to, element) => {
    elements.push(...inline(rest, from), element);
    rest = to;
  };
  for (let at = 0; at < lines.length; at++) {
    const { start, end, text } = lines[at];
    const level = /^\f*#{1,6} +/.exec(text)?.[0].length;
    if (level) block(start, end, h("span", { class: "heading" }, lit(start + level, end)));
    else if (FENCE.test(text)) {
      const last = closing(at);
      if (!last) continue;
      block(start, after(last), h("pre", { tabindex: 0 }, lit(after(at), lines[last].start - 1)));
      at = last;
    } else if (ROW.test(text) && isRule(lines[at + 1]?.text ?? "")) {
      let last = at + 1;
      while (ROW.test(lines[last + 1]?.text ?? "")) last += 1;
      const rows = lines.slice(at, last + 1).filter((_, index) => index !== 1);
      block(start, after(last), h("div", { class: "wide", tabindex: 0 }, h("table", {}, rows.map((row, index) => h("tr", {}, cells(row).map(([from, to]) => h(index ? "td" : "th", {}, inline(from, to))))))));
      at = last;
    }
  }
  return [...elements, ...inline(rest, content.length)];

  // The line that closes the code which a line opens; null without one.
  function closing(at) {
    const [, ticks, tildes] = FENCE.exec(lines[at].text);
    const marks = ticks ?? tildes;
    if (marks.length >= unclosed[marks[0]]) return null;
    for (let line = at + 1; line < lines.length; line++) {
      const text = lines[line].text.trim();
      if (text.startsWith(marks) && text === marks[0].repeat(text.length)) return line;
    }
    unclosed[marks[0]] = marks.length;
    return null;
  }

  function after(line) {
    return lines[line + 1]?.start ?? content.length;
  }

  function inline(from, to) {
    const parts = [];
    let at = from;
    for (const match of content.slice(from, to).matchAll(STRONG)) {
      const start = from + match.index;
      const width = match[1] ? 2 : 1;
      const end = start + match[0].length;
      parts.push(...lit(at, start), h(match[1] ? "strong" : "code", {}, lit(start + width, end - width)));
      at = end;
    }
    return [...parts, ...lit(at, to)];
  }

  // A piece of the text, cut where something lit begins and ends.
  function lit(from, to) {
    const bounds = [passage, sentence].flatMap((range) => (range ? [range.start, range.end] : [])).filter((bound) => bound > from && bound < to);
    const cuts = [from, ...bounds.sort((a, b) => a - b), to];
    return cuts.slice(1).map((end, index) => {
      const [start, text] = [cuts[index], content.slice(cuts[index], end)];
      const isIn = (range) => range && start >= range.start && end <= range.end && text;
      if (isIn(sentence)) return h("mark", start === sentence.start ? { id: "sentence", tabindex: "-1" } : {}, text);
      return isIn(passage) ? h("span", { class: "chunk" }, text) : text;
    }).filter(Boolean);
  }
}

// The same in plain words.
export const plain = (text) => text.split("\n").filter((line) => !FENCE.test(line) && !isRule(line)).map((line) =>
  (ROW.test(line) ? line.split("|").map((cell) => cell.trim()).filter(Boolean).join(" · ") : line.replace(/^\f*#{1,6} /, ""))).join("\n");

function linesOf(content) {
  let start = 0;
  return content.split("\n").map((text) => {
    const line = { start, end: start + text.length, text };
    start += text.length + 1;
    return line;
  });
}

// [from, to] of each cell of a row.
function cells({ start, text }) {
  const bars = [...text.matchAll(/(?<!\\)\|/g)].map(({ index }) => start + index);
  return bars.slice(1).map((bar, index) => [bars[index] + 1, bar]);
}

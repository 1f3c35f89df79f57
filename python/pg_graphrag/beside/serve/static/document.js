// A document in the panel beside, opened at the sentence that a hit or citation is about.

import { get, post } from "./api.js";
import { $, complain, h } from "./dom.js";
import { t } from "./i18n.js";
import { place, remember } from "./router.js";
import { nearest } from "./sentences.js";
import { written } from "./written.js";

// Characters of the text in an address.
const LONGEST_TEXT = 300;
let opener = null;
// Of documents that were asked for, the last is shown.
let turns = 0;

// chunk: the text found; sought: what the sentence should say; picture: the number of the picture whose words these are.
export async function open(id, { chunk = "", sought = "", picture = null } = {}) {
  const turn = (turns += 1);
  opener = document.activeElement;
  try {
    let part = await get(`/api/documents/${id}`);
    if (chunk && part.next_offset !== null && !part.content.includes(chunk)) {
      const { offset } = await post(`/api/documents/${id}/place`, { text: chunk });
      if (offset !== null) part = await get(`/api/documents/${id}`, { offset: Math.max(0, offset - 20000) });
    }
    if (turn !== turns) return;
    const text = show(part, chunk, sought, picture) || chunk;
    const { view, parts, values } = place();
    if (view !== "document") remember(view, parts, { ...Object.fromEntries(values), document: id, text: text.slice(0, LONGEST_TEXT), picture }, { isNew: values.get("document") !== String(id) });
  } catch (error) {
    if (turn === turns) complain(error);
  }
}

export function close() {
  turns += 1;
  const panel = $("#panel");
  if (panel.hidden) return false;
  panel.hidden = true;
  panel.replaceChildren();
  const { view, parts, values } = place();
  if (view === "document") remember("ask");
  else remember(view, parts, { ...Object.fromEntries(values), document: null, text: null, picture: null });
  opener?.focus?.();
  return true;
}

// The picture that shows the whole page of a place in the text, if there is one.
const pagePicture = ({ page, content, page_pictures }, at) => page_pictures[page + content.slice(0, at).split("\f").length - 1];

// Gives the sentence that is marked, or "".
function show(part, chunk, sought, picture) {
  const panel = $("#panel");
  const start = chunk ? part.content.indexOf(chunk) : -1;
  const sentence = start >= 0 ? nearest(chunk, sought) : null;
  const text = h("div", { class: "text", lang: part.metadata?.language }, written(part.content, start < 0 ? null : { start, end: start + chunk.length }, sentence && { start: start + sentence.start, end: start + sentence.end }));
  const go = async (offset) => {
    const turn = (turns += 1);
    const other = await get(`/api/documents/${part.document_id}`, { offset });
    if (turn === turns) show(other, "", "");
  };
  const more = (label, offset) => h("p", {}, h("button", { class: "second", type: "button", onclick: () => go(offset) }, label));
  const pages = Object.values(part.page_pictures);
  const isFigure = picture && !pages.includes(picture);
  const shown = isFigure ? picture : (sentence && pagePicture(part, start + sentence.start)) ?? picture ?? (start < 0 ? null : pagePicture(part, start));
  const source = `/api/pictures/${shown}?${new URLSearchParams({ corpus: part.corpus })}`;
  // A page stays in sight beside its text.
  const scan = pages.includes(shown) && h("a", { class: "picture", href: source, target: "_blank", rel: "noopener" }, h("img", { src: source, alt: t("The page as it looks") }));
  const head = h("div", { class: "head" },
    h("div", { class: "grow" }, h("h2", {}, part.title || part.source_key), h("div", { class: "soft small" }, part.source_key)),
    h("button", { class: "second", type: "button", "aria-label": t("Close the document"), onclick: close }, "✕"),
    scan);
  // Its words stand beside it: what a reader without the picture is given.
  const figure = isFigure && h("figure", { class: "picture" }, h("img", { src: source, alt: start < 0 ? chunk : "" }),
    start < 0 && chunk && h("figcaption", { class: "text small chunk" }, chunk));
  const parts = [head, figure, part.offset > 0 && more(t("Earlier text"), Math.max(0, part.offset - 200000)), text, part.next_offset !== null && more(t("Later text"), part.next_offset)];
  panel.replaceChildren(...parts.filter(Boolean));
  panel.hidden = false;
  panel.focus({ preventScroll: true });
  ($("#sentence", panel) ?? $(".chunk", panel))?.scrollIntoView({ block: "center" });
  return sentence?.text ?? "";
}

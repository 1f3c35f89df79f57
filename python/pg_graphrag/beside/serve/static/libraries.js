// Libraries that are fetched when they are met, and what is made by them.

import { h, isDark } from "./dom.js";
import { t } from "./i18n.js";

const asked = new Map();

// A script of vendor/. One that failed is asked for again.
export function library(name) {
  if (!asked.has(name)) {
    asked.set(name, new Promise((done, failed) => {
      const lost = () => { asked.delete(name); failed(new Error(t("{name} cannot be loaded", { name }))); };
      document.head.append(h("script", { src: `/static/vendor/${name}`, onload: done, onerror: lost }));
    }));
  }
  return asked.get(name);
}

// A formula by KaTeX; its source until then, and where it is none.
export function formula(source, isBlock) {
  const box = h(isBlock ? "div" : "span", { class: "formula" }, source);
  if (!document.querySelector("link[href$='katex.min.css']")) document.head.append(h("link", { rel: "stylesheet", href: "/static/vendor/katex.min.css" }));
  library("katex.min.js").then(() => {
    const made = h("span");
    // Elements and not text: the policy of the page allows no styles in markup.
    katex.render(source, made, { displayMode: isBlock, trust: false, strict: "ignore", maxSize: 20, maxExpand: 500 });
    box.replaceChildren(made);
  }).catch(() => {});
  return box;
}

let frame = null;
const waiting = new Map();

// A picture of a Mermaid diagram; its source stays below it, and alone where it cannot be drawn.
export function diagram(source, code) {
  const box = h("div", { class: "diagram" }, code);
  drawn(source).then((svg) => {
    const picture = h("img", { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: t("Diagram; its source is below") });
    box.replaceChildren(picture, h("details", { class: "small" }, h("summary", {}, t("Source of the diagram")), code));
  }).catch(() => {});
  return box;
}

// Mermaid writes styles into its markup, which the policy of this page forbids: it draws in a frame with a policy of its own,
// and what comes back is shown as an image, in which no script runs and nothing is fetched.
function drawn(source) {
  frame ??= new Promise((done) => {
    const made = h("iframe", { src: "/static/diagram.html", class: "drawing", title: t("Diagram"), tabindex: -1, "aria-hidden": "true", onload: () => done(made.contentWindow) });
    document.body.append(made);
    addEventListener("message", ({ source: from, origin, data }) => {
      if (origin !== location.origin || from !== made.contentWindow) return;
      const [drawn, failed] = waiting.get(data.id) ?? [];
      waiting.delete(data.id);
      if (data.svg) drawn?.(data.svg);
      else failed?.(new Error(data.error));
    });
  });
  return frame.then((target) => new Promise((done, failed) => {
    const id = waiting.size + performance.now();
    waiting.set(id, [done, failed]);
    target.postMessage({ id, source, isDark: isDark() }, location.origin);
  }));
}


// A verdict on an answer or on passages. With the documents that hold the answer, verdicts grow into questions for evaluation.

import { post } from "./api.js";
import { complain, h } from "./dom.js";
import { t, tn } from "./i18n.js";

const isPressed = (button) => button.getAttribute("aria-pressed") === "true";

// The line that asks for the verdict, and a mark for each document. A good answer without marks rests on what it cites.
export function verdict(label, about, cited = []) {
  const marks = new Map();
  const mark = (key) => {
    // Further passages of a document have no mark of their own.
    if (marks.has(key)) return null;
    const toggle = () => button.setAttribute("aria-pressed", String(!isPressed(button)));
    const button = h("button", { class: "second small mark", type: "button", "aria-pressed": "false", onclick: toggle }, t("Holds the answer"));
    marks.set(key, button);
    return button;
  };
  const send = async (kind) => {
    const marked = [...marks].filter(([, button]) => isPressed(button)).map(([key]) => key);
    const evidence = marked.length || kind === "bad" ? marked : cited.filter((key) => key !== null);
    try {
      await post("/api/feedback", { ...about, verdict: kind, evidence });
    } catch (error) {
      complain(error);
      return;
    }
    status.textContent = kind === "good"
      ? tn(evidence.length, "Noted as good, with {count} document as evidence.", "Noted as good, with {count} documents as evidence.")
      : tn(evidence.length, "Noted as bad, with {count} document as evidence.", "Noted as bad, with {count} documents as evidence.");
  };
  const status = h("span", { class: "small soft", role: "status" }, label);
  const button = (kind, text) => h("button", { class: "second small", type: "button", "data-verdict": kind, onclick: () => send(kind) }, text);
  return { mark, line: h("p", { class: "row" }, status, button("good", t("Good")), button("bad", t("Bad"))) };
}

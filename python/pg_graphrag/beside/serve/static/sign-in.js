// Who one is: the form that is shown to whoever is not signed in, and the menu of who is. The address stays as it is.

import { begin, request, session } from "./api.js";
import { $, h } from "./dom.js";
import { t } from "./i18n.js";

const REASONS = {
  unknown: () => t("You are not on the list of this server. Its operator can let you in."),
  failed: () => t("Signing in did not work. Please try again."),
};

// The form; `done` is called when one is in. reason: a sentence; refused: of REASONS, as an address has it.
export async function form(main, done, { reason, refused }) {
  const ways = await (await request("GET", "/api/sign-in")).json().catch(() => ({}));
  const said = reason ?? (Object.hasOwn(REASONS, refused) ? REASONS[refused]() : "");
  const problem = h("p", { class: "error", role: "alert", hidden: !said }, said);
  const enter = (work) => async (event) => {
    event.preventDefault();
    try {
      await work(event.target.elements);
      done();
    } catch (error) {
      problem.textContent = error.status === 429 ? t("Too many attempts. Wait a minute.") : error.status === 401 ? t("That is not right.") : error.message;
      problem.hidden = false;
    }
  };
  const withPassword = ways.password ? h("form", { class: "fields", onsubmit: enter(async ({ name, password }) => {
    await request("POST", "/api/sign-in/password", { body: { name: name.value.trim(), password: password.value } });
    await begin();
  }) },
  h("label", {}, t("Name"), h("input", { name: "name", required: true, autocomplete: "username" })),
  h("label", {}, t("Password"), h("input", { name: "password", type: "password", required: true, autocomplete: "current-password" })),
  h("button", {}, t("Sign in"))) : null;
  const withProvider = ways.provider ? h("a", { class: "button", href: `/api/sign-in/provider/begin?place=${encodeURIComponent(location.hash.slice(1))}`, onclick: () => sessionStorage.setItem("place", location.hash.slice(1)) }, t("Sign in with {name}", { name: ways.provider })) : null;
  const withToken = h("form", { class: "fields", onsubmit: enter(({ token }) => begin(token.value.trim())) },
    h("label", {}, t("Token"), h("input", { name: "token", type: "password", required: true, autocomplete: "off" })),
    h("p", { class: "soft small" }, t("Whoever runs this server has it: it is printed when the server starts.")),
    h("button", { class: withPassword || withProvider ? "second" : null }, t("Sign in")));
  const others = withPassword || withProvider;
  main.replaceChildren(h("div", { class: "column sign-in" }, h("div", { class: "card" },
    h("h1", {}, "pg_graphrag"), problem, withProvider, withPassword,
    others ? h("details", {}, h("summary", { class: "small soft" }, t("With a token")), withToken) : withToken)));
  $("input", main)?.focus();
}

// Takes from the tab's storage what its caller left there.
export function empty() {
  sessionStorage.removeItem("place");
  for (const name of Object.keys(sessionStorage)) if (name.startsWith("why ")) sessionStorage.removeItem(name);
}

// The menu of who is signed in.
export function who() {
  const close = async () => {
    await request("DELETE", "/api/session").catch(() => {});
    empty();
    // Back may show this page as it was left.
    addEventListener("pageshow", () => location.reload());
    location.replace("/");
  };
  return h("details", { class: "who" }, h("summary", { "aria-label": t("Signed in as {name}", { name: session.name }) }, session.name.slice(0, 1).toUpperCase()),
    h("div", { class: "card" }, h("strong", {}, session.name),
      h("p", { class: "soft small" }, session.may.length ? t("may read and change") : t("may read")),
      session.csrf ? h("button", { class: "second small", type: "button", onclick: close }, t("Sign out")) : null));
}

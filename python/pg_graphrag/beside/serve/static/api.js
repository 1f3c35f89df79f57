// Requests to this server. Whatever changes something carries the session's CSRF token.

import { t } from "./i18n.js";

export const session = { corpus: null, may: [], modes: [], csrf: null, max_upload: 0, max_question: Infinity };

export class Refused extends Error {
  constructor(status, { message, detail = message, hint, code } = {}) {
    super(detail ?? t("The server answered {status}", { status: String(status) }));
    this.status = status;
    this.hint = hint;
    this.code = code;
  }
}

function lost(error) {
  throw error.name === "AbortError" ? error : new Refused(0, { message: t("The server cannot be reached") });
}

export async function request(method, path, { query, body, signal, headers } = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && value !== null) url.searchParams.set(name, value);
  const options = { method, signal, headers: { ...headers }, credentials: "same-origin" };
  if (session.csrf) options.headers["x-csrf-token"] = session.csrf;
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  const reply = await fetch(url, options).catch(lost);
  // The page shows the form; what was asked for stays in the address.
  if (reply.status === 401 && !path.startsWith("/api/sign-in") && !headers?.authorization) dispatchEvent(new Event("signed-out"));
  if (!reply.ok) throw new Refused(reply.status, await reply.json().catch(() => ({})));
  return reply;
}

const withCorpus = (query) => ({ corpus: session.corpus, ...query });

export const get = async (path, query, signal) => (await request("GET", path, { query: withCorpus(query), signal })).json();
export const post = async (path, body, signal) => (await request("POST", path, { body: { corpus: session.corpus, ...body }, signal })).json();
export const remove = async (path, corpus) => (await request("DELETE", path, { query: { corpus } })).json();
export const upload = async (form, signal, corpus) => (await request("POST", "/api/upload", { query: { corpus }, body: form, signal })).json();

// Server-sent events of a request: {event, data}, as they come.
export async function* events(method, path, options) {
  const reply = await request(method, path, options);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(lost);
      if (done) return;
      rest += value;
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = { event: "message", data: "" };
        for (const line of block.split("\n")) {
          const colon = line.indexOf(": ");
          if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
        }
        const data = JSON.parse(event.data);
        yield { event: event.event, data: event.event === "error" ? new Refused(data.status, data) : data };
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

export const ask = (body, signal) => events("POST", "/api/ask", { body: { corpus: session.corpus, ...body }, signal });
export const progress = (signal) => events("GET", "/api/status/events", { query: withCorpus(), signal });

export async function begin(token) {
  if (token) await request("POST", "/api/session", { headers: { authorization: `Bearer ${token}` } });
  const { corpus } = session;
  Object.assign(session, await (await request("GET", "/api/session")).json());
  session.corpus = corpus ?? session.corpus;
}

// The HTTP API by its own description: each route with its parameters and replies, and a form that sends it.

import { begin, request } from "/static/api.js";
import { $, h, refusal } from "/static/dom.js";

const MAX_SHOWN = 20_000;
let schemas = {};

const named = (schema) => (schema?.$ref ? schemas[schema.$ref.split("/").pop()] : schema) ?? {};

// A type in few words: what a reader needs to write one.
function typed(schema) {
  if (schema?.$ref) return schema.$ref.split("/").pop();
  if (schema?.anyOf) return schema.anyOf.map(typed).join(" or ");
  if (schema?.type === "array") return `list of ${typed(schema.items)}`;
  return schema?.enum?.map((value) => JSON.stringify(value)).join(" or ") ?? schema?.type ?? "any";
}

function fields(schema, depth = 0) {
  const parts = Object.entries(named(schema).properties ?? {});
  if (!parts.length || depth > 3) return null;
  return h("ul", { class: "small" }, parts.map(([name, part]) => h("li", {}, h("code", {}, name), ` ${typed(part)}`,
    part.description ? h("span", { class: "soft" }, ` ${part.description}`) : null, fields(part.items ?? part.anyOf?.find((one) => one.$ref) ?? part, depth + 1))));
}

// A body to begin with: what is required, each as its type.
function example(schema) {
  const whole = named(schema);
  const empty = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} };
  const value = (part) => (part.enum ?? [empty[named(part).type] ?? null])[0];
  return Object.fromEntries((whole.required ?? []).map((name) => [name, value(whole.properties[name])]));
}

async function send(event, method, path, operation, box) {
  event.preventDefault();
  const form = new FormData(event.target);
  const query = {};
  for (const { name, in: place } of operation.parameters ?? []) {
    const value = form.get(name);
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (value) query[name] = value;
  }
  box.replaceChildren(h("p", { class: "soft small", role: "status" }, "Loading …"));
  try {
    const files = form.getAll("files").filter((file) => file.size);
    const body = form.has("files") ? files.reduce((data, file) => (data.append("files", file), data), new FormData()) : form.get("body");
    const text = await (await request(method.toUpperCase(), path, { query, body: typeof body === "string" ? JSON.parse(body) : body ?? undefined })).text();
    box.replaceChildren(h("pre", { class: "card small lines", tabindex: "0" }, text.slice(0, MAX_SHOWN) + (text.length > MAX_SHOWN ? " …" : "")));
  } catch (error) {
    box.replaceChildren(refusal(error, () => event.target.requestSubmit()));
  }
}

function route(path, method, operation) {
  const content = operation.requestBody?.content ?? {};
  const body = content["application/json"]?.schema;
  const reply = Object.values(operation.responses["200"]?.content ?? {})[0]?.schema;
  const box = h("div", {});
  return h("details", { class: "card" },
    h("summary", {}, h("code", {}, `${method.toUpperCase()} ${path}`), h("span", { class: "soft" }, ` ${operation.description ?? operation.summary}`)),
    h("form", { onsubmit: (event) => send(event, method, path, operation, box) },
      (operation.parameters ?? []).map((one) => h("p", {}, h("label", { class: "row" }, h("code", {}, one.name),
        h("input", { name: one.name, required: one.required, placeholder: typed(one.schema) }), h("span", { class: "soft small" }, one.description)))),
      content["multipart/form-data"] ? h("p", {}, h("input", { type: "file", name: "files", multiple: true, "aria-label": "Files" })) : null,
      body ? [fields(body), h("textarea", { name: "body", rows: 5, class: "grow", "aria-label": "Body", value: JSON.stringify(example(body), null, 1) })] : null,
      h("p", {}, h("button", { type: "submit" }, "Send"))),
    box, reply ? [h("h3", {}, `Reply: ${typed(reply)}`), fields(reply.items ?? reply)] : null);
}

addEventListener("signed-out", () => location.replace("/"));

const column = h("div", { class: "column" });
$("#main").append(column);
try {
  await begin();
  const description = await (await request("GET", "/api/openapi.json")).json();
  schemas = description.components.schemas;
  const byTag = {};
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) (byTag[operation.tags?.[0] ?? "others"] ??= []).push(route(path, method, operation));
  }
  column.append(h("h1", {}, `HTTP API, ${description.info.version}`),
    h("p", { class: "soft" }, "Programs send the header Authorization: Bearer TOKEN. Here your session is used: what is sent is done."),
    ...Object.entries(byTag).map(([tag, routes]) => h("section", {}, h("h2", {}, tag), routes)));
} catch (error) {
  column.append(refusal(error, () => location.reload()));
}

// Entities and relationships are made, changed, merged and deleted here, each with undo.

import { post, remove, session } from "./api.js";
import { complain, h, toast } from "./dom.js";
import { named, nameBox } from "./graph-names.js";
import { t } from "./i18n.js";

export const mayCurate = () => session.may.includes("curate");

// Makes changes in turn; then `shown(name)` shows the entity of this name (null: none is left), also after they are undone.
async function change(steps, shown, name, before) {
  const { corpus } = session;
  const isShown = () => session.corpus === corpus;
  const made = [];
  try {
    for (const [kind, values] of steps) made.push((await post("/api/curations", { corpus, kind, arguments: values })).id);
  } catch (error) {
    complain(error);
    if (!made.length) return;
  }
  const undo = async () => {
    for (const id of made.toReversed()) await remove(`/api/curations/${id}`, corpus);
    if (isShown()) await shown(before);
    toast(t("Undone"));
  };
  if (isShown()) await shown(name).catch(complain);
  toast(t("Done"), { label: t("Undo"), run: () => undo().catch(complain) });
}

const field = (label, input) => h("label", {}, label, input);
const area = (name, value = "") => h("textarea", { name, rows: 3, value });
const submit = (work) => (event) => { event.preventDefault(); work(event.target.elements); };
const list = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);

// shown(name): see `change`. types: those there are, for completion.
export function entityForms(one, types, shown) {
  const save = submit(({ name, type, description }) => {
    const steps = [];
    const value = name.value.trim() || one.name;
    const edits = { entity: one.name };
    if (type.value.trim() && type.value.trim() !== one.type) edits.type = type.value.trim();
    if (description.value.trim() !== one.description.trim()) edits.description = description.value.trim();
    if (Object.keys(edits).length > 1) steps.push(["edit_entity", edits]);
    if (value !== one.name) steps.push(["rename_entity", { entity: one.name, new_name: value }]);
    if (steps.length) change(steps, shown, value, one.name);
    else toast(t("Nothing has changed."));
  });
  const merge = submit(({ target }) => change([["merge_entities", { entities: [one.name], target: target.value.trim() }]], shown, target.value.trim(), one.name));
  return h("details", { class: "edit" }, h("summary", { class: "small" }, t("Change this entity")),
    h("form", { class: "fields", onsubmit: save },
      field(t("Name"), h("input", { name: "name", value: one.name, required: true })), typeField(one.type, types),
      field(t("Description"), area("description", one.description)),
      h("div", { class: "row" }, h("button", { class: "small" }, t("Save")))),
    h("form", { class: "fields", onsubmit: merge },
      h("span", { class: "small soft" }, t("Is the same as another entity, which keeps its name:")),
      h("div", { class: "row" }, nameBox({ name: "target", label: t("Merge into the entity"), required: true }), h("button", { class: "second small" }, t("Merge")))),
    h("div", { class: "row" }, h("button", { class: "danger small", type: "button", onclick: () => change([["delete_entity", { entity: one.name }]], shown, null, one.name) }, t("Delete this entity"))));
}

let typeLists = 0;
function typeField(value, types) {
  const id = `types-${(typeLists += 1)}`;
  return field(t("Type"), h("span", { class: "wrap" }, h("input", { name: "type", value, list: id, autocomplete: "off" }), h("datalist", { id }, types.map((type) => h("option", { value: type })))));
}

export function newEntity(types, shown) {
  const save = submit(({ name, type, description }) => {
    const values = { name: name.value.trim(), type: type.value.trim() || "UNKNOWN", description: description.value.trim() };
    if (values.name) change([["create_entity", values]], shown, values.name, null);
  });
  return h("details", { class: "edit" }, h("summary", { class: "small" }, t("New entity")),
    h("form", { class: "fields", onsubmit: save },
      field(t("Name"), h("input", { name: "name", required: true })), typeField("", types), field(t("Description"), area("description")),
      h("div", { class: "row" }, h("button", { class: "small" }, t("Create")))));
}

// of: the entity that the relationships are shown of.
export function newRelationship(of, shown) {
  const save = submit(async ({ other, keywords, description }) => {
    const target = await named(other.value).catch(() => null);
    if (!target) return toast(t("There is no entity called “{name}”.", { name: other.value }));
    const values = { source: of.name, target: target.name, keywords: list(keywords.value), description: description.value.trim() };
    return change([["create_relationship", values]], shown, of.name, of.name);
  });
  return h("details", { class: "edit" }, h("summary", { class: "small" }, t("New relationship")),
    h("form", { class: "fields", onsubmit: save },
      field(t("With the entity"), nameBox({ name: "other", label: t("With the entity"), placeholder: "", required: true })),
      field(t("Keywords, with commas between"), h("input", { name: "keywords" })), field(t("Description"), area("description")),
      h("div", { class: "row" }, h("button", { class: "small" }, t("Create")))));
}

// edge: {keywords, description, weight}; source and target: names.
export function relationshipForm(edge, source, target, of, shown) {
  const before = (edge.keywords ?? []).join(", ");
  const save = submit(({ keywords, description, weight }) => {
    const values = { source, target };
    if (keywords.value.trim() !== before) values.keywords = list(keywords.value);
    if (description.value.trim() !== (edge.description ?? "").trim()) values.description = description.value.trim();
    if (Number(weight.value) !== Number(edge.weight)) values.weight = Number(weight.value);
    if (Object.keys(values).length > 2) change([["edit_relationship", values]], shown, of.name, of.name);
    else toast(t("Nothing has changed."));
  });
  return h("details", { class: "edit" }, h("summary", { class: "small", "aria-label": t("Change the relationship of {source} and {target}", { source, target }) }, t("Change")),
    h("form", { class: "fields", onsubmit: save },
      field(t("Keywords, with commas between"), h("input", { name: "keywords", value: before })), field(t("Description"), area("description", edge.description ?? "")),
      field(t("Weight"), h("input", { name: "weight", type: "number", step: "any", min: "0", value: String(Number(edge.weight)) })),
      h("div", { class: "row" }, h("button", { class: "small" }, t("Save")),
        h("button", { class: "danger small", type: "button", onclick: () => change([["delete_relationship", { source, target }]], shown, of.name, of.name) }, t("Delete")))));
}

// The page's words in the reader's language. Keys are the English sentences, so that the code reads as the page does;
// words/LANGUAGE.json has the others. A key without translation is shown in English.

const LANGUAGES = ["de", "ja", "zh"];
let words = {};

export const language = (localStorage.getItem("language") ? [localStorage.getItem("language")] : navigator.languages)
  .map((name) => name.split("-")[0]).find((name) => name === "en" || LANGUAGES.includes(name)) ?? "en";

export async function load() {
  document.documentElement.lang = language;
  if (language !== "en") words = await (await fetch(`/static/words/${language}.json`)).json().catch(() => ({}));
}

// The sentence with its values in place of {name}. Numbers are written as the language does.
export function t(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (all, name) => {
    const value = values[name];
    return typeof value === "number" ? value.toLocaleString(language) : String(value ?? all);
  });
}

// Of two sentences, for one and for many, the one for this count.
export const tn = (count, one, many, values = {}) => t(new Intl.PluralRules(language).select(count) === "one" ? one : many, { count, ...values });

// Texts that stand in the HTML: of elements marked `data-t`, their text and their names for screen readers.
export function translate(root) {
  for (const element of root.querySelectorAll("[data-t]")) {
    if (!element.children.length && /\p{L}/u.test(element.textContent)) element.textContent = t(element.textContent.trim());
    for (const name of ["aria-label", "title", "placeholder"]) if (element.hasAttribute(name)) element.setAttribute(name, t(element.getAttribute(name)));
  }
}

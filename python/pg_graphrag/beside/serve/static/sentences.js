// Which sentence of a text says what is asked or cited. Works for scripts without spaces: Intl.Segmenter knows their words.

const segments = (text, granularity) =>
  typeof Intl.Segmenter === "function"
    ? new Intl.Segmenter(undefined, { granularity }).segment(text)
    : text.match(granularity === "word" ? /[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu : /[^.!?。！？\n]+[.!?。！？\n]*/gu).map((segment) => ({ segment }));

export function words(text) {
  const found = new Set();
  for (const { segment } of segments(text.toLowerCase(), "word")) {
    if (/[\p{L}\p{N}]/u.test(segment)) found.add(segment.length > 4 ? segment.replace(/(ing|ed|es|s)$/u, "") : segment);
  }
  return found;
}

const COMMON = words("a an and are as at be been but by can did do does for from had has have he her his how i in is it its may not of on or she so than that the their there these they this to was we were what when where which who why will with would you は が を に の と で も か 的 了 是 在 和");

// [{start, end, text}]: sentences, with lines as limits, since headings and list items have no full stop.
export function sentences(text) {
  const found = [];
  let start = 0;
  for (const line of text.split("\n")) {
    let at = start;
    for (const { segment } of line ? segments(line, "sentence") : []) {
      const end = at + segment.trimEnd().length;
      if (end > at) found.push({ start: at, end, text: text.slice(at, end) });
      at += segment.length;
    }
    start += line.length + 1;
  }
  return found;
}

// The sentence of a text that shares most with what is sought; rare words of the text count most. Null: none shares a word.
export function nearest(text, sought) {
  const wanted = [...words(sought)].filter((word) => !COMMON.has(word));
  const parts = sentences(text).map((sentence) => ({ ...sentence, words: words(sentence.text) }));
  const weight = new Map(wanted.map((word) => [word, Math.log(1 + parts.length / (1 + parts.filter((part) => part.words.has(word)).length))]));
  let best = null;
  for (const part of parts) {
    const shared = wanted.reduce((sum, word) => sum + (part.words.has(word) ? weight.get(word) : 0), 0);
    const score = shared / Math.sqrt(8 + part.words.size);
    if (shared > 0 && (best === null || score > best.score)) best = { ...part, score };
  }
  return best;
}

// Threads: conversations that this browser keeps, of each caller and corpus. A thread: {id, at, turns}, a turn: {question,
// settings, answer, citations, usage, context, isStopped, error}.

import { session } from "./api.js";

const MOST = 50;
// Characters of all threads of a corpus. A browser has room for five million of a server.
const ROOM = 1_200_000;
const HISTORY_TURNS = 20;
const HISTORY = 60_000;

const key = () => `threads/${session.name}/${session.corpus}`;

export const all = () => read(key());
export const find = (id) => all().find((thread) => thread.id === id);
export const begin = () => ({ id: Date.now().toString(36), key: key(), turns: [] });
export const name = (thread) => thread.turns[0]?.question ?? "";

// Puts a thread first. Where there is no room, old contexts go before old threads.
export function keep(thread) {
  if (thread.isForgotten) return;
  const kept = [{ ...thread, at: Date.now() }, ...read(thread.key).filter(({ id }) => id !== thread.id)].slice(0, MOST);
  while (!write(thread.key, kept)) {
    const withContext = kept.flatMap(({ turns }) => [...turns].reverse()).filter((turn) => turn.context);
    if (withContext.length) {
      const oldest = withContext.at(-1);
      kept.forEach((one) => { one.turns = one.turns.map((turn) => (turn === oldest ? { ...turn, context: null } : turn)); });
    } else if (kept.length > 1) kept.pop();
    else return;
  }
}

export const forget = (id) => write(key(), all().filter((thread) => thread.id !== id));

// The turns as the server takes them, the latest that have room. Numbers of sources mean nothing to the next answer.
export function history(turns) {
  const answered = turns.filter((turn) => turn.answer).slice(-HISTORY_TURNS);
  const said = answered.map(({ question, answer, citations = [] }) => [
    { role: "user", content: question },
    { role: "assistant", content: citations.reduce((text, { number }) => text.replaceAll(new RegExp(` ?\\[${number}\\]`, "g"), ""), answer) },
  ]);
  while (JSON.stringify(said).length > HISTORY) said.shift();
  return said.flat();
}

function read(place) {
  try {
    return JSON.parse(localStorage.getItem(place)) ?? [];
  } catch {
    return [];
  }
}

function write(place, threads) {
  const text = JSON.stringify(threads);
  if (text.length > ROOM) return false;
  try {
    localStorage.setItem(place, text);
  } catch {
    return false;
  }
  return true;
}

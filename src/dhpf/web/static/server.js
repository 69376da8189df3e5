// Talking to the server and to the person.

import { $ } from "./drawing.js";

const PATIENCE = 5; // how often a busy server is asked again

export async function ask(path, options = {}) {
  for (let attempt = 0; ; attempt++) {
    const answer = await fetch(path, options).catch(() => { throw new Error("The server does not answer; is it still running?"); });
    if (answer.ok) return answer;
    const { error } = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    if (answer.status !== 503 || attempt === PATIENCE) throw new Error(`${error}.`);
    say("The server is busy with other photos; waiting for it.");
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(answer.headers.get("Retry-After") ?? 2)));
  }
}

export const post = (path, content) => ask(path, { method: "POST", body: JSON.stringify(content) });

export function say(text, bad = false) {
  $("#message").textContent = text;
  $("#message").classList.toggle("bad", bad);
}

// Run something that may fail; what it throws is a sentence for the person.
export const guarded = (work) => async (...given) => {
  try { await work(...given); } catch (error) { say(error.message, true); }
};

export function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

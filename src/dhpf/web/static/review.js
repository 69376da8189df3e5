// The review: photos one after the other, least sure first. All points are pixels of the original photos, x then y.

import { $, button, drawPoint, element, onScreen, pixelAt, useScale, within } from "./drawing.js";
import { dragging } from "./dragging.js";
import { ask, guarded, post, save, say } from "./server.js";

const STEP = 0.01; // of the photo's longer side, for an arrow key; with Shift a tenth of it
const POLL = 1000; // milliseconds between questions how far predictions are
const KEYS = { n: "#next", p: "#previous", x: "#absent", Delete: "#absent", z: "#undo", r: "#other", a: "#predict" };

const state = {
  review: null, // what the server says of all photos
  photo: null, // that is shown: {index, name, width, height, status, version, objects}
  reference: null, // the same of the photo beside it
  selected: 0, // of the photo's points
  referred: 0, // which reference
};
const versions = {}; // of photos, by index: what a change refers to

// One thing after the other: what is sent later refers to what was answered before.
let queue = Promise.resolve();
const inTurn = (work) => (queue = queue.then(guarded(work)));

const address = (index, what = "") => `/api/review/photos/${index}${what}`;

// Every keypoint of every object: {object, keypoint, at, shown, score, name}
const pointsOf = (photo) => (photo?.objects ?? []).flatMap(({ keypoints, scores, names }, object) =>
  keypoints.map(([x, y, v], keypoint) => ({ object, keypoint, at: [x, y], shown: v > 0, score: scores?.[keypoint], name: names[keypoint] })));
const selected = () => pointsOf(state.photo)[state.selected];

// ---- photos

async function show(index) {
  await use(await (await ask(address(index))).json());
  const shown = pointsOf(state.photo);
  const scores = shown.map(({ shown, score }) => (shown ? score ?? 1 : 2));
  state.selected = Math.max(0, scores.indexOf(Math.min(...scores))); // the least sure one
  history.replaceState(null, "", `#${index}`); // for when the page is loaded again
  await showReference();
  draw();
}

async function use(photo) {
  versions[photo.index] = photo.version;
  if (state.review) state.review.status[photo.index] = photo.status;
  state.review.can_undo = photo.can_undo;
  state.photo = photo;
  fill("target", photo);
  draw();
}

function fill(side, photo) {
  const [box, image, path] = [$(`#${side} .photo`), $(`#${side} .photo img`), photo && address(photo.index, "/image")];
  $(`#${side} .name`).textContent = photo?.name ?? "";
  box.classList.toggle("filled", Boolean(photo));
  image.hidden = !photo;
  if (!photo || image.getAttribute("src") === path) return;
  box.style.setProperty("--shape", photo.width / photo.height);
  Object.assign(image, { src: path, alt: `${side === "target" ? "Photo" : "Reference"}: ${photo.name}` });
}

// A reference of the same category; never the photo itself.
async function showReference() {
  const known = state.review.references.filter((index) => index !== state.photo.index);
  const category = state.photo.objects[selected()?.object ?? 0]?.category;
  let found = null;
  for (let tried = 0; tried < known.length && !found; tried++) {
    const index = known[(state.referred + tried) % known.length];
    const given = state.reference?.index === index && state.reference.version === versions[index]
      ? state.reference : await (await ask(address(index))).json();
    versions[index] = given.version;
    if (!category || given.objects.some((one) => one.category === category)) {
      found = given;
      state.referred = (state.referred + tried) % known.length;
    }
  }
  state.reference = found;
  fill("source", found);
  $("#other").disabled = known.length < 2;
}

async function step(by) {
  const { order } = state.review;
  const place = order.indexOf(state.photo.index) + by;
  if (place < 0 || place >= order.length) return say(by > 0 ? "This is the last photo." : "This is the first photo.");
  await show(order[place]);
  say("");
}

async function confirm() {
  const { index } = state.photo;
  await use(await (await post(address(index, "/confirm"), { version: versions[index] })).json());
  if (!state.review.references.includes(index)) state.review.references.push(index);
  const { order, status } = state.review;
  const place = order.indexOf(index);
  const next = [...order.slice(place + 1), ...order.slice(0, place)].find((one) => status[one] !== "reviewed");
  if (next === undefined) return say("All photos are reviewed.");
  await show(next);
  say("Confirmed.");
}

// ---- points

let waiting = null; // a change that is not sent yet: what comes meanwhile is sent with it

function change(point, at) {
  const { index, objects } = state.photo;
  const row = objects[point.object].keypoints[point.keypoint];
  if (at) row.splice(0, 3, ...at, row[2] || 2);
  else row[2] = 0;
  draw();
  const { object, keypoint } = point;
  if (waiting && waiting.index === index && waiting.object === object && waiting.keypoint === keypoint) {
    waiting.at = at;
    return;
  }
  const mine = waiting = { index, object, keypoint, at };
  inTurn(async () => {
    if (waiting === mine) waiting = null;
    try {
      const answer = await (await post(address(index, "/point"), { object, keypoint, at: mine.at, version: versions[index] })).json();
      versions[index] = answer.version;
      if (state.photo.index === index && !waiting) await use(answer);
      say(mine.at ? `${point.name} moved.` : `${point.name} is absent.`);
    } catch (error) {
      if (state.photo.index === index) await use(await (await ask(address(index))).json());
      throw error;
    }
  });
}

function toggleAbsent() {
  const point = selected();
  if (!point) return;
  const known = point.at.some((value) => value !== 0);
  const middle = [(state.photo.width - 1) / 2, (state.photo.height - 1) / 2];
  change(point, point.shown ? null : known ? point.at : middle);
}

function choose(index) {
  const count = pointsOf(state.photo).length;
  if (!count) return;
  const before = selected()?.object;
  state.selected = (index + count) % count;
  draw();
  if (selected().object !== before) inTurn(async () => { await showReference(); draw(); });
}

function nudge(key, fine) {
  const point = selected();
  if (!point?.shown) return;
  const [right, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const size = Math.max(state.photo.width, state.photo.height) * STEP * (fine ? 0.1 : 1);
  change(point, within(state.photo, [point.at[0] + right * size, point.at[1] + down * size]));
}

const undo = () => inTurn(async () => {
  const photo = await (await post("/api/review/undo", {})).json();
  versions[photo.index] = photo.version;
  const references = new Set(state.review.references);
  references[photo.status === "reviewed" ? "add" : "delete"](photo.index);
  state.review.references = [...references];
  if (photo.index === state.photo.index) await use(photo);
  else await show(photo.index);
  say("Taken back.");
});

// ---- predictions and files

const predict = () => inTurn(async () => {
  const { total } = await (await post("/api/review/predict", {})).json();
  say(total ? `Predicting ${total} photos again ...` : "No photo is left to predict: all were looked at.");
  if (total) poll();
});

let polls = 0;
async function poll() {
  const mine = ++polls;
  while (mine === polls) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    const review = await ask("/api/review").then((answer) => answer.json()).catch(() => null);
    if (!review || mine !== polls) return;
    if (review.predicting) { say(`Predicting again: ${review.predicting.done} of ${review.predicting.total} photos.`); continue; }
    inTurn(async () => {
      state.review = review;
      if (state.photo.status === "predicted") await show(state.photo.index);
      draw();
      say(`Predicted again from ${review.references.length} reviewed photos${review.failed ? `; ${review.failed} photos cannot be read` : ""}. Least sure first.`);
    });
    return;
  }
}

const download = guarded(async () => {
  const answer = await ask(`/api/review/export/${$("#format").value}`);
  const name = answer.headers.get("Content-Disposition").match(/"(.*)"/)[1];
  const lost = answer.headers.get("Dhpf-Lost");
  save(await answer.blob(), name);
  say(lost ? `Saved as ${name}; ${lost}.` : `Saved as ${name}.`);
});

// ---- showing

function draw() {
  const { photo, reference, review } = state;
  if (!photo) return;
  const [overlay, point] = [$("#overlay"), selected()];
  const { left, top } = $("#stage").getBoundingClientRect();
  overlay.replaceChildren();
  const marks = (side, shown, wanted) => {
    const place = (at) => { const [x, y] = onScreen(side, shown, at); return [x - left, y - top]; };
    for (const { polygons } of shown.objects) for (const polygon of polygons) {
      for (const kind of ["edge", "core"]) element(overlay, "polygon", { class: `outline ${kind}`, points: polygon.map(place).join(" ") });
    }
    const all = pointsOf(shown).map((one, i) => ({ ...one, i, chosen: wanted(one, i) }));
    for (const one of all.filter(({ shown }) => shown).sort((a, b) => a.chosen - b.chosen)) {
      drawPoint(overlay, side, one.i, place(one.at), one.score ?? 1, one.chosen, one.keypoint + 1);
    }
  };
  const category = photo.objects[point?.object]?.category;
  if (reference && $("#source img").complete) {
    marks("source", reference, (one) => reference.objects[one.object].category === category && one.keypoint === point?.keypoint);
  }
  if ($("#target img").complete) marks("target", photo, (_, i) => i === state.selected);
  showPoints(photo);
  const done = review.status.filter((status) => status === "reviewed").length;
  Object.assign($("#progress"), { value: done, max: review.status.length });
  $("#count").textContent = `${done} of ${review.status.length} reviewed`;
  $("#status").textContent = { predicted: "not reviewed", changed: "changed, not confirmed", reviewed: "reviewed" }[photo.status];
  $("#status").className = photo.status;
  $("#undo").disabled = !review.can_undo;
  $("#absent").disabled = !point;
  $("#absent").textContent = point && !point.shown ? "Mark as there" : "Mark absent";
}

function showPoints(photo) {
  const held = [...$("#points").querySelectorAll("button")].indexOf(document.activeElement); // the focus must not be lost
  const chips = pointsOf(photo).map((point, i) => {
    const said = !point.shown ? "absent" : point.score === undefined || point.score === 1 ? "by hand" : point.score.toFixed(2);
    const whose = photo.objects.length > 1 ? `${photo.objects[point.object].category} ${point.object + 1}: ` : "";
    const chip = button("", `${whose}${point.name}, ${said}`, (event) => { choose(i); leave(event); });
    const [number, name, score] = [["b", point.keypoint + 1], ["span", whose + point.name], ["small", said]].map(([kind, text]) =>
      Object.assign(document.createElement(kind), { textContent: text }));
    chip.append(number, name, score);
    chip.classList.toggle("gone", !point.shown);
    chip.setAttribute("aria-pressed", i === state.selected);
    return chip;
  });
  $("#points").replaceChildren(...chips);
  chips[held]?.focus();
}

// ---- what the person does

// After a click with the pointer the keys belong to the photo again.
const leave = (event) => { if (event.detail) $("#target .photo").focus({ preventScroll: true }); };

function press(event) {
  const control = event.target.closest("button, select, a, input");
  if (event.altKey || ((event.ctrlKey || event.metaKey) && event.key !== "z") || control?.matches("select")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key.startsWith("Arrow")) nudge(key, event.shiftKey);
  else if (key === "Enter" && !control) $("#confirm").click();
  else if (key === "." || key === ",") choose(state.selected + (key === "." ? 1 : -1));
  else if (/^[1-9]$/.test(key)) { if (Number(key) <= pointsOf(state.photo).length) choose(Number(key) - 1); }
  else if (key in KEYS) $(KEYS[key]).click();
  else return;
  event.preventDefault();
}

function listen() {
  document.onkeydown = (event) => { if (state.photo) press(event); };
  document.ondragstart = (event) => event.preventDefault();
  const acts = {
    next: () => inTurn(() => step(1)), previous: () => inTurn(() => step(-1)), confirm: () => inTurn(confirm), absent: toggleAbsent,
    undo, predict, export: download, other: () => inTurn(async () => { state.referred++; await showReference(); draw(); }),
  };
  for (const [id, act] of Object.entries(acts)) $(`#${id}`).onclick = (event) => { act(); leave(event); };
  const photo = $("#target .photo");
  const ends = () => pointsOf(state.photo).map(({ at, shown }) => (shown ? onScreen("target", state.photo, at) : null));
  dragging(photo, ends, {
    grab: choose,
    move: (index, event) => {
      const { object, keypoint } = pointsOf(state.photo)[index];
      state.photo.objects[object].keypoints[keypoint].splice(0, 2, ...pixelAt("target", state.photo, event));
      draw();
    },
    drop: (index, event) => change(pointsOf(state.photo)[index], pixelAt("target", state.photo, event)),
  });
  photo.onclick = (event) => { if (selected() && !selected().shown) change(selected(), pixelAt("target", state.photo, event)); };
  for (const image of document.querySelectorAll("#stage img")) image.onload = draw;
  new ResizeObserver(draw).observe($("#stage"));
}

inTurn(async () => {
  state.review = await (await ask("/api/review")).json();
  const { order, status, formats, file, scale, predicting } = state.review;
  useScale(scale);
  for (const format of formats) $("#format").append(new Option(format, format));
  $("#file").textContent = `Every change is kept in ${file}`;
  listen();
  const before = Number(location.hash.slice(1) || NaN);
  await show(order.includes(before) ? before : order.find((one) => status[one] !== "reviewed") ?? order[0]);
  $("#target .photo").focus({ preventScroll: true });
  if (predicting) poll();
});

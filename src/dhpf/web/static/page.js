// The page: what was chosen, and what the server said of it. All points are pixels of the original photos, x then y.

import { $, draw, drawHeat, endOf, onScreen, pixelAt, showLayers, showTable, spot, useScale, view, within } from "./drawing.js";
import { dragging } from "./dragging.js";
import { ask, guarded, post, save, say } from "./server.js";

const NEAR = 12; // pixels of the screen: a click on a point that is there
const STEP = 0.02; // of the photo, for an arrow key; with Shift a fifth of it
const SIDES = ["source", "target"];
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

let setup = { models: [], limits: { upload_bytes: Infinity, points: Infinity } };
const state = {
  photos: {}, // of each side {id, name, width, height}
  match: null, // {match: its id, model, input_size, layer_count, has_heat; layers, layer_probability where the method has them}
  points: [], // on the source
  known: [], // what the person said of each: {name}, and {target, confidence} of a match that was not found but given
  least: 0, // matches of lower confidence are absent
  found: null, // what the server says of these points
  selected: -1, // the point of the heat map
  cursor: null, // of the keyboard, on the source
};
let asked = 0; // counts what is asked, so that a late answer does not replace a newer one

const about = (what) => `/api/match/${state.match.match}/${what}`;

async function working(work) {
  $("#target .photo").classList.add("working");
  try { return await work(); } finally { $("#target .photo").classList.remove("working"); }
}

// ---- choosing photos and matching them

const choosePhoto = guarded(async (side, file) => {
  if (file.size > setup.limits.upload_bytes) {
    throw new Error(`${file.name} is too large: at most ${Math.floor(setup.limits.upload_bytes / 2 ** 20)} MB.`);
  }
  say(`Reading ${file.name} ...`);
  const path = `/api/photos/${side}?name=${encodeURIComponent(file.name)}`;
  await usePhotos(await (await ask(path, { method: "PUT", body: file })).json());
});

const chooseSample = guarded(async (pair) => {
  say(`Reading the sample pair ${pair} ...`);
  await usePhotos(await (await post("/api/sample", { pair })).json());
});

const swap = guarded(async () => {
  const { source, target } = state.photos;
  const pairs = state.points.map((point, i) => ({ point, end: endOf(state, i), name: state.known[i].name })).filter(({ end }) => end);
  const known = pairs.map(({ point, end, name }) => ({ name, ...(end.given && { target: point, confidence: end.confidence }) }));
  await usePhotos({ source: target, target: source }, pairs.map(({ end }) => within(target, end.point)), null, known);
});

async function usePhotos(given, points = [], match = null, known = points.map(() => ({}))) {
  Object.assign(state.photos, given);
  Object.assign(state, { match: null, points, known, found: null, selected: points.length - 1, cursor: null });
  for (const [side, { id, name, width, height }] of Object.entries(given)) {
    $(`#${side} .name`).textContent = `${name}, ${width} × ${height}`;
    $(`#${side} .photo`).style.setProperty("--shape", width / height);
    $(`#${side} .photo`).classList.add("filled");
    Object.assign($(`#${side} .photo img`), { src: `/api/photos/${id}`, alt: `${side} photo: ${name}`, hidden: false });
  }
  await show();
  const missing = SIDES.find((side) => !state.photos[side]);
  if (missing) say(`Now choose the ${missing} photo.`);
  else await (match ? useMatch(match) : matchPhotos());
}

async function matchPhotos() {
  say("Matching ...");
  const mine = ++asked;
  const content = { source: state.photos.source.id, target: state.photos.target.id, model: $("#model").value };
  state.match = null;
  const match = await working(async () => (await post("/api/match", content)).json());
  if (mine === asked) await useMatch(match);
}

async function useMatch(match) {
  state.match = match;
  showLayers(match, setup.models.find(({ name }) => name === match.model).label);
  $("#views input[value=heat]").parentElement.hidden = !match.has_heat;
  if (view() === "heat" && !match.has_heat) $("#views input[value=lines]").checked = true;
  say(`Matched at ${match.input_size.join(" × ")} pixels. Click a point on the source photo, or let some be suggested.`);
  await update();
}

// ---- points

// Ask where the points lie on the target, and show it.
async function update() {
  await show();
  if (!state.match) return;
  const mine = ++asked;
  const answer = await (await post(about("points"), { points: state.points })).json();
  if (mine !== asked) return;
  state.found = answer;
  await show();
}

function checkRoom() {
  if (state.points.length >= setup.limits.points) throw new Error(`That is enough: at most ${setup.limits.points} points.`);
}

const addPoint = guarded(async (point, known = {}) => {
  if (!state.match) return;
  checkRoom();
  const count = state.points.length + 1;
  state.points.push(point);
  state.known.push(known);
  state.selected = count - 1;
  await update();
  const end = endOf(state, count - 1);
  if (state.points.length !== count || !end) return;
  say(`Point ${count}: ${spot(point)} lies at ${spot(end.point)} on the target, confidence ${end.confidence.toFixed(3)}${end.absent ? ": absent" : ""}.`);
});

// A click on the target: where does that lie on the source?
const addReverse = guarded(async (end) => {
  if (!state.match) return;
  checkRoom();
  const match = state.match.match;
  say("Looking for that point on the source ...");
  const { points, confidence } = await working(async () => (await post(about("reverse"), { points: [end] })).json());
  if (state.match?.match === match) await addPoint(points[0], { target: end, confidence: confidence[0] });
});

// A match is put where it belongs.
const correct = guarded(async (index, target) => {
  Object.assign(state.known[index], { target, confidence: null });
  say(`Point ${index + 1} is corrected: it lies at ${spot(target)} on the target.`);
  await show();
});

const loadPoints = guarded(async (file) => {
  if (!state.match) throw new Error("Choose two photos first: the points are those of the source.");
  const answer = await ask(`${about("file")}?name=${encodeURIComponent(file.name)}`, { method: "PUT", body: file });
  const { points, names } = await answer.json();
  await usePoints(points, `${points.length} points from ${file.name}.`, points.map((_, i) => (names ? { name: names[i] } : {})));
});

const removePoint = guarded(async (index) => {
  const { points, found } = state;
  for (const list of [points, state.known, found?.target_points, found?.confidence]) list?.splice(index, 1);
  state.selected = points.length - 1;
  say(points.length ? `Removed; ${points.length} left.` : "No points left.");
  await update();
});

const usePoints = guarded(async (points, sentence, known = points.map(() => ({}))) => {
  Object.assign(state, { points, known, found: null, selected: Math.min(0, points.length - 1) });
  say(sentence);
  await update();
});

const select = guarded(async (index) => {
  state.selected = index;
  await show();
});

// ---- showing

async function show() {
  const { photos, match, points, selected } = state;
  const [shape, whole] = [view(), view() === "flow" && match];
  $("#stage").className = shape;
  $("#whole").hidden = !whole;
  $("#source").hidden = $("#target").hidden = whole;
  $("#slider").hidden = $("#warped").hidden = shape !== "warp" || !match;
  $("#heat").hidden = shape !== "heat" || !match || selected < 0;
  for (const id of ["#suggest", "#png", "#json", "#swap"]) $(id).disabled = !match;
  for (const id of ["#undo", "#clear"]) $(id).disabled = !points.length;
  $("#forget").disabled = !photos.source && !photos.target;
  $("#matches").hidden = !points.length;
  $("#layers").hidden = !match?.layers;
  $("#least + output").textContent = state.least.toFixed(2);
  draw(state);
  showTable(state, select, removePoint);
  if (!match) return;
  sessionStorage.setItem("shown", JSON.stringify({ of: match.match, points, known: state.known, least: state.least, shape })); // for when the page is loaded again
  if (shape === "warp") await showPicture($("#warped"), "warped", () => ask(about("warped")));
  if (shape === "flow") await showPicture($("#whole img"), "flow", () => post(about("picture"), { view: "flow" }));
  if (shape === "heat" && selected >= 0) await showHeat();
}

// Do something once for each thing that is to be shown; tell it whether that is still wanted.
async function once(element, wanted, work) {
  if (element.dataset.shows === wanted) return;
  element.dataset.shows = wanted;
  try {
    await work(() => element.dataset.shows === wanted);
  } catch (error) {
    element.dataset.shows = "";
    throw error;
  }
}

const showPicture = (image, what, request) => once(image, about(what), async (wanted) => {
  const blob = await working(async () => (await request()).blob());
  if (!wanted()) return;
  URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(blob);
});

const showHeat = () => once($("#heat"), JSON.stringify([state.match.match, state.points[state.selected]]), async (wanted) => {
  const heat = await (await post(about("heat"), { points: [state.points[state.selected]] })).json();
  if (wanted()) drawHeat(heat);
});

// ---- downloads

const savePicture = guarded(async () => {
  const shape = view();
  if (shape === "heat" && state.selected < 0) throw new Error("Click a point first: a heat map is of one point.");
  const content = { view: shape, points: [state.points[state.selected]] };
  if (shape === "lines") { // as they are seen: corrected, named, without those that are absent
    const there = state.points.map((point, i) => ({ point, end: endOf(state, i), name: state.known[i].name ?? `${i + 1}` })).filter(({ end }) => end && !end.absent);
    content.points = there.map(({ point }) => point);
    content.matches = there.map(({ end: { point, confidence } }) => [...point, confidence]);
    content.names = there.map(({ name }) => name);
  }
  const answer = await working(() => post(about("picture"), content));
  save(await answer.blob(), `dhpf-${shape}.png`);
});

// What the server says, with what the person said: a match that is absent has no place.
const saveNumbers = guarded(async () => {
  const found = await (await post(about("points"), { points: state.points })).json();
  const ends = state.points.map((_, i) => endOf({ ...state, found }, i));
  found.target_points = ends.map(({ point, absent }) => (absent ? null : point));
  found.confidence = ends.map(({ confidence }) => confidence);
  if (state.least) found.min_confidence = state.least;
  if (ends.some(({ given }) => given)) found.given = ends.map(({ given }) => given);
  if (state.known.some(({ name }) => name)) found.names = state.known.map(({ name }, i) => name ?? `${i + 1}`);
  save(new Blob([JSON.stringify(found)], { type: "application/json" }), "dhpf-match.json");
});

// ---- what the person does

function place(event) {
  const { photos: { source }, points } = state;
  if (!source) return;
  const apart = ([x, y]) => Math.hypot(x - event.clientX, y - event.clientY);
  const near = points.findIndex((point) => apart(onScreen("source", source, point)) < NEAR);
  state.cursor = null;
  if (view() === "heat" && near >= 0) select(near);
  else addPoint(pixelAt("source", source, event));
}

function press(event) {
  const { photos: { source }, points } = state;
  if (!source || ![...Object.keys(MOVES), "Enter", "Delete", "Backspace"].includes(event.key)) return;
  event.preventDefault();
  const [x, y] = state.cursor ?? middle(source);
  if (event.key in MOVES) {
    const step = event.shiftKey ? STEP / 5 : STEP;
    const [right, down] = MOVES[event.key];
    state.cursor = within(source, [x + right * step * source.width, y + down * step * source.height]);
    say(`Cursor at ${spot(state.cursor)}.`);
    draw(state);
  } else if (event.key === "Enter") addPoint([x, y]);
  else if (points.length) removePoint(points.length - 1);
}

// On the target, arrow keys move the match of the selected point.
function pressTarget(event) {
  const { photos: { target }, selected } = state;
  const [move, end] = [MOVES[event.key], selected >= 0 && endOf(state, selected)];
  if (!move || !end) return;
  event.preventDefault();
  const step = event.shiftKey ? STEP / 5 : STEP;
  correct(selected, within(target, [end.point[0] + move[0] * step * target.width, end.point[1] + move[1] * step * target.height]));
}

const middle = ({ width, height }) => [(width - 1) / 2, (height - 1) / 2];

async function drop(event, side) {
  const files = [...event.dataTransfer.files];
  if (files.length === 1) await choosePhoto(side, files[0]);
  else for (const [i, file] of files.slice(0, 2).entries()) await choosePhoto(SIDES[i], file);
}

function listen() {
  // Nothing here is dragged: else a click that slips a little becomes a drag of the photo, and then an upload of it.
  document.ondragstart = document.ondragover = document.ondrop = (event) => event.preventDefault();
  for (const side of SIDES) {
    const [figure, photo, input] = [$(`#${side}`), $(`#${side} .photo`), $(`#${side} input[type=file]`)];
    input.onchange = () => { if (input.files.length) choosePhoto(side, input.files[0]); input.value = ""; };
    figure.ondragover = ({ dataTransfer }) => photo.classList.toggle("over", dataTransfer.types.includes("Files"));
    figure.ondragleave = () => photo.classList.remove("over");
    figure.ondrop = (event) => { photo.classList.remove("over"); drop(event, side); };
    photo.querySelector("img").onload = () => draw(state);
  }
  const source = $("#source .photo");
  source.onclick = place;
  source.onkeydown = press;
  source.onfocus = () => {
    if (state.photos.source && source.matches(":focus-visible")) state.cursor ??= middle(state.photos.source);
    draw(state);
  };
  source.onblur = () => draw(state);
  const target = $("#target .photo");
  dragging(target, () => state.points.map((_, i) => {
    const end = endOf(state, i);
    return end && !end.absent && (view() !== "heat" || i === state.selected) ? onScreen("target", state.photos.target, end.point) : null;
  }), {
    grab: select,
    move: (index, event) => {
      Object.assign(state.known[index], { target: pixelAt("target", state.photos.target, event), confidence: null });
      draw(state);
    },
    drop: (index, event) => correct(index, pixelAt("target", state.photos.target, event)),
  });
  target.onclick = (event) => addReverse(pixelAt("target", state.photos.target, event));
  target.onkeydown = pressTarget;
  $("#load").onchange = () => { const [file] = $("#load").files; if (file) loadPoints(file); $("#load").value = ""; };
  $("#least").oninput = guarded(async () => {
    state.least = Number($("#least").value);
    await show();
  });
  $("#model").onchange = guarded(async () => { if (SIDES.every((side) => state.photos[side])) await matchPhotos(); });
  $("#views").onchange = guarded(show);
  $("#slider input").oninput = (event) => $("#stage").style.setProperty("--split", `${event.target.value}%`);
  $("#swap").onclick = swap;
  $("#suggest").onclick = guarded(async () => {
    const { points } = await (await ask(about("suggestions"))).json();
    await usePoints(points, `${points.length} confident points.`);
  });
  $("#undo").onclick = () => removePoint(state.points.length - 1);
  $("#clear").onclick = () => usePoints([], "No points left.");
  $("#png").onclick = savePicture;
  $("#json").onclick = saveNumbers;
  $("#forget").onclick = guarded(async () => { await ask("/api/session", { method: "DELETE" }); location.reload(); });
  new ResizeObserver(() => draw(state)).observe($("#stage"));
}

const start = guarded(async () => {
  listen();
  setup = await (await ask("/api/setup")).json();
  useScale(setup.scale);
  for (const { name, label, description, default: first } of setup.models) {
    $("#model").append(Object.assign(new Option(label, name, first, first), { title: description }));
  }
  for (const pair of setup.samples) {
    const button = Object.assign(document.createElement("button"), { className: "sample", onclick: () => chooseSample(pair) });
    button.append(Object.assign(new Image(), { src: `/api/samples/${pair}`, alt: "" }), pair);
    $("#samples").append(button);
  }
  const { photos, match } = setup; // of before the page was loaded again
  $("#review").hidden = !setup.review;
  const { of, points, known, least, shape } = JSON.parse(sessionStorage.getItem("shown") ?? "{}");
  const same = match && of === match.match;
  if (match) $("#model").value = match.model;
  if (same) {
    $(`input[value=${shape}]`).checked = true;
    $("#least").value = state.least = least;
  }
  if (photos.source || photos.target) await usePhotos(photos, same ? points : [], match, same ? known : []);
});

start();

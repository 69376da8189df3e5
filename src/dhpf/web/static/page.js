// The page: what was chosen, what the server said of it, and how that is shown. All points are pixels of the
// original photos, x then y.

const $ = (selector) => document.querySelector(selector);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 5; // how often a busy server is asked again
const NEAR = 12; // pixels of the screen: a click on a point that is there
const STEP = 0.02; // of the photo, for an arrow key; with Shift a fifth of it

const stage = $("#stage");
const sides = {
  source: { figure: $("#source"), photo: $("#source .photo"), image: $("#source .photo img") },
  target: { figure: $("#target"), photo: $("#target .photo"), image: $("#target .photo img") },
};
let setup = { models: [], samples: [], limits: { upload_bytes: Infinity, points: Infinity }, scale: [[0, 0, 0]] };
let photos = { source: null, target: null }; // {id, name, width, height}
let match = null; // {match: its id, model, layers, layer_probability, layer_count}
let points = []; // on the source
let found = null; // what the server says of these points
let selected = -1; // the point of the heat map
let cursor = null; // of the keyboard, on the source
let asked = 0; // counts what is asked, so that a late answer does not replace a newer one

// ---- talking to the server

async function ask(path, options = {}) {
  for (let attempt = 0; ; attempt++) {
    const answer = await fetch(path, options).catch(() => { throw new Error("The server does not answer; is it still running?"); });
    if (answer.ok) return answer;
    const { error } = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    if (answer.status !== 503 || attempt === PATIENCE) throw new Error(`${error}.`);
    say("The server is busy with other photos; waiting for it.");
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(answer.headers.get("Retry-After") ?? 2)));
  }
}

const post = (path, content) => ask(path, { method: "POST", body: JSON.stringify(content) });
const about = (what) => `/api/match/${match.match}/${what}`;

function say(text, bad = false) {
  $("#message").textContent = text;
  $("#message").classList.toggle("bad", bad);
}

// Run something that may fail; what it throws is a sentence for the person.
const guarded = (work) => async (...given) => {
  try { await work(...given); } catch (error) { say(error.message, true); }
};

async function working(work) {
  sides.target.photo.classList.add("working");
  try { return await work(); } finally { sides.target.photo.classList.remove("working"); }
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

async function usePhotos(given) {
  Object.assign(photos, given);
  [match, points, found, selected, cursor] = [null, [], null, -1, null];
  for (const [side, photo] of Object.entries(given)) {
    const { figure, photo: frame, image } = sides[side];
    figure.querySelector(".name").textContent = `${photo.name}, ${photo.width} × ${photo.height}`;
    frame.style.setProperty("--shape", photo.width / photo.height);
    frame.classList.add("filled");
    image.src = `/api/photos/${photo.id}`;
    image.alt = `${side} photo: ${photo.name}`;
    image.hidden = false;
  }
  $("#forget").disabled = false;
  await show();
  if (photos.source && photos.target) await matchPhotos();
  else say(`Now choose the ${photos.source ? "target" : "source"} photo.`);
}

async function matchPhotos() {
  say("Matching ...");
  const content = { source: photos.source.id, target: photos.target.id, model: $("#model").value };
  match = null;
  match = await working(async () => (await post("/api/match", content)).json());
  showLayers();
  say("Matched. Click a point on the source photo, or let some be suggested.");
  await update();
}

// ---- points

// Ask where the points lie on the target, and show it.
async function update() {
  await show();
  if (!match) return;
  const mine = ++asked;
  const answer = await (await post(about("points"), { points })).json();
  if (mine !== asked) return;
  found = answer;
  await show();
}

const addPoint = guarded(async (x, y) => {
  if (!match) return;
  if (points.length === setup.limits.points) throw new Error(`That is enough: at most ${points.length} points.`);
  points.push([x, y]);
  selected = points.length - 1;
  await update();
  if (found?.confidence.length === points.length) say(`Point ${points.length}: ${sentence(points.length - 1)}.`);
});

const removePoint = guarded(async (index) => {
  if (!points.length) return;
  points.splice(index, 1);
  found?.source_points.splice(index, 1);
  found?.target_points.splice(index, 1);
  found?.confidence.splice(index, 1);
  selected = points.length - 1;
  say(points.length ? `Removed; ${points.length} left.` : "No points left.");
  await update();
});

const select = guarded(async (index) => {
  selected = index;
  await show();
});

const spot = ([x, y]) => `${x.toFixed(1)}, ${y.toFixed(1)}`;
const sentence = (i) => `${spot(points[i])} lies at ${spot(found.target_points[i])} on the target, confidence ${found.confidence[i].toFixed(3)}`;

// ---- showing

const view = () => $("input[name=view]:checked").value;

function colour(strength) {
  const place = clamp(strength, 0, 1) * (setup.scale.length - 1);
  const low = Math.min(Math.floor(place), setup.scale.length - 2);
  return setup.scale[low].map((value, i) => Math.round(value + (place - low) * (setup.scale[low + 1][i] - value)));
}

async function show() {
  stage.className = view();
  const whole = view() === "flow" && match;
  $("#whole").hidden = !whole;
  sides.source.figure.hidden = sides.target.figure.hidden = whole;
  $("#slider").hidden = $("#warped").hidden = view() !== "warp" || !match;
  $("#heat").hidden = view() !== "heat" || !match || selected < 0;
  for (const id of ["#suggest", "#png", "#json"]) $(id).disabled = !match;
  for (const id of ["#undo", "#clear"]) $(id).disabled = !points.length;
  $("#matches").hidden = !points.length;
  $("#layers").hidden = !match;
  draw();
  showTable();
  if (!match) return;
  if (view() === "warp") await showPicture($("#warped"), "warped", () => ask(about("warped")));
  if (view() === "flow") await showPicture($("#whole img"), "flow", () => post(about("picture"), { view: "flow" }));
  if (view() === "heat" && selected >= 0) await showHeat();
}

// Load a picture once for each match.
async function showPicture(image, what, request) {
  const wanted = about(what);
  if (image.dataset.shows === wanted) return;
  image.dataset.shows = wanted;
  try {
    const blob = await working(async () => (await request()).blob());
    if (image.dataset.shows !== wanted) return;
    URL.revokeObjectURL(image.src);
    image.src = URL.createObjectURL(blob);
    image.alt = what === "flow" ? "Flow from source to target as colours, with their legend" : image.alt;
  } catch (error) {
    image.dataset.shows = "";
    throw error;
  }
}

async function showHeat() {
  const wanted = JSON.stringify([match.match, points[selected]]);
  const canvas = $("#heat");
  if (canvas.dataset.shows === wanted) return;
  canvas.dataset.shows = wanted;
  const { scores } = await (await post(about("heat"), { points: [points[selected]] })).json();
  if (canvas.dataset.shows !== wanted) return;
  const [rows, columns] = [scores.length, scores[0].length];
  const wider = [...scores, scores[rows - 1]].flatMap((row) => [...row, row[columns - 1]]);
  const highest = Math.max(...wider) || 1;
  const pixels = new ImageData(columns + 1, rows + 1);
  wider.forEach((score, i) => pixels.data.set([...colour(score / highest), 115 + 115 * (score / highest)], 4 * i));
  Object.assign(canvas, { width: columns + 1, height: rows + 1 });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  // A cell lies around its pixel: half of the first one is outside, and the last one reaches on to the edge.
  const [x, y] = [100 / columns, 100 / rows];
  Object.assign(canvas.style, { left: `${-x / 2}%`, top: `${-y / 2}%`, width: `${100 + x}%`, height: `${100 + y}%` });
}

// Where a point of a photo is on the stage.
function onStage(side, [x, y]) {
  const frame = sides[side].image.getBoundingClientRect();
  const origin = stage.getBoundingClientRect();
  const [right, down] = [clamp(x / photos[side].width, 0, 1), clamp(y / photos[side].height, 0, 1)];
  return [frame.left - origin.left + right * frame.width, frame.top - origin.top + down * frame.height];
}

function element(parent, name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return parent.appendChild(made);
}

const strengths = () => found?.confidence.map((value) => value / (Math.max(...found.confidence) || 1)) ?? [];

function draw() {
  const overlay = $("#overlay");
  overlay.replaceChildren();
  if (view() === "flow" && match) return;
  const strength = strengths();
  const order = points.map((_, i) => i).sort((a, b) => (a === selected) - (b === selected) || (strength[a] ?? 0) - (strength[b] ?? 0));
  const ends = (i) => found?.target_points[i] && onStage("target", found.target_points[i]);
  if (view() === "lines") {
    for (const i of order.filter(ends)) {
      const [[x1, y1], [x2, y2]] = [onStage("source", points[i]), ends(i)];
      for (const kind of ["edge", "light", "core"]) {
        element(overlay, "line", { class: kind, x1, y1, x2, y2, stroke: `rgb(${colour(strength[i])})` });
      }
    }
  }
  for (const i of order) {
    drawPoint(overlay, "source", i, onStage("source", points[i]), strength[i]);
    if (ends(i) && (view() !== "heat" || i === selected)) drawPoint(overlay, "target", i, ends(i), strength[i]);
  }
  if (cursor && document.activeElement === sides.source.photo) {
    const [x, y] = onStage("source", cursor);
    for (let i = 0; i < 2; i++) element(overlay, "path", { class: "cursor", d: `M${x - 14} ${y}h28M${x} ${y - 14}v28` });
  }
}

function drawPoint(overlay, side, index, [x, y], strength) {
  const fill = strength === undefined ? [124, 123, 120] : colour(strength);
  const radius = index === selected ? 12 : 10;
  const group = element(overlay, "g", { class: "point", "data-side": side, "data-index": index, transform: `translate(${x} ${y})` });
  if (view() === "heat" && side === "target") { // what lies under it is to be seen
    for (const [kind, r] of [["ring", 15], ["rim", 12.5]]) element(group, "circle", { class: `hollow ${kind}`, r });
    return;
  }
  element(group, "circle", { class: "ring", r: radius + (index === selected ? 3.5 : 2.5) });
  element(group, "circle", { class: "rim", r: radius + 1.5 });
  element(group, "circle", { r: radius - 0.5, fill: `rgb(${fill})` });
  const light = 0.3 * fill[0] + 0.59 * fill[1] + 0.11 * fill[2] > 125;
  element(group, "text", { fill: light ? "#1c1c1a" : "#ffffff" }, index + 1);
}

function showTable() {
  const highest = Math.max(0, ...(found?.confidence ?? []));
  $(".legend span:last-child").textContent = highest.toPrecision(2);
  const rows = points.map((point, i) => {
    const row = document.createElement("tr");
    const known = found?.target_points[i];
    row.classList.toggle("selected", view() === "heat" && i === selected);
    for (const text of ["", spot(point), known ? spot(known) : "...", known ? found.confidence[i].toFixed(3) : "..."]) {
      row.insertCell().textContent = text;
    }
    const [choose, remove] = [document.createElement("button"), document.createElement("button")];
    choose.textContent = i + 1;
    choose.setAttribute("aria-label", `Select point ${i + 1}`);
    choose.onclick = () => select(i);
    remove.textContent = "×";
    remove.setAttribute("aria-label", `Remove point ${i + 1}`);
    remove.onclick = () => removePoint(i);
    row.cells[0].append(choose);
    row.insertCell().append(remove);
    return row;
  });
  const held = document.activeElement.closest("tbody td"); // the focus must not be lost with its button
  const [row, cell] = held ? [Math.min(held.parentNode.rowIndex, rows.length) - 1, held.cellIndex] : [];
  $("#matches tbody").replaceChildren(...rows);
  rows[row]?.cells[cell].firstChild.focus();
}

function showLayers() {
  const sure = match.layer_probability;
  const how = sure ? "gates chose them for this pair; bars show how sure each gate was" : "fixed by the model";
  const { label } = setup.models.find(({ name }) => name === match.model);
  $("#layers p").textContent = `${label}: ${match.layers.length} of ${match.layer_count} layers (${match.layers.join(", ")}), ${how}.`;
  $("#layers ol").replaceChildren(...Array.from({ length: match.layer_count }, (_, layer) => {
    const on = match.layers.includes(layer);
    const [item, bar] = [document.createElement("li"), document.createElement("i")];
    item.classList.toggle("on", on);
    item.style.setProperty("--sure", sure ? sure[layer] : Number(on));
    item.title = `layer ${layer}: ${on ? "used" : "not used"}${sure ? `, gate ${sure[layer].toFixed(2)}` : ""}`;
    item.setAttribute("aria-label", item.title);
    const number = document.createElement("span");
    number.textContent = on || match.layer_count < 20 ? layer : "";
    item.append(bar, number);
    return item;
  }));
}

// ---- downloads

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const savePicture = guarded(async () => {
  if (view() === "heat" && selected < 0) throw new Error("Click a point first: a heat map is of one point.");
  const shown = { view: view(), points: view() === "heat" ? [points[selected]] : points };
  const answer = await working(() => post(about("picture"), shown));
  save(await answer.blob(), `dhpf-${view()}.png`);
});

const saveNumbers = guarded(async () => save(await (await post(about("points"), { points })).blob(), "dhpf-match.json"));

// ---- what the person does

function place(event) {
  if (!photos.source) return;
  const frame = sides.source.image.getBoundingClientRect();
  const [right, down] = [photos.source.width / frame.width, photos.source.height / frame.height];
  const x = clamp((event.clientX - frame.left) * right, 0, photos.source.width);
  const y = clamp((event.clientY - frame.top) * down, 0, photos.source.height);
  const near = points.findIndex((point) => Math.hypot((point[0] - x) / right, (point[1] - y) / down) < NEAR);
  cursor = null;
  if (view() === "heat" && near >= 0) select(near);
  else addPoint(x, y);
}

function press(event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const { width, height } = photos.source ?? {};
  if (!width || ![...Object.keys(moves), "Enter", "Delete", "Backspace"].includes(event.key)) return;
  event.preventDefault();
  if (event.key in moves) {
    const step = event.shiftKey ? STEP / 5 : STEP;
    const [x, y] = cursor ?? [width / 2, height / 2];
    const [right, down] = moves[event.key];
    cursor = [clamp(x + right * step * width, 0, width), clamp(y + down * step * height, 0, height)];
    say(`Cursor at ${spot(cursor)}.`);
    draw();
  } else if (event.key === "Enter") {
    cursor ??= [width / 2, height / 2];
    addPoint(...cursor);
  } else removePoint(points.length - 1);
}

function drop(event, side) {
  event.preventDefault();
  const files = [...event.dataTransfer.files];
  if (files.length > 1) choosePhoto("source", files[0]).then(() => choosePhoto("target", files[1]));
  else if (files.length) choosePhoto(side, files[0]);
}

function listen() {
  for (const [side, { figure, photo }] of Object.entries(sides)) {
    const input = figure.querySelector("input[type=file]");
    input.onchange = () => { if (input.files.length) choosePhoto(side, input.files[0]); input.value = ""; };
    figure.ondragover = (event) => { event.preventDefault(); photo.classList.add("over"); };
    figure.ondragleave = () => photo.classList.remove("over");
    figure.ondrop = (event) => { photo.classList.remove("over"); drop(event, side); };
    sides[side].image.onload = draw;
  }
  document.ondragover = document.ondrop = (event) => event.preventDefault(); // beside the photos: stay on the page
  const source = sides.source.photo;
  source.onclick = place;
  source.onkeydown = press;
  source.onfocus = () => { if (photos.source && source.matches(":focus-visible")) cursor ??= [photos.source.width / 2, photos.source.height / 2]; draw(); };
  source.onblur = draw;
  $("#model").onchange = guarded(async () => { if (photos.source && photos.target) await matchPhotos(); });
  $("#views").onchange = guarded(show);
  $("#slider input").oninput = (event) => stage.style.setProperty("--split", `${event.target.value}%`);
  $("#suggest").onclick = guarded(async () => {
    points = (await (await ask(about("suggestions"))).json()).points;
    selected = 0;
    await update();
    say(`${points.length} confident points.`);
  });
  $("#undo").onclick = () => removePoint(points.length - 1);
  $("#clear").onclick = guarded(async () => { points = []; found = null; selected = -1; say("No points left."); await update(); });
  $("#png").onclick = savePicture;
  $("#json").onclick = saveNumbers;
  $("#forget").onclick = guarded(async () => { await ask("/api/session", { method: "DELETE" }); location.reload(); });
  new ResizeObserver(draw).observe(stage);
}

const start = guarded(async () => {
  listen();
  setup = await (await ask("/api/setup")).json();
  for (const { name, label, description, default: first } of setup.models) {
    const option = new Option(label, name, first, first);
    option.title = description;
    $("#model").append(option);
  }
  for (const pair of setup.samples) {
    const button = document.createElement("button");
    button.textContent = pair;
    button.onclick = () => chooseSample(pair);
    $("#samples").append(button);
  }
  const bar = $(".legend canvas");
  const pixels = new ImageData(bar.width, 1);
  for (let x = 0; x < bar.width; x++) pixels.data.set([...colour(x / (bar.width - 1)), 255], 4 * x);
  bar.getContext("2d").putImageData(pixels, 0, 0);
});

start();

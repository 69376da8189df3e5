// How what is known is shown: points and lines over the photos, the table of points, the layers, the heat map.

export const $ = (selector) => document.querySelector(selector);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const spot = ([x, y]) => `${x.toFixed(1)}, ${y.toFixed(1)}`;
export const view = () => $("input[name=view]:checked")?.value ?? "lines"; // the review has no views

const UNKNOWN = [124, 123, 120];

// ---- from the screen to pixels of a photo and back: the first pixel has its centre at 0, its corner at -0.5

const frame = (side) => $(`#${side} .photo img`).getBoundingClientRect();

// A point that lies on the photo, x then y.
export const within = ({ width, height }, [x, y]) => [clamp(x, -0.5, width - 0.5), clamp(y, -0.5, height - 0.5)];

export function pixelAt(side, photo, { clientX, clientY }) {
  const { left, top, width, height } = frame(side);
  return within(photo, [(clientX - left) / width * photo.width - 0.5, (clientY - top) / height * photo.height - 0.5]);
}

export function onScreen(side, photo, point) {
  const { left, top, width, height } = frame(side);
  const [x, y] = within(photo, point);
  return [left + (x + 0.5) / photo.width * width, top + (y + 0.5) / photo.height * height];
}

// ---- colours

let scale = [[0, 0, 0], [0, 0, 0]]; // of strengths from 0 to 1

function colour(strength) {
  const place = clamp(strength, 0, 1) * (scale.length - 1);
  const low = Math.min(Math.floor(place), scale.length - 2);
  return scale[low].map((value, i) => Math.round(value + (place - low) * (scale[low + 1][i] - value)));
}

export function useScale(given) {
  scale = given;
  const bar = $(".legend canvas");
  if (bar) paint(bar, bar.width, Array.from({ length: bar.width }, (_, x) => [...colour(x / (bar.width - 1)), 255]));
}

function paint(canvas, columns, colours) {
  const pixels = new ImageData(new Uint8ClampedArray(colours.flat()), columns);
  Object.assign(canvas, { width: pixels.width, height: pixels.height });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

// ---- points and lines

export function element(parent, name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return parent.appendChild(made);
}

// Where a point lies on the target: where the person put it, else where it was found; null while that is not known.
export function endOf({ known, found, least }, index) {
  const { target, confidence } = known[index];
  if (target) return { point: target, confidence: confidence ?? 1, given: true, byHand: confidence === null, absent: false };
  if (!found?.target_points[index]) return null;
  const sure = found.confidence[index];
  return { point: found.target_points[index], confidence: sure, given: false, byHand: false, absent: sure < least };
}

export function draw(state) {
  const { photos, match, points, selected, cursor } = state;
  const overlay = $("#overlay");
  overlay.replaceChildren();
  if (view() === "flow" && match) return;
  const { left, top } = $("#stage").getBoundingClientRect();
  const place = (side, point) => {
    const [x, y] = onScreen(side, photos[side], point);
    return [x - left, y - top];
  };
  const shown = points.map((point, i) => {
    const end = endOf(state, i);
    return { i, start: place("source", point), end: end && !end.absent && place("target", end.point), strength: end && !end.absent ? end.confidence : undefined };
  });
  shown.sort((a, b) => (a.i === selected) - (b.i === selected) || (a.strength ?? 0) - (b.strength ?? 0)); // above others
  for (const { start: [x1, y1], end, strength } of shown) {
    if (view() !== "lines" || !end) continue;
    const line = { x1, y1, x2: end[0], y2: end[1], stroke: `rgb(${colour(strength)})` };
    for (const kind of ["edge", "light", "core"]) element(overlay, "line", { class: kind, ...line });
  }
  for (const { i, start, end, strength } of shown) {
    drawPoint(overlay, "source", i, start, strength, i === selected);
    if (end && (view() !== "heat" || i === selected)) drawPoint(overlay, "target", i, end, strength, i === selected);
  }
  if (cursor && document.activeElement === $("#source .photo")) {
    const [x, y] = place("source", cursor);
    for (let i = 0; i < 2; i++) element(overlay, "path", { class: "cursor", d: `M${x - 14} ${y}h28M${x} ${y - 14}v28` });
  }
}

export function drawPoint(overlay, side, index, [x, y], strength, selected, label = index + 1) {
  const group = element(overlay, "g", { class: "point", "data-side": side, "data-index": index, transform: `translate(${x} ${y})` });
  if (view() === "heat" && side === "target") { // what lies under it is to be seen
    for (const [kind, r] of [["ring", 15], ["rim", 12.5]]) element(group, "circle", { class: `hollow ${kind}`, r });
    return;
  }
  const fill = strength === undefined ? UNKNOWN : colour(strength);
  const radius = selected ? 12 : 10;
  element(group, "circle", { class: "ring", r: radius + (selected ? 3.5 : 2.5) });
  element(group, "circle", { class: "rim", r: radius + 1.5 });
  element(group, "circle", { r: radius - 0.5, fill: `rgb(${fill})` });
  const light = 0.3 * fill[0] + 0.59 * fill[1] + 0.11 * fill[2] > 125;
  element(group, "text", { fill: light ? "#1c1c1a" : "#ffffff" }, label);
}

// Scores of the target's cells; where these lie, as fractions of the photo.
export function drawHeat({ scores, corner, cell }) {
  const [rows, columns] = [scores.length, scores[0].length];
  const wider = [...scores, scores[rows - 1]].flatMap((row) => [...row, row[columns - 1]]); // on to the edge
  const highest = Math.max(...wider) || 1;
  const canvas = $("#heat");
  paint(canvas, columns + 1, wider.map((score) => [...colour(score / highest), 115 + 115 * (score / highest)]));
  const [left, top, width, height] = [...corner, (columns + 1) * cell[0], (rows + 1) * cell[1]].map((part) => `${100 * part}%`);
  Object.assign(canvas.style, { left, top, width, height });
}

// ---- the table of points and the layers

export function showTable(state, select, remove) {
  const { points, selected, known } = state;
  const rows = points.map((point, i) => {
    const row = document.createElement("tr");
    const end = endOf(state, i);
    const [place, sure] = !end ? ["...", "..."]
      : [end.absent ? "absent" : spot(end.point), end.byHand ? "by hand" : end.confidence.toFixed(3)];
    row.classList.toggle("selected", view() === "heat" && i === selected);
    for (const text of ["", spot(point), place, sure, ""]) {
      row.insertCell().textContent = text;
    }
    row.cells[0].append(button(i + 1, `Select point ${i + 1}`, () => select(i)), known[i].name ? ` ${known[i].name}` : "");
    row.cells[4].append(button("×", `Remove point ${i + 1}`, () => remove(i)));
    return row;
  });
  const held = document.activeElement.closest("tbody td"); // the focus must not be lost with its button
  const [row, cell] = held ? [Math.min(held.parentNode.rowIndex, rows.length) - 1, held.cellIndex] : [];
  $("#matches tbody").replaceChildren(...rows);
  rows[row]?.cells[cell].firstChild.focus();
}

export function button(text, label, onclick) {
  const made = Object.assign(document.createElement("button"), { textContent: text, onclick });
  made.setAttribute("aria-label", label);
  return made;
}

export function showLayers({ layers, layer_count: count, layer_probability: sure }, model) {
  if (!layers) return; // this method does not choose
  const how = sure ? "gates chose them for this pair; bars show how sure each gate was" : "fixed by the model";
  $("#layers p").textContent = `${model}: ${layers.length} of ${count} layers (${layers.join(", ")}), ${how}.`;
  $("#layers ol").replaceChildren(...Array.from({ length: count }, (_, layer) => {
    const on = layers.includes(layer);
    const [item, bar, number] = ["li", "i", "span"].map((name) => document.createElement(name));
    item.classList.toggle("on", on);
    item.style.setProperty("--sure", sure ? sure[layer] : Number(on));
    item.title = `layer ${layer}: ${on ? "used" : "not used"}${sure ? `, gate ${sure[layer].toFixed(2)}` : ""}`;
    item.setAttribute("aria-label", item.title);
    number.textContent = on || count < 20 ? layer : "";
    item.append(bar, number);
    return item;
  }));
}

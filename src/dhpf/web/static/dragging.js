// Points that can be dragged, by mouse, pen or finger. A finger elsewhere on the photo scrolls as usual.

const NEAR = { mouse: 14, pen: 18, touch: 26 }; // pixels of the screen
const SLIP = 3; // pixels that a click may move

// `ends()`: where the points are on the screen, null for those that are not shown. `grab(index)`, `move(index, event)` and
// `drop(index, event)` are told what happens; a click on a point only grabs.
export function dragging(photo, ends, { grab, move, drop }) {
  let held = null; // {index, x, y, moved, last: event}
  let handled = false; // the click that follows belongs to the drag
  const under = ({ clientX, clientY }, kind) => {
    const apart = ends().map((end) => (end ? Math.hypot(end[0] - clientX, end[1] - clientY) : Infinity));
    const index = apart.indexOf(Math.min(...apart));
    return apart[index] <= NEAR[kind] ? index : -1;
  };
  photo.addEventListener("touchstart", (event) => {
    if (under(event.touches[0], "touch") >= 0) event.preventDefault();
  }, { passive: false });
  photo.addEventListener("pointerdown", (event) => {
    handled = false;
    const index = event.button ? -1 : under(event, event.pointerType || "mouse");
    if (index < 0) return;
    held = { index, x: event.clientX, y: event.clientY, moved: false };
    photo.setPointerCapture(event.pointerId);
    grab(index);
  });
  photo.addEventListener("pointermove", (event) => {
    if (!held) return;
    held.moved ||= Math.hypot(event.clientX - held.x, event.clientY - held.y) > SLIP;
    held.last = event;
    if (held.moved) move(held.index, event);
  });
  photo.addEventListener("pointerup", (event) => {
    if (!held) return;
    const { index, moved } = held;
    [held, handled] = [null, true];
    if (moved) drop(index, event);
  });
  photo.addEventListener("pointercancel", (event) => {
    if (held?.moved) drop(held.index, held.last);
    held = null;
  });
  photo.addEventListener("click", (event) => {
    if (handled) event.stopImmediatePropagation();
    handled = false;
  }, true);
}

"""The movements of a measured page, one a frame: as scripts that run in the page itself.

A movement that came over the driver's socket would measure the socket.
"""

FRAMES = """
async (frames) => {
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let n = 0; n < frames; n++) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return { times };
}
"""
"""How often this browser draws while nothing happens."""

PAN_AND_ZOOM = """
async ({ frames, zoom }) => {
  const pane = document.querySelector(".react-flow__pane");
  const plane = document.querySelector(".react-flow__viewport");
  const { left, top, width, height } = pane.getBoundingClientRect();
  const [x, y] = [left + width / 2, top + height / 2];
  const matrix = () => getComputedStyle(plane).transform;
  const scale = () => new DOMMatrix(matrix()).a;
  const mouse = (on, type, dx, dy, buttons) => on.dispatchEvent(new MouseEvent(type, {
    bubbles: true, cancelable: true, view: window, button: 0, buttons, clientX: x + dx, clientY: y + dy }));
  const wheel = (deltaY) => pane.dispatchEvent(new WheelEvent("wheel", {
    bubbles: true, cancelable: true, view: window, clientX: x, clientY: y, deltaY }));
  const found = { times: [], moved: 0, mounted: 0, scales: [scale()] };
  let last = await new Promise(requestAnimationFrame);
  let before = matrix();
  const frame = async () => {
    const now = await new Promise(requestAnimationFrame);
    const after = matrix();
    found.times.push(now - last);
    found.moved += after === before ? 0 : 1;
    found.mounted = Math.max(found.mounted, document.querySelectorAll(".react-flow__node").length);
    [last, before] = [now, after];
  };
  const drag = async () => {
    mouse(pane, "mousedown", 0, 0, 1);
    for (let n = 1; n <= frames; n++) {
      const turn = (n / frames) * 4 * Math.PI;
      mouse(window, "mousemove", Math.sin(turn) * width * 0.4, Math.sin(turn * 1.3) * height * 0.4, 1);
      await frame();
    }
    mouse(window, "mouseup", 0, 0, 0);
  };
  await drag();
  for (let n = 0; n < 200 && scale() < zoom; n++) { wheel(-60); await frame(); }
  found.scales.push(scale());
  await drag();
  for (let n = 0; n < 200 && scale() > found.scales[0]; n++) { wheel(60); await frame(); }
  return found;
}
"""
"""Over everything, then in to `zoom` and over the details, then out again. `moved` counts the frames in which
the view was another than in the one before."""

SCROLL = """
async () => {
  const list = document.querySelector('[role="listbox"][aria-label="Events"]');
  const found = { times: [], seen: 0, rows: 0, mounted: 0, in_sight: 0 };
  const seen = new Set();
  list.scrollTop = 0;
  await new Promise(requestAnimationFrame);
  let last = await new Promise(requestAnimationFrame);
  for (;;) {
    const rows = list.querySelectorAll('[role="option"]');
    found.mounted = Math.max(found.mounted, rows.length);
    found.rows = Number(rows[0]?.getAttribute("aria-setsize") ?? 0);
    const { top, bottom } = list.getBoundingClientRect();
    let here = 0;
    for (const row of rows) {
      const box = row.getBoundingClientRect();
      if (box.top < top - 1 || box.bottom > bottom + 1) continue;
      seen.add(Number(row.getAttribute("aria-posinset")));
      here += 1;
    }
    found.in_sight = Math.max(found.in_sight, here);
    if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) break;
    list.scrollTop += list.clientHeight;
    const now = await new Promise(requestAnimationFrame);
    found.times.push(now - last);
    last = now;
  }
  found.seen = seen.size;
  return found;
}
"""
"""From the first row to the last, by what is in sight; `seen` counts rows that were wholly in sight."""

ANSWER = """
() => new Promise((found) => {
  const look = () => {
    const answer = document.querySelector('article[aria-label="Answer"]');
    if (answer?.textContent?.trim()) found(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})
"""
"""Milliseconds from the navigation to a frame that has the words of a goal's answer."""

LIVE = """
() => new Promise((found) => {
  const look = () => {
    const goal = document.querySelector("input#goal, textarea#goal");
    if (goal && !goal.disabled) found(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})
"""
"""Milliseconds from the navigation to a frame in which a goal can be entered: controls wait for the state."""

WATCH_TASKS = """
() => {
  window.longestTask = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.longestTask = Math.max(window.longestTask, one.duration);
  }).observe({ type: "longtask" });
}
"""
"""From here on, tasks above 50 ms are told by the browser."""

LONGEST_TASK = "() => new Promise((found) => setTimeout(() => found(window.longestTask), 100))"
"""Milliseconds of the longest task since `WATCH_TASKS`; 0 if none took 50."""

PAINT = """
() => new Promise((found) => {
  new PerformanceObserver((list, self) => {
    const first = list.getEntriesByName("first-contentful-paint")[0];
    if (first === undefined) return;
    self.disconnect();
    found(first.startTime);
  }).observe({ type: "paint", buffered: true });
})
"""

import { expect, test } from "vitest";
import { churn, History } from "../../tests/events";
import { foldAll } from "../../tests/fold";
import { Composer, MOUNTED_MAX } from "./compose";
import { dropOf } from "./drop";
import { around, type Box, centre, contains, overlaps } from "./layout/box";
import { DETAILED_MAX, detailOf } from "./layout/detail";
import { fitted, resized, seenAt } from "./layout/look";
import { arrange } from "./layout/arrange";
import { goalsOf, type Layout, type Moved, spread } from "./layout/goals";
import { rooms } from "./layout/rooms";
import { carrying, crossedSince } from "./live";
import { stillPending } from "./membership";
import { membershipKey, type Link, membranesOf, type Scene, sceneOf, type Thing } from "./scene";
import { restoredPlaces } from "./store";
import { bringIntoView, takeWanted } from "./view";
import { taskEndWords } from "./words";

/** As the canvas does it, with the worker's part in between. */
function place(of: Scene, moved: Moved = new Map()): Layout {
  const goals = goalsOf(of);
  return spread(goals, new Map(goals.map((one) => [one.goal, arrange(one)])), moved);
}

function thing(kind: Thing["kind"], id: string, rest: Partial<Thing> = {}): Thing {
  return { node: `${kind}:${id}`, kind, id, mission: "m", membranes: [], beside: "", ...rest };
}

function scene(things: readonly Thing[], membranes: readonly string[] = []): Scene {
  return { things, links: [], membranes: membranes.map((id) => ({ id, mission: "m" })) };
}

/** Many goals, each with agents, their tasks and what they made. */
function large(missions: number): Scene {
  const things: Thing[] = [];
  const ids: string[] = [];
  const links: Link[] = [];
  const link = (source: string, target: string) =>
    links.push({ id: `${source}>${target}`, kind: "wrote", source, target, edge: {} as Link["edge"] });
  for (let m = 0; m < missions; m += 1) {
    const mission = `m${m}`;
    ids.push(`${mission}/shared`);
    const rest = { mission, membranes: [`${mission}/shared`] };
    for (let a = 0; a < 8; a += 1) {
      const agent = `${mission}/a${a}`;
      things.push(thing("agent", agent, rest));
      things.push(thing("task", `${mission}/t${a}`, { mission, beside: `agent:${agent}` }));
      for (const n of [0, 1, 2]) {
        things.push(thing("artifact", `${mission}/x${a}-${n}`, { ...rest, beside: `agent:${agent}` }));
        link(`agent:${agent}`, `artifact:${mission}/x${a}-${n}`);
      }
      if (a > 0) link(`artifact:${mission}/x${a - 1}-0`, `agent:${agent}`);
    }
  }
  return { things, links, membranes: ids.map((id) => ({ id, mission: id.split("/")[0] ?? "" })) };
}

function overlapping(layout: Layout): readonly string[] {
  const boxes = [...layout.boxes];
  return boxes.flatMap(([a, box], index) =>
    boxes.slice(index + 1).flatMap(([b, other]) => (overlaps(box, other) ? [`${a} on ${b}`] : [])),
  );
}

test("goals stand in the order in which they came", () => {
  const history = new History();
  for (const goal of ["zebra", "apple", "mango"])
    for (const name of ["b", "a"])
      history.add(`artifact:${goal}/${name}`, "artifact.written", {
        id: `${goal}/${name}`,
        kind: "agent",
        version: 1,
      });

  const { origins } = place(sceneOf(foldAll(history.events)));

  expect([...origins.keys()]).toEqual(["zebra", "apple", "mango"]);
  const xs = [...origins.values()].map((one) => one.x);
  expect(xs).toEqual(xs.toSorted((x, y) => x - y));
});

test("a scene holds what the canvas shows, with memberships that are on their way", () => {
  const graph = foldAll(churn().events);
  const pending = new Map([[membershipKey("churn/writer", "churn/study"), true]]);

  const { things, links } = sceneOf(graph, { pending });

  expect(things.map((one) => one.node)).toEqual([
    "agent:churn/analyst",
    "agent:churn/writer",
    "task:churn/figures",
    "task:churn/letter",
    "artifact:churn/table",
  ]);
  expect(things.find((one) => one.id === "churn/writer")?.membranes).toEqual(["churn/study"]);
  expect(things.find((one) => one.id === "churn/table")?.membranes).toEqual(["churn/study"]);
  expect(links.map((one) => one.id).sort()).toEqual([
    "depends:churn/figures>churn/letter",
    "wrote:churn/analyst>churn/table",
  ]);
  expect(membranesOf(graph, "churn/writer")).toEqual([]);
  expect(sceneOf(graph, { mission: "other" }).things).toEqual([]);
});

test("a membership is pending until the events tell it", () => {
  const before = foldAll(churn().events);
  const after = foldAll(
    churn().add("artifact:churn/study", "group.joined", { group: "churn/study", principal: "churn/writer" })
      .events,
  );
  const pending = new Map([[membershipKey("churn/writer", "churn/study"), true]]);

  expect(stillPending(before, pending)).toBe(pending);
  expect(stillPending(after, pending).size).toBe(0);
});

test("nothing lies on anything else, whatever there is, and all of it is there", () => {
  for (const missions of [1, 3, 12]) {
    const all = large(missions);
    const layout = place(all);
    expect(overlapping(layout)).toEqual([]);
    expect(layout.boxes.size).toBe(all.things.length);
  }
  const alone = Array.from({ length: 90 }, (_, n) => thing("agent", `m/a${n}`));
  const many = Array.from({ length: 40 }, (_, n) => thing("task", `m/t${n}`, { beside: "agent:m/a0" }));
  const { boxes } = place(scene([...alone, ...many, thing("task", "m/nobody")]));
  expect(overlapping({ boxes, origins: new Map() })).toEqual([]);
  const whole = around(boxes.values()) as Box;
  expect(Math.max(whole.width / whole.height, whole.height / whole.width)).toBeLessThan(3);
});

test("what comes of something stands to its right, and rooms of membranes lie on nothing else", () => {
  const all = large(1);
  const { boxes } = place(all);
  for (const link of all.links)
    expect((boxes.get(link.source) as Box).x).toBeLessThan((boxes.get(link.target) as Box).x);
  const two = [0, 1, 2, 3, 4, 5].map((n) => thing("agent", `m/a${n}`, { membranes: [`m/r${n % 2}`] }));
  const apart = scene([...two, thing("agent", "m/stranger")], ["m/r0", "m/r1"]);
  const found = rooms(apart, place(apart).boxes);
  expect(found.map((room) => [room.islands.length, room.depth])).toEqual([
    [0, 0],
    [0, 0],
  ]);
  expect(overlaps((found[0] as { box: Box }).box, (found[1] as { box: Box }).box)).toBe(false);
});

test("the same scene gives the same places, and a goal is not moved within itself by others", () => {
  const alone = place(large(1));
  const among = place(large(4));

  expect(place(large(4))).toEqual(among);
  const corner = among.origins.get("m0") ?? { x: 0, y: 0 };
  for (const [node, box] of alone.boxes) {
    const other = among.boxes.get(node) as Box;
    expect([other.x - corner.x, other.y - corner.y]).toEqual([box.x, box.y]);
  }
});

test("what somebody moved stays there, its tasks go with it, and nothing lies on it", () => {
  const agent = thing("agent", "m/a", { membranes: ["m/r"] });
  const task = thing("task", "m/t", { beside: "agent:m/a" });
  const others = Array.from({ length: 12 }, (_, n) => thing("artifact", `m/x${n}`, { membranes: ["m/r"] }));
  const all = scene([agent, task, ...others], ["m/r"]);
  const first = place(all);
  const [home, under] = [first.boxes.get("agent:m/a") as Box, first.boxes.get("task:m/t") as Box];
  const target = first.boxes.get("artifact:m/x7") as Box;

  const next = place(all, new Map([["agent:m/a", { x: target.x, y: target.y }]]));

  expect(next.boxes.get("agent:m/a")).toMatchObject({ x: target.x, y: target.y });
  const moved = next.boxes.get("task:m/t") as Box;
  expect([moved.x - target.x, moved.y - target.y]).toEqual([under.x - home.x, under.y - home.y]);
  expect(overlapping(next)).toEqual([]);
  const both = new Map([
    ["artifact:m/x1", { x: 500, y: 500 }],
    ["artifact:m/x2", { x: 510, y: 510 }],
  ]);
  const pair = place(all, both);
  expect(pair.boxes.get("artifact:m/x2")).toMatchObject({ x: 510, y: 510 });
  expect(overlapping(pair)).toEqual([]);
});

test("who joins a further membrane stays; who leaves the first one is placed anew", () => {
  const others = ["m/r", "m/s"].map((room) => thing("agent", `${room}/b`, { membranes: [room] }));
  const at = (membranes: string[]) =>
    place(scene([...others, thing("agent", "m/a", { membranes })], ["m/r", "m/s"])).boxes.get("agent:m/a");

  expect(at(["m/r", "m/s"])).toEqual(at(["m/r"]));
  expect(at(["m/s"])).not.toEqual(at(["m/r"]));
});

test("1,300 things of one goal are placed within seconds", () => {
  const all = large(33);
  const one = { ...all, things: all.things.map((each) => ({ ...each, mission: "m" })) };
  const begun = performance.now();

  const { boxes } = place(one);

  expect(boxes.size).toBe(1320);
  expect(performance.now() - begun).toBeLessThan(10_000);
});

test("the room of a membrane holds its members and closes around nobody else", () => {
  const things = [
    thing("agent", "m/a", { membranes: ["m/r"] }),
    thing("agent", "m/stranger"),
    thing("agent", "m/b", { membranes: ["m/r"] }),
  ];
  const box = (x: number): Box => ({ x, y: 0, width: 200, height: 84 });
  const boxes = new Map([
    ["agent:m/a", box(0)],
    ["agent:m/stranger", box(300)],
    ["agent:m/b", box(600)],
  ]);

  const [room] = rooms(scene(things, ["m/r"]), boxes);

  const shapes = room === undefined ? [] : [room.box, ...room.islands];
  const within = (x: number) => shapes.some((shape) => contains(shape, centre(box(x)).x, centre(box(x)).y));
  expect([within(0), within(300), within(600)]).toEqual([true, false, true]);
  expect(rooms(scene(things, ["m/empty"]), boxes)).toEqual([]);
});

test("a drag into a room joins, out of it leaves, and within it changes nothing", () => {
  const box = (x: number): Box => ({ x, y: 0, width: 100, height: 100 });
  const found = [
    { id: "left", box: { x: 0, y: 0, width: 400, height: 200 }, islands: [], depth: 0 },
    { id: "right", box: { x: 300, y: 0, width: 400, height: 200 }, islands: [], depth: 0 },
  ];

  expect(dropOf(found, ["left"], box(50), box(150))).toEqual({ joins: [], leaves: [] });
  expect(dropOf(found, ["left"], box(50), box(300))).toEqual({ joins: ["right"], leaves: [] });
  expect(dropOf(found, ["left"], box(50), box(500))).toEqual({ joins: ["right"], leaves: ["left"] });
  expect(dropOf(found, ["left", "right"], box(300), box(900))).toEqual({
    joins: [],
    leaves: ["left", "right"],
  });
  expect(dropOf(found, ["left"], box(2000), box(3000))).toEqual({ joins: [], leaves: [] });
});

test("at every zoom at most 300 nodes are mounted, and everything is in one of them", () => {
  const all = large(40);
  const { boxes } = place(all);
  const bounds = around(boxes.values()) as Box;
  const middle = centre(bounds);
  let clustered = 0;
  for (let zoom = 0.02; zoom <= 2; zoom *= 1.3) {
    const width = 1400 / zoom;
    const height = 800 / zoom;
    const view = { x: middle.x - width / 2, y: middle.y - height / 2, width, height };
    const detail = detailOf(all, boxes, view);
    expect(detail.things.length + detail.clusters.length).toBeLessThanOrEqual(DETAILED_MAX);
    clustered += detail.isClustered ? 1 : 0;
    for (const [node, box] of boxes) {
      if (contains(view, centre(box).x, centre(box).y)) expect(detail.standsFor.has(node)).toBe(true);
    }
  }
  expect(clustered).toBeGreaterThan(0);
  const heap = new Map(all.things.map((one) => [one.node, { x: 0, y: 0, width: 200, height: 84 }]));
  const piled = detailOf(all, heap, { x: -500, y: -500, width: 1000, height: 1000 });
  expect(piled.clusters.length).toBeLessThanOrEqual(DETAILED_MAX);
  const lone = scene(Array.from({ length: 5000 }, (_, n) => thing("agent", `a${n}`, { mission: `m${n}` })));
  const spread = new Map(
    lone.things.map((one, n) => [one.node, { x: n * 900, y: (n % 7) * 900, width: 9, height: 9 }]),
  );
  expect(
    detailOf(lone, spread, { x: -1e8, y: -1e8, width: 2e8, height: 2e8 }).clusters.length,
  ).toBeLessThanOrEqual(MOUNTED_MAX);
});

test("only what changed is a new node", () => {
  const graph = foldAll(churn().events);
  const all = sceneOf(graph);
  const { boxes } = place(all);
  const detail = detailOf(all, boxes, { x: -1e6, y: -1e6, width: 2e6, height: 2e6 });
  const composer = new Composer();
  const composed = (selected: string) => {
    const { nodes, lines } = composer.compose({
      ...{ graph, scene: all, boxes, detail, selected, canMove: true, rooms: rooms(all, boxes) },
      ...{ live: new Set<string>(), pendingAgents: new Set<string>() },
    });
    return { nodes: new Map(nodes.map((node) => [node.id, node])), lines };
  };
  const before = composed("");
  const after = composed("agent:churn/analyst");

  expect(before.nodes.get("agent:churn/analyst")?.ariaLabel).toBe("Agent analyst, done");
  expect(before.nodes.get("task:churn/letter")?.ariaLabel).toBe("Task letter, pending");
  expect(before.nodes.get("room:churn/study")?.ariaLabel).toBe("Membrane study, 1 member, 1 shared");
  const anew = [...after.nodes].filter(([id, node]) => node !== before.nodes.get(id)).map(([id]) => id);
  expect(anew).toEqual(["agent:churn/analyst"]);
  const near = after.lines.filter((line) => !before.lines.includes(line)).map((line) => line.kind);
  expect(near).toEqual(["wrote"]);
});

test("a line is live while its prompt is being answered, and after an event went over it", () => {
  const history = new History()
    .add("artifact:m/a", "artifact.written", { id: "m/a", kind: "agent", version: 1 })
    .add("artifact:m/x", "artifact.written", { id: "m/x", kind: "document", version: 1 })
    .add("run:m/t", "run.started", { loop: "task", agent: "m/a", model: "x" })
    .add("run:m/t", "context.assembled", { key: "c1", parts: [{ src: ["m/x@1"] }] })
    .add("run:m/t", "model.requested", { key: "c1", model: "x" });
  const asking = foldAll(history.events);
  const answered = foldAll(history.add("run:m/t", "model.completed", { key: "c1" }).events);

  expect(carrying(asking)).toEqual(["read:m/x>m/a"]);
  expect(carrying(answered)).toEqual([]);
  expect(crossedSince(answered, 3)).toEqual(["read:m/x>m/a"]);
  expect(crossedSince(answered, 4)).toEqual([]);
});

test("places that were kept are read back, and whatever else is there is left out", () => {
  expect(restoredPlaces('[["agent:a",1,2],["b"],7,["c","x",3],["d",null,1]]')).toEqual(
    new Map([["agent:a", { x: 1, y: 2 }]]),
  );
  expect(restoredPlaces("no JSON").size).toBe(0);
  expect(restoredPlaces(null).size).toBe(0);
});

test("a window of another size keeps the middle that somebody chose, and never shows an empty plane", () => {
  const all: Box = { x: 0, y: 0, width: 600, height: 300 };
  const [wide, narrow] = [
    { width: 1440, height: 500 },
    { width: 390, height: 500 },
  ];
  const chosen = { x: 900, y: 40, zoom: 1 };

  const kept = resized(fitted(all, wide), wide, narrow, all);
  expect(centre(seenAt(kept, narrow))).toEqual(centre(seenAt(fitted(all, wide), wide)));
  expect(resized(chosen, wide, narrow, null)).toEqual({ x: 375, y: 40, zoom: 1 });

  const rescued = resized({ x: 1400, y: 40, zoom: 1 }, wide, narrow, all);
  const { x, y } = centre(all);
  expect(contains(seenAt(rescued, narrow), x, y)).toBe(true);
});

test("a card says in words why its task did not get done", () => {
  const why = (kind: string, data: Record<string, unknown>) => {
    const ended = churn().add("run:churn/letter", kind, { task: "churn/letter", ...data });
    const task = foldAll(ended.events).tasks.get("churn/letter");
    return task === undefined ? "" : taskEndWords(task).word;
  };

  expect(why("task.blocked", { reason: "dependency_failed", by: "churn/figures" })).toBe(
    "blocked: figures is not done",
  );
  expect(why("task.blocked", { reason: "missing_input", by: "sales@1" })).toBe("blocked: sales is missing");
  expect(why("task.ended", { status: "failed", reason: "stuck" })).toBe("failed: stuck");
  expect(why("task.ended", { status: "failed", reason: "store_full" })).toBe("failed: the disk is full");
  expect(why("task.ended", { status: "failed", reason: "something_new" })).toBe("failed: something new");
});

test("what is fitted is seen whole, and the search covers none of it", () => {
  const tall: Box = { x: -50, y: 20, width: 300, height: 900 };
  const { x, y, zoom } = fitted(tall, { width: 980, height: 500 });

  expect(y + tall.y * zoom).toBeGreaterThan(36);
  expect(y + (tall.y + tall.height) * zoom).toBeLessThan(500);
  expect(x + (tall.x + tall.width / 2) * zoom).toBeCloseTo(490);
});

test("a node that is wanted is put into view once, as soon as it is there", () => {
  bringIntoView("task:churn/figures.fork-1");

  expect(takeWanted(new Map())).toBe("");
  expect(takeWanted(new Set(["task:churn/figures.fork-1"]))).toBe("task:churn/figures.fork-1");
  expect(takeWanted(new Set(["task:churn/figures.fork-1"]))).toBe("");
});

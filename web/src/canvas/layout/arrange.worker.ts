import { arrange, type GoalGraph, type Point } from "./arrange";

/** Places of the blocks of some goals. */
export type Arranged = readonly (readonly [goal: string, at: ReadonlyMap<string, Point>])[];

addEventListener("message", ({ data }: MessageEvent<readonly GoalGraph[]>) => {
  const arranged: Arranged = data.map((one) => [one.goal, arrange(one)]);
  postMessage(arranged);
});

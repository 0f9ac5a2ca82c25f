import { useEffect, useMemo, useRef, useState } from "react";
import type { Scene } from "../scene";
import type { GoalGraph, Point } from "./arrange";
import type { Arranged } from "./arrange.worker";
import { goalsOf, type Layout, type Moved, type Places, spread } from "./goals";

const NO_PLACES: Places = new Map();

/** Asks the worker for the places of goals whose graph changed; one request at a time, the newest graph next. */
class Arranger {
  readonly #worker = new Worker(new URL("./arrange.worker.ts", import.meta.url), { type: "module" });
  readonly #told: (places: Places) => void;
  readonly #asked = new Map<string, string>();
  #places = new Map<string, ReadonlyMap<string, Point>>();
  #next: readonly GoalGraph[] = [];
  #isBusy = false;

  constructor(told: (places: Places) => void) {
    this.#told = told;
    this.#worker.onmessage = ({ data }: MessageEvent<Arranged>) => {
      this.#isBusy = false;
      this.#places = new Map([...this.#places, ...data]);
      this.#told(this.#places);
      this.#ask();
    };
  }

  want(goals: readonly GoalGraph[]): void {
    this.#next = goals;
    if (!this.#isBusy) this.#ask();
  }

  close(): void {
    this.#worker.terminate();
  }

  #ask(): void {
    const changed = this.#next.flatMap(({ goal, blocks, links }) => {
      const graph = { goal, blocks, links };
      const key = JSON.stringify(graph);
      if (this.#asked.get(goal) === key) return [];
      this.#asked.set(goal, key);
      return [graph];
    });
    this.#next = [];
    if (changed.length === 0) return;
    this.#isBusy = true;
    this.#worker.postMessage(changed);
  }
}

/** Where everything of a scene stands; what is new appears as soon as the worker has placed it. */
export function useLayout(scene: Scene, shape: string, moved: Moved): Layout {
  const [places, setPlaces] = useState(NO_PLACES);
  const arranger = useRef<Arranger | null>(null);
  // `shape` says all of the scene that places depend on.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const goals = useMemo(() => goalsOf(scene), [shape]);
  useEffect(() => {
    const mine = new Arranger(setPlaces);
    arranger.current = mine;
    return () => mine.close();
  }, []);
  useEffect(() => arranger.current?.want(goals), [goals]);
  return useMemo(() => spread(goals, places, moved), [goals, places, moved]);
}

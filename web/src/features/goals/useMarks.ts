import { type RefObject, useLayoutEffect, useState } from "react";
import type { Evidence } from "./evidence";
import { rangesOf } from "./marks";

/** Where the number of a piece of evidence stands, in pixels within the answer. */
export interface Mark {
  readonly number: number;
  readonly x: number;
  readonly y: number;
}

const NAME = "evidence";
const NONE: readonly Mark[] = [];

/** Marks quoted words in the answer, without a change to its elements, and says where their numbers belong. */
export function useMarks(
  root: RefObject<HTMLElement | null>,
  evidence: readonly Evidence[],
  source: string,
): readonly Mark[] {
  const [marks, setMarks] = useState(NONE);
  useLayoutEffect(() => {
    const element = root.current;
    if (element === null || evidence.length === 0) {
      setMarks(NONE);
      return undefined;
    }
    const measure = () => {
      const ranges = rangesOf(
        element,
        evidence.map((one) => one.quote),
      );
      const there = ranges.filter((one) => one !== null);
      if (typeof Highlight !== "undefined") CSS.highlights.set(NAME, new Highlight(...there));
      setMarks(evidence.flatMap((one, index) => markOf(element, one.number, ranges[index] ?? null)));
    };
    measure();
    const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(measure);
    observer?.observe(element);
    return () => {
      observer?.disconnect();
      if (typeof Highlight !== "undefined") CSS.highlights.delete(NAME);
    };
  }, [root, evidence, source]);
  return marks;
}

function markOf(root: HTMLElement, number: number, range: Range | null): readonly Mark[] {
  if (range === null || typeof range.getClientRects !== "function") return [];
  const rect = [...range.getClientRects()].at(-1);
  if (rect === undefined) return [];
  const origin = root.getBoundingClientRect();
  return [{ number, x: rect.right - origin.left, y: rect.top - origin.top }];
}

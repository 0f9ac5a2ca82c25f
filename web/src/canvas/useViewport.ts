import { type OnMove, type OnMoveStart, useReactFlow, useStore, type Viewport } from "@xyflow/react";
import { type RefObject, startTransition, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type Box, grown } from "./layout/box";
import { fitted, resized, seenAt, ZOOM_MAX, ZOOM_MIN } from "./layout/look";
import { leave, leftAt } from "./view";

const MARGIN = 0.3;

const widthOf = (state: { readonly width: number }) => state.width;
const heightOf = (state: { readonly height: number }) => state.height;

function holds(outer: Box, inner: Box): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

/**
 * The part of the plane for which nodes are mounted: somewhat more than what is seen, so that a small move mounts
 * nothing. Until somebody moves the view, it follows the newest goal; after "show everything" all that there is.
 */
export function useViewport(wrapper: RefObject<HTMLElement | null>, mission: string) {
  const flow = useReactFlow();
  const width = useStore(widthOf);
  const height = useStore(heightOf);
  const [view, setView] = useState<Box | null>(null);
  const mounted = useRef<{ readonly box: Box; readonly zoom: number } | null>(null);
  const [before] = useState(() => leftAt(mission));
  const follows = useRef<"newest" | "all" | "nothing">(before === null ? "newest" : "nothing");
  const size = useRef(before?.size ?? null);

  const look = useCallback(
    (at: Viewport) => {
      wrapper.current?.style.setProperty("--far", String(Math.max(1, 1 / at.zoom)));
      if (width === 0 || height === 0) return;
      const seen = seenAt(at, { width, height });
      const known = mounted.current;
      const isNear = known !== null && at.zoom / known.zoom < 1.5 && known.zoom / at.zoom < 1.5;
      if (known !== null && isNear && holds(known.box, seen)) return;
      const margin = MARGIN * Math.max(seen.width, seen.height);
      mounted.current = { box: grown(seen, margin), zoom: at.zoom };
      const next = mounted.current.box;
      // Mounting may take its time: what is there already moves on meanwhile.
      startTransition(() => setView(next));
    },
    [width, height, wrapper],
  );

  useEffect(() => {
    mounted.current = null;
    look(flow.getViewport());
  }, [flow, look]);

  const onMove: OnMove = useCallback(
    (_event, at) => {
      leave(follows.current === "nothing" ? { at, size: { width, height }, mission } : null);
      look(at);
    },
    [look, width, height, mission],
  );
  // Without an event it was this page that moved the view, not a person.
  const onMoveStart: OnMoveStart = useCallback((event) => {
    if (event !== null) follows.current = "nothing";
  }, []);

  const moves = useMemo(() => {
    const go = (at: Viewport) => void flow.setViewport(at);
    const byHand = (at: Viewport) => {
      follows.current = "nothing";
      go(at);
    };
    return {
      /** Shows all; and from then on whatever comes. */
      fit: (bounds: Box | null) => {
        follows.current = "all";
        if (bounds !== null && width > 0) go(fitted(bounds, { width, height }));
      },
      /** Shows the newest goal, also when somebody had moved the view. */
      followNewest: () => {
        follows.current = "newest";
      },
      follow: (newest: Box | null, all: Box | null) => {
        if (width === 0 || height === 0) return;
        const [was, now] = [size.current, { width, height }];
        size.current = now;
        const bounds = follows.current === "all" ? all : (newest ?? all);
        if (follows.current !== "nothing") {
          if (bounds !== null) go(fitted(bounds, now));
        } else if (was !== null && (was.width !== width || was.height !== height)) {
          go(resized(flow.getViewport(), was, now, all));
        }
      },
      showBox: (box: Box) => width > 0 && byHand(fitted(box, { width, height })),
      zoomBy: (factor: number) => {
        const { x, y, zoom } = flow.getViewport();
        const next = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, zoom * factor));
        const keep = (value: number, size: number) => size / 2 - ((size / 2 - value) * next) / zoom;
        byHand({ zoom: next, x: keep(x, width), y: keep(y, height) });
      },
      panBy: (dx: number, dy: number) => {
        const at = flow.getViewport();
        byHand({ ...at, x: at.x - dx, y: at.y - dy });
      },
      /** Puts a point into the middle, near enough to read. */
      centreOn: (x: number, y: number, readable = true) => {
        const zoom = readable ? Math.max(flow.getViewport().zoom, 0.75) : flow.getViewport().zoom;
        byHand({ zoom, x: width / 2 - x * zoom, y: height / 2 - y * zoom });
      },
    };
  }, [flow, width, height]);

  return { view, initial: before?.at ?? { x: 0, y: 0, zoom: 1 }, onMove, onMoveStart, moves };
}

import { useStore } from "@xyflow/react";
import { type PointerEvent, useMemo, useRef } from "react";
import { type Box, grown } from "./layout/box";
import type { Stage } from "./useStage";

interface MiniMapProps {
  readonly stage: Stage;
  readonly onGo: (x: number, y: number) => void;
}

const WIDTH = 176;
const HEIGHT = 112;

const transformOf = (state: { readonly transform: readonly [number, number, number] }) => state.transform;
const widthOf = (state: { readonly width: number }) => state.width;
const heightOf = (state: { readonly height: number }) => state.height;

function asPath(boxes: readonly Box[]): string {
  return boxes.map(({ x, y, width, height }) => `M${x} ${y}h${width}v${height}h${-width}z`).join("");
}

/** All there is, also what is not mounted, in four paths; press or drag to look elsewhere. */
export function MiniMap({ stage, onGo }: MiniMapProps) {
  const [tx, ty, zoom] = useStore(transformOf);
  const width = useStore(widthOf) / zoom;
  const height = useStore(heightOf) / zoom;
  const picture = useRef<SVGSVGElement>(null);
  const whole = grown(stage.bounds ?? { x: 0, y: 0, width: 1, height: 1 }, 80);
  const paths = useMemo(() => {
    const of = (kind: string) =>
      asPath(
        stage.scene.things.flatMap((thing) =>
          thing.kind === kind ? (stage.settled.get(thing.node) ?? []) : [],
        ),
      );
    return {
      rooms: asPath(stage.rooms.map((room) => room.box)),
      agent: of("agent"),
      artifact: of("artifact"),
    };
  }, [stage.scene, stage.settled, stage.rooms]);

  const go = (event: PointerEvent) => {
    const matrix = picture.current?.getScreenCTM();
    if (event.buttons !== 1 || matrix === null || matrix === undefined) return;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    onGo(x, y);
  };

  return (
    // For eyes and pointers: the keyboard pans with the arrows, and search finds everything.
    <svg
      ref={picture}
      aria-hidden="true"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`${whole.x} ${whole.y} ${whole.width} ${whole.height}`}
      className="cursor-pointer touch-none rounded-control border border-line bg-panel"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={go}
    >
      <path d={paths.rooms} fill="color-mix(in srgb, var(--membrane) 25%, transparent)" />
      <path d={paths.artifact} fill="var(--artifact)" />
      <path d={paths.agent} fill="var(--agent)" />
      <rect
        x={-tx / zoom}
        y={-ty / zoom}
        width={width}
        height={height}
        fill="none"
        stroke="var(--ink-2)"
        strokeWidth="1.5"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}

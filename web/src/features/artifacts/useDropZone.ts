import { type DragEvent, useRef, useState } from "react";

interface DropZone {
  readonly isOver: boolean;
  readonly on: {
    readonly onDragEnter: (event: DragEvent) => void;
    readonly onDragOver: (event: DragEvent) => void;
    readonly onDragLeave: (event: DragEvent) => void;
    readonly onDrop: (event: DragEvent) => void;
  };
}

function hasFiles(event: DragEvent): boolean {
  return [...event.dataTransfer.types].includes("Files");
}

/** Files that are dragged over an element; anything else that is dragged is none of its business. */
export function useDropZone(onFiles: (files: readonly File[]) => void): DropZone {
  // Each child that is entered is left again: only the count says whether one is within.
  const depth = useRef(0);
  const [isOver, setOver] = useState(false);
  const move = (event: DragEvent, by: number) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth.current = Math.max(0, depth.current + by);
    setOver(depth.current > 0);
  };
  return {
    isOver,
    on: {
      onDragEnter: (event) => move(event, 1),
      onDragOver: (event) => move(event, 0),
      onDragLeave: (event) => move(event, -1),
      onDrop: (event) => {
        move(event, -depth.current);
        if (hasFiles(event)) onFiles([...event.dataTransfer.files]);
      },
    },
  };
}

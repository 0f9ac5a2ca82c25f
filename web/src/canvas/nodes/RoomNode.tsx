import type { NodeProps } from "@xyflow/react";
import { memo } from "react";
import { cx } from "@/ui/cx";
import type { RoomNodeType } from "./types";

/** Where the name stands, by depth: names of rooms within each other do not lie on each other. */
const CORNERS = ["-top-2.5 left-4.5", "-bottom-2.5 left-4.5", "-top-2.5 right-4.5", "-bottom-2.5 right-4.5"];

/** The translucent ground of a membrane. Its name is a handle: the ground itself lets everything through. */
export const RoomNode = memo(function RoomNode({ data, selected }: NodeProps<RoomNodeType>) {
  const { membrane, tone, isIsland, depth } = data;
  const colour = tone === "membrane" ? "var(--membrane)" : "var(--membrane-2)";
  return (
    <div
      className={cx("size-full rounded-membrane border-[1.5px]", isIsland && "border-dashed")}
      style={{
        borderColor: selected === true ? colour : `color-mix(in srgb, ${colour} 60%, transparent)`,
        background: `color-mix(in srgb, ${colour} ${selected === true ? 12 : 7}%, transparent)`,
      }}
    >
      <span
        className={cx(
          "room-name pointer-events-auto absolute max-w-[80%] cursor-pointer truncate bg-paper px-2 text-12 font-semibold",
          CORNERS[depth % CORNERS.length],
        )}
        style={{ color: colour }}
      >
        {membrane.name}
        {!isIsland && ` · ${membrane.shared.size} shared`}
      </span>
    </div>
  );
});

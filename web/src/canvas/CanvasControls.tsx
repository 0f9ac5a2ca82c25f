import { useCommand } from "@/shell/useCommand";
import type { ReactNode } from "react";
import { IconButton } from "@/ui/IconButton";
import { ArrangeIcon, FitIcon, MinusIcon, PlusIcon } from "@/ui/icons/icons";

function Control({ id, icon }: { readonly id: string; readonly icon: ReactNode }) {
  const { command, enabled, run } = useCommand(id);
  return (
    <IconButton
      label={command.label}
      shortcut={command.shortcut}
      side="top"
      icon={icon}
      aria-disabled={!enabled.ok || undefined}
      onClick={() => enabled.ok && run()}
      className={enabled.ok ? undefined : "opacity-50"}
    />
  );
}

export function CanvasControls() {
  return (
    <div
      role="group"
      aria-label="View of the canvas"
      className="flex rounded-control border border-line bg-panel"
    >
      <Control id="canvas.zoom_out" icon={<MinusIcon />} />
      <Control id="canvas.zoom_in" icon={<PlusIcon />} />
      <Control id="canvas.fit" icon={<FitIcon />} />
      <Control id="canvas.arrange" icon={<ArrangeIcon />} />
    </div>
  );
}

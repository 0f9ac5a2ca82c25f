import { CommandButton } from "@/shell/CommandButton";
import { EmptyState } from "@/ui/EmptyState";
import { PlusIcon, WorldIcon } from "@/ui/icons/icons";

export function NoWorld() {
  return (
    <EmptyState
      title="No world is open"
      icon={<WorldIcon size={28} />}
      action={
        <CommandButton id="world.new" variant="primary" label="New world" icon={<PlusIcon size={14} />} />
      }
    >
      Choose one from the list, or make one from a template: its agents act and trade, tick by tick.
    </EmptyState>
  );
}

import { useMayAct } from "@/shell/useMayAct";
import { runCommand } from "@/commands/registry";
import { ActionButton } from "@/shell/ActionButton";
import { PlusIcon } from "@/ui/icons/icons";

/** Puts the cursor where a goal is typed. */
export function NewGoal({
  label = "New goal",
  variant = "primary",
}: {
  readonly label?: string;
  readonly variant?: "primary" | "plain";
}) {
  const may = useMayAct();
  return (
    <ActionButton
      label={label}
      variant={variant}
      may={may}
      icon={<PlusIcon size={14} />}
      onClick={() => void runCommand("goal.new")}
    />
  );
}

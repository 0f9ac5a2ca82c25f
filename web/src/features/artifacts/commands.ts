import { canAct, type Command } from "@/commands/command";
import { href, navigate } from "@/shell/route";

export const commands: readonly Command[] = [
  {
    id: "artifact.new",
    label: "Write an artifact",
    group: "Artifacts",
    words: "create new text json document",
    shortcut: "n a",
    enabled: canAct,
    run: () => navigate(href("artifacts", null, { do: "new" })),
  },
];

import { canAct, type Command } from "@/commands/command";
import { href, navigate } from "@/shell/route";

export const commands: readonly Command[] = [
  {
    id: "world.new",
    label: "New world …",
    group: "World",
    words: "society market template create",
    enabled: canAct,
    run: ({ route }) => navigate(href("world", route.screen === "world" ? route.id : null, { new: "1" })),
  },
];

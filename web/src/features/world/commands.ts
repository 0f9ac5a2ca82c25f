import { canAct, type Command, no } from "@/commands/command";
import { href, navigate } from "@/shell/route";
import { pause, resume, tick } from "./verbs";

function onWorld(
  rest: Pick<Command, "id" | "label" | "words">,
  run: (world: string) => Promise<unknown>,
): Command {
  return {
    group: "World",
    ...rest,
    enabled: (state) =>
      state.route.screen === "world" && state.route.id !== null ? canAct(state) : no("Open a world first."),
    run: async ({ route }) => {
      if (route.id !== null) await run(route.id);
    },
  };
}

export const commands: readonly Command[] = [
  {
    id: "world.new",
    label: "New world …",
    group: "World",
    words: "society market template create",
    enabled: canAct,
    run: ({ route }) => navigate(href("world", route.screen === "world" ? route.id : null, { new: "1" })),
  },
  onWorld({ id: "world.tick", label: "Pass one tick of the world", words: "time step" }, tick),
  onWorld({ id: "world.pause", label: "Pause the world", words: "hold time" }, pause),
  onWorld({ id: "world.resume", label: "Resume the world", words: "go on time" }, resume),
];

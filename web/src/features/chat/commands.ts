import { canAct, type Command, type CommandState, type Enabled, no, YES } from "@/commands/command";
import { chatOf } from "@/projection/chatCosts";
import type { Run } from "@/projection/graph";
import { href, navigate } from "@/shell/route";
import { setUi } from "@/state/ui";
import { branchOff, type Chat, goOn, isBusy, knownChat, MAIN, type Place, regenerate, stop } from "./api";

function placeOf({ route }: CommandState): Place | null {
  if (route.screen !== "chat" || route.id === null) return null;
  return { chat: route.id, branch: route.query["branch"] ?? MAIN };
}

/** What a command about the open chat needs of it; `fits` says why not, or nothing. */
function onChat(
  rest: Pick<Command, "id" | "label" | "words" | "shortcut">,
  fits: (chat: Chat) => Enabled,
  run: (place: Place) => Promise<unknown>,
): Command {
  return {
    group: "Chat",
    ...rest,
    enabled: (state) => {
      const may = canAct(state);
      const place = placeOf(state);
      if (!may.ok) return may;
      if (place === null) return no("Open a chat first.");
      const chat = knownChat(place);
      return chat === undefined ? no("The chat is still being read.") : fits(chat);
    },
    run: async (state) => {
      const place = placeOf(state);
      if (place !== null) await run(place);
    },
  };
}

function selectedRun({ ui, graph }: CommandState): Run | undefined {
  return ui.selection?.kind === "run" ? graph.runs.get(ui.selection.id) : undefined;
}

/** Goes to a new branch that ends with what a run has replied; also where no branch shows it. */
export async function openReply(place: Place, run: string): Promise<void> {
  const branch = await branchOff(place, { run });
  navigate(href("chat", place.chat, { branch }));
}

/** Whether the newest turn has a reply that another one, or more of it, can be made of. */
export function mayReplyAgain(chat: Chat): Enabled {
  if (isBusy(chat)) return no("A reply is on its way. Stop it first.");
  return (chat.turns.at(-1)?.number ?? 0) > 0 ? YES : no("Say something first.");
}

export function mayContinue(chat: Chat): Enabled {
  const may = mayReplyAgain(chat);
  if (!may.ok) return may;
  return chat.turns.at(-1)?.selected === 0 ? no("There is no reply to continue.") : YES;
}

export const commands: readonly Command[] = [
  {
    id: "chat.new",
    label: "New chat …",
    group: "Chat",
    words: "begin talk character profile session",
    enabled: canAct,
    run: ({ route }) =>
      navigate(
        route.screen === "chat"
          ? href("chat", route.id, { ...route.query, new: "1" })
          : href("chat", null, { new: "1" }),
      ),
  },
  onChat(
    {
      id: "chat.regenerate",
      label: "Reply again",
      words: "regenerate variant retry",
      shortcut: "alt+shift+r",
    },
    mayReplyAgain,
    regenerate,
  ),
  onChat(
    { id: "chat.continue", label: "Continue the reply", words: "extend more", shortcut: "alt+shift+c" },
    mayContinue,
    goOn,
  ),
  onChat(
    { id: "chat.stop", label: "Stop the reply", words: "abort cancel interrupt", shortcut: "alt+shift+x" },
    (chat) => (isBusy(chat) ? YES : no("Nothing is being written.")),
    stop,
  ),
  onChat(
    { id: "chat.branch", label: "Branch the chat here", words: "fork", shortcut: "alt+shift+b" },
    () => YES,
    async (place) => {
      const branch = await branchOff(place);
      navigate(href("chat", place.chat, { branch }));
    },
  ),
  {
    id: "chat.open_reply",
    label: "Open the reply of the run on a branch",
    group: "Chat",
    words: "variant turn deleted rewound selected",
    enabled: (state) =>
      chatOf(selectedRun(state)) === "" ? no("Select a run that replied in a chat first.") : canAct(state),
    run: async (state) => {
      const run = selectedRun(state);
      if (run === undefined) return;
      await openReply({ chat: chatOf(run), branch: MAIN }, run.id);
      setUi({ selection: null }); // on a phone the inspector of the run would cover the chat
    },
  },
];

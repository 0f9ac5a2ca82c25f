import { useState } from "react";
import { no, YES } from "@/commands/command";
import { useGraph } from "@/state/log";
import { ActionButton } from "@/shell/ActionButton";
import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { select } from "@/state/ui";
import { MoreIcon } from "@/ui/icons/icons";
import { Menu, type MenuItem } from "@/ui/Menu";
import { branchOff, type Chat, type ChatTurn, goOn, hide, isBusy, regenerate, type Role } from "./api";
import { mayContinue, mayReplyAgain } from "./commands";
import { DeleteDialog } from "./DeleteDialog";
import type { Edited } from "./EditWords";
import { NextSpeaker } from "./NextSpeaker";
import { OtherReplies } from "./OtherReplies";
import { RewindDialog } from "./RewindDialog";
import { spendWords } from "./spendWords";
import { VariantBar } from "./VariantBar";

interface TurnActionsProps {
  readonly chat: Chat;
  readonly turn: ChatTurn;
  readonly isLast: boolean;
  readonly onEdit: (kind: Edited) => void;
  readonly onOperations: (run: string) => void;
}

/** What can be done with a turn. */
export function TurnActions({ chat, turn, isLast, onEdit, onOperations }: TurnActionsProps) {
  const place = { chat: chat.id, branch: chat.branch };
  const [asking, setAsking] = useState<"rewind" | "turn" | "reply" | "others" | null>(null);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const graph = useGraph();
  const selected = turn.variants.find((one) => one.number === turn.selected);
  const run = selected?.run_id ?? "";
  const cost = spendWords(graph.runs.get(run)?.spend);
  const mayChange = may.ok && isBusy(chat) ? no("A reply is on its way. Stop it first.") : may;
  const branch = () =>
    attempt(async () => {
      const made = await branchOff(place, { turn: turn.number });
      navigate(href("chat", chat.id, { branch: made }));
    }, "You are on a new branch; the other one stays as it is.");
  const item = (id: string, label: string, run: () => void, needs = may): MenuItem => ({
    id,
    label,
    run,
    ...(needs.ok ? {} : { disabled: true, why: needs.why }),
  });
  const isBeyond = turn.number > 0;
  const hideItem = (role: Role, isHidden: boolean, what: string) =>
    item(
      `hide-${role}`,
      isHidden ? `Show ${what} in prompts again` : `Hide ${what} from prompts`,
      () => void attempt(() => hide(place, turn.number, role, !isHidden)),
      mayChange,
    );
  const items = [
    item("branch", "Branch from here", () => void branch()),
    ...(turn.variants.length > 1
      ? [item("others", "Open another reply on a branch …", () => setAsking("others"))]
      : []),
    ...(isLast ? [] : [item("rewind", "Rewind to here …", () => setAsking("rewind"), mayChange)]),
    ...(turn.said === ""
      ? []
      : [
          item("edit", "Say it in other words …", () => onEdit("branch")),
          item("reword", "Change your words …", () => onEdit("user"), mayChange),
          item("rerun", "Run it again …", () => onEdit("again"), mayChange),
          hideItem("user", turn.is_hidden, "your words"),
        ]),
    ...(selected === undefined
      ? []
      : [
          item("revise", "Change the reply …", () => onEdit("assistant"), mayChange),
          hideItem("assistant", selected.is_hidden, "the reply"),
        ]),
    ...(turn.variants.length > 1
      ? [
          {
            ...item("delete-reply", "Delete this reply …", () => setAsking("reply"), mayChange),
            danger: true,
          },
        ]
      : []),
    { ...item("delete", "Delete the turn …", () => setAsking("turn"), mayChange), danger: true },
    ...(run === ""
      ? []
      : [
          item("operations", "Show its operations", () => onOperations(run), YES),
          item("run", "Select its run", () => select("run", run), YES),
        ]),
  ];
  return (
    <div className="flex flex-wrap items-center gap-1.5 px-3 text-12 text-ink-3">
      <VariantBar place={place} turn={turn} may={mayChange} />
      {isLast && isBeyond && (
        <>
          <ActionButton
            label="Reply again"
            size="small"
            variant="quiet"
            hint="Another reply, with the state from before this turn."
            may={may.ok ? mayReplyAgain(chat) : may}
            busy={busy}
            onClick={() => void attempt(() => regenerate(place))}
          />
          <ActionButton
            label="Continue"
            size="small"
            variant="quiet"
            hint="More of this reply."
            may={may.ok ? mayContinue(chat) : may}
            busy={busy}
            onClick={() => void attempt(() => goOn(place))}
          />
        </>
      )}
      {isLast && <NextSpeaker chat={chat} may={mayChange} />}
      <Menu label={`More about turn ${turn.number}`} icon={<MoreIcon />} items={items} />
      <span className="num ml-auto text-11">
        {`${turn.user_tokens} + ${selected?.tokens ?? 0} tokens`}
        {cost !== "" && ` · run ${cost}`}
      </span>
      {asking === "rewind" && <RewindDialog chat={chat} turn={turn.number} onClose={() => setAsking(null)} />}
      {asking === "others" && <OtherReplies place={place} turn={turn} onClose={() => setAsking(null)} />}
      {(asking === "turn" || asking === "reply") && (
        <DeleteDialog
          place={place}
          turn={turn.number}
          variant={asking === "reply" ? turn.selected : null}
          onClose={() => setAsking(null)}
        />
      )}
    </div>
  );
}

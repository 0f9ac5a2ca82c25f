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
import { branchOff, type Chat, type ChatTurn, goOn, isBusy, regenerate } from "./api";
import { mayContinue, mayReplyAgain } from "./commands";
import { RewindDialog } from "./RewindDialog";
import { spendWords } from "./spendWords";
import { VariantBar } from "./VariantBar";

interface TurnActionsProps {
  readonly chat: Chat;
  readonly turn: ChatTurn;
  readonly isLast: boolean;
  readonly onEdit: () => void;
  readonly onOperations: (run: string) => void;
}

/** What can be done with a turn. */
export function TurnActions({ chat, turn, isLast, onEdit, onOperations }: TurnActionsProps) {
  const place = { chat: chat.id, branch: chat.branch };
  const [isRewinding, setRewinding] = useState(false);
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
  const items = [
    item("branch", "Branch from here", () => void branch()),
    ...(isLast ? [] : [item("rewind", "Rewind to here …", () => setRewinding(true), mayChange)]),
    ...(isBeyond ? [item("edit", "Say it in other words …", onEdit)] : []),
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
      <Menu label={`More about turn ${turn.number}`} icon={<MoreIcon />} items={items} />
      {cost !== "" && <span className="num ml-auto text-11">{cost}</span>}
      {isRewinding && <RewindDialog chat={chat} turn={turn.number} onClose={() => setRewinding(false)} />}
    </div>
  );
}

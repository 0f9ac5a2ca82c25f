import { useState } from "react";
import { setUi } from "@/state/ui";
import { Badge } from "@/ui/Badge";
import { ActionButton } from "@/shell/ActionButton";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { WarnIcon } from "@/ui/icons/icons";
import { TextField } from "@/ui/TextField";
import { ApprovalDialog } from "./ApprovalDialog";
import { headline, isOpenQuestion, type Matter } from "./inbox";
import { OutcomeDialog } from "./OutcomeDialog";
import { useAnswer } from "./useAnswer";
import { useMatters } from "./useMatters";

/** What waits for a person: above every screen as long as something does. */
export default function Approvals() {
  const matters = useMatters();
  const [openId, setOpenId] = useState("");
  const open = matters.find((one) => one.id === openId);
  const first = matters[0];
  if (first === undefined) return null;
  const close = () => setOpenId("");
  const review = (matter: Matter) =>
    matter.kind === "launch" ? setUi({ plan: matter.runId }) : setOpenId(matter.id);
  return (
    <section
      aria-label="Waiting for a person"
      data-matters
      className="max-h-40 overflow-auto border-b border-warn bg-[color-mix(in_srgb,var(--warn)_10%,var(--panel))] scroll-thin"
    >
      <ul>
        {matters.map((matter, index) => (
          <Row
            key={matter.id}
            matter={matter}
            count={index === 0 && matters.length > 1 ? matters.length : 0}
            onReview={() => review(matter)}
          />
        ))}
      </ul>
      {open?.kind === "question" && (
        <ApprovalDialog key={`${open.id} ${open.isWhole}`} matter={open} onClose={close} />
      )}
      {open?.kind === "outcome" && <OutcomeDialog key={open.id} matter={open} onClose={close} />}
    </section>
  );
}

interface RowProps {
  readonly matter: Matter;
  /** Of all, on the first of several; 0 elsewhere. */
  readonly count: number;
  readonly onReview: () => void;
}

function Row({ matter, count, onReview }: RowProps) {
  const { busy, error, may, approve, deny } = useAnswer(matter);
  const [words, setWords] = useState("");
  const isQuestion = matter.kind === "question";
  const isOpen = isOpenQuestion(matter);
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-1.5">
      <span className="text-warn">
        <WarnIcon />
      </span>
      {count > 0 && <Badge count={count} label="matters wait for a person" tone="warn" />}
      <p className={cx("min-w-40 flex-1", isOpen ? "line-clamp-3" : "truncate")}>
        {isQuestion && <strong>{matter.who} </strong>}
        {headline(matter)}
        {!isQuestion && <span className="text-ink-2"> · {matter.who}</span>}
        {isQuestion && matter.args !== undefined && (
          <span className="num ml-2 text-ink-2">{JSON.stringify(matter.args)}</span>
        )}
      </p>
      {error !== "" && <p className="w-full text-12 text-bad">{error}</p>}
      {isQuestion && (
        <form
          className={cx("flex items-center gap-3", isOpen && "min-w-60 flex-1 max-tablet:w-full")}
          onSubmit={(event) => {
            event.preventDefault();
            if (may.ok && !busy) void approve(words.trim());
          }}
        >
          {isOpen && (
            <TextField
              bare
              label={`Your answer to ${matter.who}`}
              placeholder="Your answer"
              className="min-w-0 flex-1"
              maxLength={20_000}
              disabled={!may.ok}
              value={words}
              onChange={(event) => setWords(event.target.value)}
            />
          )}
          <ActionButton
            label="Deny"
            size="small"
            may={may}
            busy={busy}
            onClick={() => void deny(words.trim())}
          />
          <ActionButton
            label={words.trim() === "" ? "Approve" : "Answer"}
            type="submit"
            size="small"
            variant="primary"
            may={may}
            busy={busy}
          />
        </form>
      )}
      <Button size="small" onClick={onReview}>
        {matter.kind === "launch" ? "Review plan" : "Review"}
      </Button>
    </li>
  );
}

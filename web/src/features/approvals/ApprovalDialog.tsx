import { type ChangeEvent, type ReactNode, useState } from "react";
import { unless } from "@/commands/command";
import { dollars } from "@/ui/amounts";
import { ActionButton } from "@/shell/ActionButton";
import { Dialog } from "@/ui/Dialog";
import { Skeleton } from "@/ui/Skeleton";
import { TextField } from "@/ui/TextField";
import { dayAndTime } from "@/ui/time";
import { eventLog } from "@/state/log";
import { headline, isOpenQuestion, type Matter, readArguments, shown } from "./inbox";
import { useAnswer } from "./useAnswer";

interface ApprovalDialogProps {
  readonly matter: Matter;
  readonly onClose: () => void;
}

/** One question, with all that one must know to answer it. */
export function ApprovalDialog({ matter, onClose }: ApprovalDialogProps) {
  const original = shown(matter.args);
  const [text, setText] = useState(original);
  const [note, setNote] = useState("");
  const { busy, error, may, approve, deny } = useAnswer(matter);
  const canEdit = matter.isWhole && matter.args !== undefined;
  const isEdited = canEdit && text !== original;
  const read = readArguments(text, matter.args);
  const isAnswered = isOpenQuestion(matter) && note.trim() !== "";
  const closeIf = async (answered: Promise<boolean>) => {
    if (await answered) onClose();
  };
  return (
    <Dialog
      title={`${matter.who} ${headline(matter)}`}
      onClose={onClose}
      footer={
        <>
          <p className="mr-auto self-center text-12 text-ink-2">
            {may.ok ? consequence(matter, isEdited) : may.why}
          </p>
          <ActionButton
            label="Deny"
            variant="danger"
            may={may}
            busy={busy}
            onClick={() => void closeIf(deny(note))}
          />
          <ActionButton
            label={isEdited ? "Approve with changes" : isAnswered ? "Answer" : "Approve"}
            variant="primary"
            may={unless(may, isEdited && read.error)}
            busy={busy}
            onClick={() => void closeIf(approve(note, isEdited ? { value: read.value } : undefined))}
          />
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p className="text-15 break-words whitespace-pre-wrap">{matter.question}</p>
        <Facts matter={matter} />
        {canEdit && (
          <TextField
            label="Arguments"
            rows={Math.min(14, Math.max(4, text.split("\n").length))}
            className="font-mono"
            spellCheck={false}
            value={text}
            disabled={!may.ok}
            error={isEdited && read.error !== "" ? read.error : undefined}
            hint="Change them, and the call is made with what you wrote."
            onChange={(event: ChangeEvent<HTMLTextAreaElement>) => setText(event.target.value)}
          />
        )}
        {!matter.isWhole && <Skeleton label="the arguments" rows={3} />}
        {matter.isWhole && !canEdit && matter.details !== null && shown(matter.details) !== "{}" && (
          <pre className="num max-h-60 overflow-auto rounded-control border border-line bg-paper p-2 whitespace-pre-wrap">
            {shown(matter.details)}
          </pre>
        )}
        <TextField
          label={isOpenQuestion(matter) ? "Your answer" : "Note"}
          rows={2}
          value={note}
          disabled={!may.ok}
          hint="The agent reads it; the log keeps it with your name."
          onChange={(event) => setNote(event.target.value)}
        />
        {error !== "" && (
          <p role="alert" className="text-bad">
            {error}
          </p>
        )}
      </div>
    </Dialog>
  );
}

function consequence(matter: Matter, isEdited: boolean): string {
  if (matter.tool === "") return "It waits until you answer.";
  return isEdited
    ? `${matter.tool} is called once, with your arguments.`
    : `${matter.tool} is called once. If you deny, it is not called and the agent is told.`;
}

function Fact({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-2">{label}</dt>
      <dd className="num break-all">{children}</dd>
    </>
  );
}

function Facts({ matter }: { readonly matter: Matter }) {
  const graph = eventLog.graph;
  const run = graph.runs.get(matter.runId);
  const agent = graph.agents.get(matter.agent);
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-0.5 text-12">
      {matter.tool !== "" && <Fact label="Tool">{matter.tool}</Fact>}
      <Fact label="Asked by">{matter.agent === "" ? matter.runId : matter.agent}</Fact>
      <Fact label="In run">
        {matter.runId}, step {matter.step}
      </Fact>
      {run !== undefined && (
        <Fact label="Cost so far">
          {dollars(run.spend.microusd)} for this run
          {agent !== undefined && `, ${dollars(agent.spend.microusd)} for ${agent.name}`}
        </Fact>
      )}
      {matter.expiresUs !== null && <Fact label="Expires">{dayAndTime(matter.expiresUs)}</Fact>}
    </dl>
  );
}

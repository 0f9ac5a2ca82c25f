import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { unless } from "@/commands/command";
import { inWords } from "@/client/http";
import { isFinal } from "@/projection/graph";
import type { Run } from "@/projection/graph";
import { ActionButton } from "@/shell/ActionButton";
import { UnknownCall } from "@/shell/UnknownCall";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { ErrorState } from "@/ui/ErrorState";
import { Select } from "@/ui/Select";
import { Skeleton } from "@/ui/Skeleton";
import { TextField } from "@/ui/TextField";
import { runQuery } from "./runQueries";
import { useVerb } from "./useVerb";

const ANSWERS = [
  { value: "probe", label: "Ask the tool what became of it" },
  { value: "succeeded", label: "It succeeded" },
  { value: "failed", label: "It failed" },
  { value: "retry", label: "Do it again" },
] as const;
type Answer = (typeof ANSWERS)[number]["value"];

const SAYS: Readonly<Record<Answer, string>> = {
  probe:
    "The tool looks in the outside system by its idempotency key. What has not happened, and cannot any more, is done again when the run goes on.",
  succeeded: "The run goes on with the result below, as if the tool had returned it.",
  failed: "The run goes on and sees the error below.",
  retry:
    "The tool is called again with the same idempotency key. If the first call went through and the other side does not know the key, it happens twice.",
};

/** Of a call that was at work when its run ended: nobody makes it again, and no code hears of it. */
const SAYS_LATE: Readonly<Record<Answer, string>> = {
  ...SAYS,
  probe: "The tool looks in the outside system by its idempotency key.",
  succeeded: "The call counts as made, with the result below, so that it can be undone.",
  failed: "The call counts as one that did nothing.",
};

function parsedJson(text: string): { readonly value: unknown } | null {
  try {
    return { value: text.trim() === "" ? null : (JSON.parse(text) as unknown) };
  } catch {
    return null;
  }
}

/** Settles a call of which nobody knows whether it took effect. */
export function ReconcileDialog({ run, onClose }: { readonly run: Run; readonly onClose: () => void }) {
  const shown = useQuery(runQuery(run));
  const steps = shown.data?.unknown_outcomes ?? [];
  const [chosen, setChosen] = useState("");
  const [answer, setAnswer] = useState<Answer>("probe");
  const [text, setText] = useState("");
  const action = useVerb(run.id);
  const may = useMayAct();
  const step = steps.includes(chosen) ? chosen : (steps[0] ?? "");
  const isLate = isFinal(run.status) && !step.includes("/undo");
  const answers = isLate ? ANSWERS.filter((one) => one.value !== "retry") : ANSWERS;
  const call = shown.data?.unknown_calls.find((one) => one.step === step);
  const result = parsedJson(text);
  const isBroken = answer === "succeeded" && result === null;
  const body = {
    step,
    answer,
    ...(answer === "succeeded" && { result: result?.value }),
    ...(answer === "failed" && { message: text }),
  };
  return (
    <Dialog
      title={`Settle an unknown outcome: ${run.id}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <ActionButton
            label="Settle"
            variant="primary"
            busy={action.isPending}
            may={unless(may, step === "" ? "Choose a step first." : isBroken && "The result is no JSON yet.")}
            onClick={() => action.mutate({ verb: "reconcile", body }, { onSuccess: onClose })}
          />
        </>
      }
    >
      {shown.isPending && <Skeleton label="the steps to settle" />}
      {shown.isError && <ErrorState {...inWords(shown.error)} onRetry={() => void shown.refetch()} />}
      {shown.isSuccess && steps.length === 0 && <p>Every outcome is known by now.</p>}
      {steps.length > 0 && (
        <div className="flex flex-col gap-3">
          <Select
            label="Step"
            value={step}
            options={steps.map((one) => ({ value: one, label: one }))}
            onChange={setChosen}
          />
          {call !== undefined && <UnknownCall call={call} />}
          <Select label="What became of it" value={answer} options={answers} onChange={setAnswer} />
          <p className="text-ink-2">{(isLate ? SAYS_LATE : SAYS)[answer]}</p>
          {(answer === "succeeded" || answer === "failed") && (
            <TextField
              label={answer === "succeeded" ? "Result, as JSON" : "Error"}
              rows={4}
              value={text}
              error={isBroken ? 'Expected JSON, such as 12 or {"sent": 3}.' : undefined}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </div>
      )}
    </Dialog>
  );
}

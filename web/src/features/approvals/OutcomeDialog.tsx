import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { unless } from "@/commands/command";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { ActionButton } from "@/shell/ActionButton";
import { UnknownCall } from "@/shell/UnknownCall";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import type { Matter } from "./inbox";
import { type Reconciling, useAnswer } from "./useAnswer";

interface OutcomeDialogProps {
  readonly matter: Matter;
  readonly onClose: () => void;
}

const WAYS = [
  { value: "probe", label: "Ask the tool what became of it" },
  { value: "succeeded", label: "It took effect: I know its result" },
  { value: "failed", label: "It did not take effect" },
  { value: "retry", label: "Call it again" },
] as const;
type Way = (typeof WAYS)[number]["value"];

const CONSEQUENCES: Readonly<Record<Way, string>> = {
  probe: "The tool looks up its own record. What has not happened, and cannot any more, is called again.",
  succeeded: "The run goes on with the result that you give.",
  failed: "The agent is told that the call failed.",
  retry: "If it had taken effect after all, it takes effect twice.",
};

/** A call whose outcome nobody knows: a person says what became of it. */
export function OutcomeDialog({ matter, onClose }: OutcomeDialogProps) {
  const [way, setWay] = useState<Way>("probe");
  const [result, setResult] = useState("{}");
  const [message, setMessage] = useState("");
  const { busy, error, may, reconcile } = useAnswer(matter);
  const { data: run } = useQuery({
    queryKey: ["runs", matter.runId],
    queryFn: ({ signal }) => api.get<Shape<"RunShown">>(path("runs", matter.runId), undefined, signal),
  });
  const call = run?.unknown_calls.find((one) => one.step === matter.step);
  const wrong = way === "succeeded" ? jsonMistake(result) : "";
  const settle = async () => {
    if (await reconcile(answerOf(way, result, message))) onClose();
  };
  return (
    <Dialog
      title="What became of it?"
      onClose={onClose}
      footer={
        <>
          <p className="mr-auto self-center text-12 text-ink-2">{may.ok ? CONSEQUENCES[way] : may.why}</p>
          <ActionButton
            label="Settle"
            variant={way === "retry" ? "danger" : "primary"}
            may={unless(may, wrong)}
            busy={busy}
            onClick={() => void settle()}
          />
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <p>
          {matter.question}. It was step <span className="num">{matter.step}</span> of{" "}
          <span className="num break-all">{matter.runId}</span>, by {matter.who}.
        </p>
        {call !== undefined && <UnknownCall call={call} />}
        {run !== undefined && run.unknown_outcomes.length > 1 && (
          <p className="text-ink-2">
            {run.unknown_outcomes.length} calls of this run are open; this settles the one named here.
          </p>
        )}
        <Select label="What became of the call" value={way} options={WAYS} onChange={setWay} />
        {way === "succeeded" && (
          <TextField
            label="Result as JSON"
            rows={4}
            className="font-mono"
            value={result}
            error={wrong === "" ? undefined : wrong}
            onChange={(event) => setResult(event.target.value)}
          />
        )}
        {way === "failed" && (
          <TextField
            label="Why it failed"
            rows={2}
            value={message}
            onChange={(event) => setMessage(event.target.value)}
          />
        )}
        {error !== "" && (
          <p role="alert" className="text-bad">
            {error}
          </p>
        )}
      </div>
    </Dialog>
  );
}

function jsonMistake(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is no JSON yet: ${error instanceof Error ? error.message : ""}`;
  }
}

function answerOf(way: Way, result: string, message: string): Reconciling {
  if (way === "succeeded") return { answer: way, result: JSON.parse(result) as unknown };
  if (way === "failed") return { answer: way, message };
  return { answer: way };
}

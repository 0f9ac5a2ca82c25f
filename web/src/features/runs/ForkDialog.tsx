import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { unless } from "@/commands/command";
import { inWords } from "@/client/http";
import { forkRun } from "@/commands/fork";
import type { Run } from "@/projection/graph";
import { forkPoints } from "@/projection/timeline";
import { href, navigate } from "@/shell/route";
import { useRunHistory } from "@/state/runHistory";
import { setUi } from "@/state/ui";
import { ActionButton } from "@/shell/ActionButton";
import { useMayAct } from "@/shell/useMayAct";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { ForkSteering, type ForkedSteering } from "./ForkSteering";

const EFFECTS = [
  { value: "recorded", label: "Return what was recorded, ask me before any other" },
  { value: "stub", label: "Refuse each call with an error" },
  { value: "live", label: "Make each call: it acts outside" },
] as const;

type Effects = (typeof EFFECTS)[number]["value"];

interface ForkDialogProps {
  readonly run: Run;
  /** The last event that is shared; without it the person may name one. */
  readonly after?: number;
  readonly onClose: () => void;
}

const CHANGES = [
  { value: "none", label: "Nothing" },
  { value: "model", label: "The model" },
  { value: "steering", label: "The steering of its agent" },
  { value: "ref", label: "An artifact: a prompt, a tool, a skill, data" },
] as const;

/** Only a task goes by steering. */
const WITHOUT_STEERING = CHANGES.filter((one) => one.value !== "steering");

type Change = (typeof CHANGES)[number]["value"];

/** A new run that shares the history of this one up to an event, with one thing changed. */
export function ForkDialog({ run, after, onClose }: ForkDialogProps) {
  const events = useRunHistory(run.id);
  const newest = useMemo(
    () => forkPoints(events, events.length - 1).find((point) => point.runId === run.id)?.seq ?? 1,
    [events, run.id],
  );
  const [at, setAt] = useState(after === undefined ? "" : String(after));
  const [change, setChange] = useState<Change>("none");
  const [was, setWas] = useState("");
  const [becomes, setBecomes] = useState("");
  const [model, setModel] = useState("");
  const [steering, setSteering] = useState<ForkedSteering | null>(null);
  const [name, setName] = useState("");
  const [effects, setEffects] = useState<Effects>("recorded");
  const may = useMayAct();
  const isOpen = at.trim() === "";
  const seq = Number(at);
  const isSeq = isOpen || (Number.isSafeInteger(seq) && seq >= 1 && seq <= newest);
  const lacks =
    change === "model" && model.trim() === ""
      ? "Name the other model."
      : change === "steering" && steering === null
        ? "Move the puck or a limit."
        : change === "ref" && (was.trim() === "" || becomes.trim() === "") && "Name both artifacts.";
  const fork = useMutation({
    mutationFn: () =>
      forkRun(run.id, {
        ...(!isOpen && { at: seq }),
        effects,
        ...(change === "model" && { changes: { model: model.trim() } }),
        ...(change === "steering" && { changes: { steering } }),
        ...(change === "ref" && { changes: { [was.trim()]: becomes.trim() } }),
        ...(name.trim() !== "" && { new_id: name.trim() }),
      }),
    onSuccess: (made) => {
      onClose();
      setUi({ selection: null }); // on a phone the inspector of the fork would cover both
      navigate(href("runs", run.id, { with: made }));
    },
  });
  const failure = fork.isError ? inWords(fork.error) : null;
  return (
    <Dialog
      title={`Fork ${run.id}`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <ActionButton
            label="Fork"
            variant="primary"
            busy={fork.isPending}
            may={unless(unless(may, !isSeq && "Write a number that the run has."), lacks)}
            onClick={() => fork.mutate()}
          />
        </>
      }
    >
      <p className="mb-3 text-ink-2">
        {isOpen
          ? "The new run shares what this one has done up to the first step that the change reaches, or to its end"
          : `The new run shares events 1 to ${isSeq ? seq : "…"}`}
        , without paying for it again, and goes its own way from there. This run stays as it is.
      </p>
      <div className="flex flex-col gap-3">
        <TextField
          label={`After event (1 to ${newest}, optional)`}
          inputMode="numeric"
          value={at}
          error={isSeq ? undefined : `Expected a number from 1 to ${newest}.`}
          onChange={(event) => setAt(event.target.value)}
        />
        <Select
          label="What is changed"
          value={change}
          options={run.loop === "task" && run.agent !== "" ? CHANGES : WITHOUT_STEERING}
          onChange={setChange}
        />
        {change === "model" && (
          <TextField
            label="Another model"
            placeholder={run.model}
            value={model}
            onChange={(event) => setModel(event.target.value)}
          />
        )}
        {change === "steering" && (
          <ForkSteering agent={run.agent} steering={steering} onChange={setSteering} />
        )}
        {change === "ref" && (
          <>
            <TextField
              label="In place of"
              placeholder="prompts/analyst@3"
              value={was}
              onChange={(event) => setWas(event.target.value)}
            />
            <TextField
              label="It uses"
              placeholder="prompts/analyst@4"
              value={becomes}
              onChange={(event) => setBecomes(event.target.value)}
            />
          </>
        )}
        <Select label="Calls with a side effect" value={effects} options={EFFECTS} onChange={setEffects} />
        <TextField
          label="Id of the new run (optional)"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        {failure !== null && (
          <p role="alert" className="text-bad">
            {failure.title} {failure.advice}
          </p>
        )}
      </div>
    </Dialog>
  );
}

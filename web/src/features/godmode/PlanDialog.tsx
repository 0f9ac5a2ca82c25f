import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useRef, useState } from "react";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { unless } from "@/commands/command";
import { inWords } from "@/client/http";
import { dollars, whole } from "@/ui/amounts";
import { ActionButton } from "@/shell/ActionButton";
import { loadPart } from "@/shell/loadPart";
import { Dialog } from "@/ui/Dialog";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { type Draft, draftOf } from "./draft";
import { focusField, MistakeList } from "./MistakeList";
import { PlanForm } from "./PlanForm";
import { useLaunch } from "./useLaunch";

/** With the library that draws it, which the first visit does not need. */
const PlanGraph = lazy(() => loadPart(() => import("./PlanGraph")));

type Mission = Shape<"MissionShown">;

interface PlanDialogProps {
  readonly mission: string;
  readonly onClose: () => void;
}

/** A plan before its launch: all of it can be changed, and nothing of it has begun. */
export function PlanDialog({ mission, onClose }: PlanDialogProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ["missions", mission, "plan"],
    queryFn: ({ signal }) => api.get<Mission>(path("missions", mission), undefined, signal),
    staleTime: Infinity,
  });
  const plan = data?.plan ?? null;
  if (data !== undefined && plan !== null) {
    return <Editor key={mission} mission={data} initial={draftOf(plan)} onClose={onClose} />;
  }
  return (
    <Dialog title="Plan" width="wide" onClose={onClose}>
      {error !== null ? (
        <ErrorState
          title={inWords(error).title}
          advice={inWords(error).advice}
          onRetry={() => void refetch()}
        />
      ) : data === undefined ? (
        <Skeleton label="the plan" rows={8} />
      ) : (
        <ErrorState
          title="This plan cannot be shown"
          advice="Another version of Artelier wrote it. Discard the goal and plan it again."
        />
      )}
    </Dialog>
  );
}

interface EditorProps {
  readonly mission: Mission;
  readonly initial: Draft;
  readonly onClose: () => void;
}

function Editor({ mission, initial, onClose }: EditorProps) {
  const [draft, setDraft] = useState(initial);
  const ground = useRef<HTMLDivElement>(null);
  const isChanged = JSON.stringify(draft) !== JSON.stringify(initial);
  const { mistakes, refusals, busy, may, launch, discard } = useLaunch(mission.id, draft, isChanged, onClose);
  return (
    <Dialog
      title="Plan"
      width="wide"
      onClose={onClose}
      footer={
        <>
          <p className="mr-auto self-center text-12 text-ink-2">
            {may.ok ? "Nothing begins before you launch it." : may.why}
          </p>
          <ActionButton
            label="Discard"
            variant="danger"
            may={unless(may, busy === "launch" && "It is being launched.")}
            busy={busy === "discard"}
            onClick={() => void discard()}
          />
          <ActionButton
            label="Launch"
            variant="primary"
            busy={busy === "launch"}
            may={unless(may, busy === "discard" && "It is being discarded.")}
            onClick={() => void launch()}
          />
        </>
      }
    >
      <div ref={ground} className="flex flex-col gap-4">
        <p className="text-15">{mission.goal}</p>
        <EstimateLine mission={mission} isChanged={isChanged} />
        <MistakeList draft={draft} mistakes={mistakes} refusals={refusals} />
        <Suspense fallback={<Skeleton label="the graph" rows={4} />}>
          <PlanGraph draft={draft} onChange={setDraft} onShow={(path) => focusField(ground.current, path)} />
        </Suspense>
        <PlanForm draft={draft} mistakes={mistakes} onChange={setDraft} />
      </div>
    </Dialog>
  );
}

function EstimateLine({ mission, isChanged }: { readonly mission: Mission; readonly isChanged: boolean }) {
  const { estimate, budget_microusd: budget } = mission;
  if (estimate === null || estimate === undefined) return null;
  const cost = estimate.cost_microusd;
  return (
    <p className="text-ink-2">
      About <span className="num">{whole(estimate.calls)}</span> calls of models,{" "}
      {cost === null || cost === undefined ? (
        "at a price that nobody knows"
      ) : (
        <>
          {estimate.is_limit === true ? "at most" : "about"} <span className="num">{dollars(cost)}</span>
        </>
      )}
      {budget !== null && budget !== undefined && (
        <>
          {" "}
          of a budget of <span className="num">{dollars(budget)}</span>
        </>
      )}
      . {isChanged && "That was the plan as it was proposed; you have changed it since."}
    </p>
  );
}

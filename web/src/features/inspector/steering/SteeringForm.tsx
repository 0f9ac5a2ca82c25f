import { useState } from "react";
import type { Shape } from "@/client/types";
import { Part } from "../parts/Part";
import { Limits } from "./Limits";
import { Pad } from "./Pad";
import type { Place } from "./place";
import { PolicyWords } from "./PolicyWords";
import { usePolicy } from "./usePolicy";
import type { SteeringPatch } from "./useSteering";

interface SteeringFormProps {
  readonly document: Shape<"Document">;
  readonly inForce: Shape<"Document">;
  readonly policy: Shape<"Policy"> | undefined;
  readonly effect: string;
  readonly disabled: boolean;
  readonly capped: number | null;
  readonly used: number | null;
  readonly iteration: number;
  readonly onSave: (patch: SteeringPatch) => void;
}

/** Pad, policy and limits of one steering document. */
export function SteeringForm({
  document,
  inForce,
  policy,
  effect,
  disabled,
  capped,
  used,
  iteration,
  onSave,
}: SteeringFormProps) {
  const [moving, setMoving] = useState<Place | null>(null);
  const preview = usePolicy(moving, inForce.sliders.safety);
  const shown = preview ?? policy;
  return (
    <>
      <div className="flex flex-col gap-2 border-b border-line px-4 py-3">
        <Pad
          label="Policy bias"
          saved={document.xy}
          axes={document.axes}
          disabled={disabled}
          onMove={setMoving}
          onCommit={(xy) => onSave({ xy: { x: xy.x, y: xy.y } })}
        />
        {shown !== undefined && <PolicyWords policy={shown} isPreview={moving !== null} effect={effect} />}
      </div>
      <Part title="Hard limits, kept by the kernel">
        <Limits
          sliders={document.sliders}
          inForce={inForce.sliders}
          {...{ disabled, capped, used, iteration }}
          onSave={(sliders) => onSave({ sliders })}
        />
      </Part>
    </>
  );
}

import { Button } from "@/ui/Button";
import { WarnIcon } from "@/ui/icons/icons";
import type { SteeringShown } from "./useSteering";
import { versionWords } from "./words";

interface LostProps {
  readonly newest: SteeringShown | undefined;
  readonly onAgain: () => void;
  readonly onForget: () => void;
}

/** Somebody else steered at the same moment: says who, and lets the person decide with the newest in sight. */
export function Lost({ newest, onAgain, onForget }: LostProps) {
  return (
    <div role="alert" className="flex flex-col gap-2 rounded-control border border-warn p-2.5">
      <p className="flex gap-2">
        <span className="mt-0.5 text-warn">
          <WarnIcon />
        </span>
        <span>
          Somebody else was faster, so your change was not saved. You see the newest now.
          {newest !== undefined && ` ${versionWords(newest)}`}
        </span>
      </p>
      <div className="flex justify-end gap-2">
        <Button size="small" onClick={onForget}>
          Keep the newest
        </Button>
        <Button size="small" variant="primary" onClick={onAgain}>
          Save mine on top
        </Button>
      </div>
    </div>
  );
}

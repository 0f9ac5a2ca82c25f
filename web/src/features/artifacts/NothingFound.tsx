import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { ArtifactsIcon } from "@/ui/icons/icons";

interface NothingFoundProps {
  readonly isFiltered: boolean;
  readonly isBusy: boolean;
  readonly onClear: () => void;
}

export function NothingFound({ isFiltered, isBusy, onClear }: NothingFoundProps) {
  if (isBusy) {
    return (
      <p role="status" className="p-6 text-center text-ink-2">
        Searching contents …
      </p>
    );
  }
  if (isFiltered) {
    return (
      <EmptyState title="Nothing matches" action={<Button onClick={onClear}>Show everything</Button>}>
        Use fewer words, or another kind or owner.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="Nothing was made yet" icon={<ArtifactsIcon size={28} />}>
      Upload a file for agents to read, write an artifact yourself, or give a goal: what its agents make
      appears here.
    </EmptyState>
  );
}

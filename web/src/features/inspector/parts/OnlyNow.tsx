import { setUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";

/** In place of what the server tells of the present alone, while somebody looks at the past. */
export function OnlyNow({ what }: { readonly what: string }) {
  return (
    <EmptyState
      title="You are looking at the past"
      action={<Button onClick={() => setUi({ travel: null })}>Back to now</Button>}
    >
      {what} is told as it is now; go back to now to see it.
    </EmptyState>
  );
}

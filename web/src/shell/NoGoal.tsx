import { EmptyState } from "@/ui/EmptyState";
import { Link } from "./Link";

/** Where an address names a goal that is not there. */
export function NoGoal({ id }: { readonly id: string }) {
  return (
    <EmptyState
      title="There is no such goal"
      action={
        <Link to="/" className="text-accent underline">
          See all goals
        </Link>
      }
    >
      Nothing is known of {id}.
    </EmptyState>
  );
}

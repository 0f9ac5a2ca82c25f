import { EmptyState } from "@/ui/EmptyState";
import { Link } from "./Link";

interface NoSuchProps {
  readonly what: string;
  readonly id: string;
  /** Where those are that are there. */
  readonly to: string;
  readonly link: string;
}

/** Where an address names something that is not there: what is missing, and where to go. */
export function NoSuch({ what, id, to, link }: NoSuchProps) {
  return (
    <EmptyState
      title={`There is no such ${what}`}
      action={
        <Link to={to} className="text-accent underline">
          {link}
        </Link>
      }
    >
      Nothing is known of <span className="break-all">{id}</span>.
    </EmptyState>
  );
}

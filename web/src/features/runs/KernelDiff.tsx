import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { counted } from "@/projection/counted";
import { api, inWords, path } from "@/client/http";
import type { Shape } from "@/client/types";
import type { Run } from "@/projection/graph";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";

/** Asked anew whenever one of the two went on. */
function diffQuery(run: Run, other: Run) {
  return queryOptions({
    queryKey: ["runs", run.id, "diff", other.id, run.lastPosition, other.lastPosition],
    queryFn: ({ signal }) =>
      api.get<Shape<"RunDiff">>(`${path("runs", run.id)}/diff`, { with: other.id }, signal),
    placeholderData: keepPreviousData,
  });
}

/** What the server says of two runs: what they share, and the first step at which they part, with both sides. */
export function KernelDiff({ run, other }: { readonly run: Run; readonly other: Run }) {
  const { data, error, refetch } = useQuery(diffQuery(run, other));
  if (error !== null) return <ErrorState {...inWords(error)} onRetry={() => void refetch()} />;
  if (data === undefined) return <Skeleton label="the comparison" rows={2} />;
  const parting = data.first_divergence;
  return (
    <section aria-label="Where they part" className="border-b border-line px-3 pb-2 text-12">
      <p className="text-ink-2">
        Shared history: {counted(data.shared.events, "event")}. Equal after that:{" "}
        {counted(data.equal_steps, "step")}.{" "}
        {parting === null && "No step differs, and both came to the same end."}
      </p>
      {parting !== null && (
        <>
          <p className="font-medium">
            {parting.key === null ? "They end differently: " : "First difference at step "}
            {parting.key !== null && <span className="num">{parting.key}: </span>}
            {parting.what}
            {parting.section !== null && ` in ${parting.section}`}
          </p>
          <dl className="grid grid-cols-2 gap-x-3">
            <Side name="This run" value={parting.a} />
            <Side name="The other run" value={parting.b} />
          </dl>
        </>
      )}
    </section>
  );
}

function Side({ name, value }: { readonly name: string; readonly value: unknown }) {
  const shown = typeof value === "string" ? value : value == null ? "nothing" : JSON.stringify(value);
  return (
    <div className="min-w-0">
      <dt className="text-ink-3">{name}</dt>
      <dd className="num line-clamp-3 break-words text-ink-2" title={shown}>
        {shown}
      </dd>
    </div>
  );
}

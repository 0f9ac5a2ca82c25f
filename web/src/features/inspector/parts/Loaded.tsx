import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ApiError, inWords } from "@/client/http";
import { EmptyState } from "@/ui/EmptyState";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";

interface LoadedProps<T> {
  readonly query: UseQueryResult<T>;
  /** What is being read, for the sentence: "the steering". */
  readonly what: string;
  readonly rows?: number;
  /** Shown in place of an error that is none, such as a conflict that only says "nothing to do". */
  readonly instead?: (error: ApiError) => ReactNode;
  readonly children: (data: T) => ReactNode;
}

/** What was read, or that it is being read, may not be read, is not there, or that it failed. */
export function Loaded<T>({ query, what, rows = 4, instead, children }: LoadedProps<T>) {
  const { data, error } = query;
  if (error instanceof ApiError) {
    const other = instead?.(error);
    if (other !== undefined) return other;
    if (error.status === 403) {
      return (
        <EmptyState title="No right to read">
          {inWords(error).advice || `Ask the owner of ${what} to let you read it.`}
        </EmptyState>
      );
    }
  }
  if (data === undefined && error !== null) {
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={() => void query.refetch()} />;
  }
  if (data === undefined) return <Skeleton label={what} rows={rows} />;
  return (
    <>
      {error !== null && (
        <p role="status" className="border-b border-line px-4 py-1.5 text-12 text-warn">
          {inWords(error).title} What you see of {what} may be old.
        </p>
      )}
      {children(data)}
    </>
  );
}

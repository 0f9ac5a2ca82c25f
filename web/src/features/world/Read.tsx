import type { ReactNode } from "react";
import { inWords } from "@/client/http";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";

interface ReadProps<T> {
  readonly what: string;
  readonly query: {
    readonly data: T | undefined;
    readonly error: Error | null;
    readonly refetch: () => void;
  };
  readonly children: (data: T) => ReactNode;
}

/** What was read, or that it is being read, or why it could not be. */
export function Read<T>({ what, query, children }: ReadProps<T>) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error === null) return <Skeleton label={what} rows={6} />;
  const { title, advice } = inWords(query.error);
  return <ErrorState title={title} advice={advice} onRetry={query.refetch} />;
}

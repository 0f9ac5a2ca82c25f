interface SkeletonProps {
  readonly label: string;
  readonly rows?: number;
  /** Whether it stands for a whole screen, whose heading it has then. */
  readonly isScreen?: boolean;
}

/** Something is being read. `label` says what; eyes see quiet bars. */
export function Skeleton({ label, rows = 3, isScreen = false }: SkeletonProps) {
  const Words = isScreen ? "h1" : "span";
  return (
    <div role="status" className="flex flex-col gap-2 p-4">
      <Words className="sr-only">Loading {label}</Words>
      {Array.from({ length: rows }, (_, index) => (
        <div
          key={index}
          aria-hidden="true"
          className="h-4 skeleton"
          style={{ width: `${92 - ((index * 23) % 45)}%` }}
        />
      ))}
    </div>
  );
}

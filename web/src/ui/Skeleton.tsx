/** Something is being read. `label` says what; eyes see quiet bars. */
export function Skeleton({ label, rows = 3 }: { readonly label: string; readonly rows?: number }) {
  return (
    <div role="status" className="flex flex-col gap-2 p-4">
      <span className="sr-only">Loading {label}</span>
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

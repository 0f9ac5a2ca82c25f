import type { Shape } from "@/client/types";
import { dayAndTime } from "@/ui/time";

/** A call whose outcome nobody knows, with what a person needs to find it in the outside system. */
export function UnknownCall({ call }: { readonly call: Shape<"UnknownCall"> }) {
  const facts: readonly (readonly [string, string])[] = [
    ["Tool", call.tool],
    ["Arguments", JSON.stringify(call.arguments)],
    ["Idempotency key", call.idempotency_key],
    ["Called", dayAndTime(call.requested_us)],
    ["Unknown since", `${dayAndTime(call.unresolved_us)} (${call.code})`],
    ["The tool's own look-up", call.probe_error ?? ""],
  ];
  return (
    <dl aria-label="The call" className="grid grid-cols-[max-content_1fr] gap-x-3 gap-y-1 text-12">
      {facts
        .filter(([, value]) => value !== "")
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-ink-2">{name}</dt>
            <dd className="break-all whitespace-pre-wrap">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

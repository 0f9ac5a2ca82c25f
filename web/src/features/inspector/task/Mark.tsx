import { CheckIcon, CloseIcon } from "@/ui/icons/icons";

/** Whether a criterion is met: a sign, a colour, and a word for ears. */
export function Mark({ isMet }: { readonly isMet: boolean }) {
  return (
    <span className={`mt-0.5 ${isMet ? "text-money" : "text-warn"}`}>
      {isMet ? <CheckIcon size={14} /> : <CloseIcon size={12} />}
      <span className="sr-only">{isMet ? "Met: " : "Not met: "}</span>
    </span>
  );
}

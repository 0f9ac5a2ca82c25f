import type { Enabled } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { RightIcon } from "@/ui/icons/icons";
import { no } from "@/commands/command";
import { type ChatTurn, type Place, selectVariant } from "./api";

interface VariantBarProps {
  readonly place: Place;
  readonly turn: ChatTurn;
  readonly may: Enabled;
}

/** Which of the replies this is, and the way to the others. A reply comes with the state that it left. */
export function VariantBar({ place, turn, may }: VariantBarProps) {
  const { attempt } = useAttempt();
  const numbers = turn.variants.map((one) => one.number);
  const at = numbers.indexOf(turn.selected);
  if (numbers.length < 2) return null;
  const go = (index: number) => {
    const variant = numbers[index];
    if (variant !== undefined) void attempt(() => selectVariant(place, turn.number, variant));
  };
  return (
    <span role="group" aria-label="Replies" className="inline-flex items-center">
      <ActionButton
        bare
        label="Previous reply"
        icon={
          <span className="rotate-180">
            <RightIcon size={14} />
          </span>
        }
        may={may.ok && at <= 0 ? no("This is the first.") : may}
        onClick={() => go(at - 1)}
      />
      <span role="status" className="num text-11">
        {at + 1} of {numbers.length}
      </span>
      <ActionButton
        bare
        label="Next reply"
        icon={<RightIcon size={14} />}
        may={may.ok && at === numbers.length - 1 ? no("This is the last.") : may}
        onClick={() => go(at + 1)}
      />
    </span>
  );
}

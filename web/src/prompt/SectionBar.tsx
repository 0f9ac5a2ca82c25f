import { whole } from "@/ui/amounts";
import { cx } from "@/ui/cx";
import { FILL_TONE } from "@/ui/tone";
import { type Section, toneOf } from "./sections";

/** The sections of a prompt as parts of one line, as long as their tokens; what follows the mark is not cached. */
export function SectionBar({ sections }: { readonly sections: readonly Section[] }) {
  const total = sections.reduce((sum, section) => sum + section.tokens, 0);
  const cached = sections.reduce((sum, section) => sum + (section.is_cached ? section.tokens : 0), 0);
  const words = sections.map((section) => `${section.tag} ${whole(section.tokens)}`).join(", ");
  return (
    <div
      role="img"
      aria-label={`${whole(total)} tokens: ${words}. ${whole(cached)} of them stand before the cache boundary.`}
      className="relative py-1"
    >
      <div className="flex h-2.5 gap-px overflow-hidden rounded-[3px] bg-line">
        {sections.map((section, index) => (
          <div
            key={index}
            title={`${section.tag}: ${whole(section.tokens)} tokens`}
            className={cx("min-w-0.5", FILL_TONE[toneOf(section.tag)])}
            style={{ flexGrow: Math.max(section.tokens, 0), flexBasis: 0 }}
          />
        ))}
      </div>
      {total > 0 && cached > 0 && (
        <div
          className="absolute inset-y-0 border-r-2 border-dashed border-ink"
          style={{ left: `calc(${(100 * cached) / total}% - 2px)` }}
        />
      )}
    </div>
  );
}

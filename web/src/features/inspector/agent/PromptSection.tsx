import type { Shape } from "@/client/types";
import { whole } from "@/ui/amounts";

const PIECE =
  "num max-h-80 overflow-auto rounded-control border border-line bg-paper p-2 whitespace-pre-wrap break-words scroll-thin";

/** One part: where it comes from and why it is there; opened, its exact text. */
export function PromptSection({ section }: { readonly section: Shape<"NextSection"> }) {
  const facts = [
    section.reason,
    section.source.join(", "),
    section.cut === "" ? "" : `shortened: ${section.cut}`,
  ];
  return (
    <li className="border-b border-line last:border-b-0">
      <details>
        <summary className="flex items-baseline justify-between gap-2 py-1.5">
          <span className="min-w-0">
            <span className="font-medium">{section.tag}</span>
            <span className="ml-1.5 text-11 break-words text-ink-3">{facts.filter(Boolean).join(" · ")}</span>
          </span>
          <span className="num shrink-0">{whole(section.tokens)}</span>
        </summary>
        <div className="flex flex-col gap-2 pb-2">
          {section.messages.length === 0 ? (
            <pre tabIndex={0} className={PIECE}>
              {section.text}
            </pre>
          ) : (
            section.messages.map((message, index) => (
              <div key={index}>
                <p className="text-11 text-ink-3">{message.role}</p>
                <pre tabIndex={0} className={PIECE}>
                  {message.text}
                </pre>
              </div>
            ))
          )}
        </div>
      </details>
    </li>
  );
}

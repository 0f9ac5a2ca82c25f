import { turnWords } from "@/projection/turnWords";
import { TONE_OF } from "@/shell/meaning";
import { Pill, Status } from "@/ui/Badge";
import { Markdown } from "@/ui/markdown/Markdown";
import { moment } from "@/ui/time";
import type { Place, Variant } from "./api";
import type { LiveRun, ShownReply } from "./liveReply";
import { ReplyEnd } from "./ReplyEnd";
import { Waiting } from "./Waiting";

interface ReplyProps {
  readonly name: string;
  /** The address of a picture of who replies. */
  readonly portrait: string | null;
  readonly shown: ShownReply;
  readonly live: LiveRun | null;
  readonly place: Place;
}

/** A reply, part by part, and what is being written. */
export function Reply({ name, portrait, shown, live, place }: ReplyProps) {
  const { variant, writing, thinking, isWriting } = shown;
  if (variant === undefined && live === null) return null;
  const progress = live === null ? null : turnWords(live.turn);
  return (
    <div className="px-3">
      <p className="flex items-center justify-between gap-2 text-12">
        <span className="flex items-center gap-2 font-semibold text-agent">
          {portrait !== null && (
            <img src={portrait} alt="" className="size-7 rounded-control border border-line object-cover" />
          )}
          {name} {variant?.is_hidden === true && <Pill>hidden from prompts</Pill>}
        </span>
        {variant !== undefined && <span className="num text-11 text-ink-3">{moment(variant.at_us)}</span>}
      </p>
      {variant !== undefined && <Parts variant={variant} />}
      {thinking !== "" && <Aside label="Reasoning" text={thinking} isOpen={writing === ""} />}
      {writing !== "" && (
        <p className="break-words whitespace-pre-wrap">
          {writing}
          {isWriting && (
            <span
              aria-hidden="true"
              className="ml-0.5 inline-block h-3.5 w-1.5 translate-y-0.5 animate-pulse bg-agent"
            />
          )}
        </p>
      )}
      {variant !== undefined && <ReplyEnd variant={variant} place={place} />}
      {progress !== null && (
        <div role="status" className="mt-1 flex flex-col items-start gap-1.5 text-12">
          <Status tone={TONE_OF[progress.meaning]}>{progress.word}</Status>
          {live !== null && live.turn.waitsFor !== "" && <Waiting turn={live.turn} place={place} />}
        </div>
      )}
    </div>
  );
}

const CHANNELS: Readonly<Record<string, string>> = {
  reasoning: "Reasoning",
  tool: "Tool",
  state: "State",
};

function Parts({ variant }: { readonly variant: Variant }) {
  return variant.parts.map((part, index) => {
    const label = CHANNELS[part.channel];
    if (label === undefined) {
      return (
        <div key={index}>
          {part.operation !== "" && (
            <Pill>
              <span className="sr-only">written by operation </span>
              {part.operation}
            </Pill>
          )}
          <Markdown source={part.text} />
        </div>
      );
    }
    return <Aside key={index} label={label} text={part.text} operation={part.operation} />;
  });
}

interface AsideProps {
  readonly label: string;
  readonly text: string;
  readonly operation?: string;
  readonly isOpen?: boolean;
}

/** What stands beside the reply: its reasoning, a tool's words, a state. */
function Aside({ label, text, operation = "", isOpen = false }: AsideProps) {
  return (
    <details open={isOpen} className="my-1 text-12 text-ink-2">
      <summary>
        {label}
        {operation !== "" && <span className="num text-11"> · {operation}</span>}
      </summary>
      <p className="mt-1 border-l border-line pl-2 break-words whitespace-pre-wrap">{text}</p>
    </details>
  );
}

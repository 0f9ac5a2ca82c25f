import { useMemo } from "react";
import { href } from "@/shell/route";
import { Link } from "@/shell/Link";
import { select } from "@/state/ui";
import { Pill } from "@/ui/Badge";
import { ArtifactsIcon } from "@/ui/icons/icons";
import { moment } from "@/ui/time";
import { MediumView } from "@/prompt/MediumView";
import { type ChatTurn, mediumAddress, type Place } from "./api";
import { attachedWords, type Attachment, splitAttachments } from "./attachments";

interface WordsProps {
  readonly name: string;
  readonly place: Place;
  readonly turn: ChatTurn;
}

/** What a person said, with the files that went along, wherever they were attached. */
export function Words({ name, place, turn }: WordsProps) {
  const { said, user } = turn;
  const { words, attachments } = useMemo(() => splitAttachments(said), [said]);
  return (
    <div className="rounded-card bg-panel-2 px-3 py-2">
      <p className="flex items-baseline justify-between gap-2 text-12">
        <span className="font-semibold">
          {name} {turn.is_hidden && <Pill>hidden from prompts</Pill>}
        </span>
        <span className="num text-11 text-ink-3">{moment(turn.at_us)}</span>
      </p>
      <p className="break-words whitespace-pre-wrap">{words}</p>
      {user !== said && (
        <details className="mt-1 text-12 text-ink-2">
          <summary>The model reads other words</summary>
          <p className="mt-1 break-words whitespace-pre-wrap">{user}</p>
        </details>
      )}
      {attachments.length > 0 && (
        <ul aria-label="Attached" className="mt-1.5 flex flex-wrap gap-1.5">
          {attachments.map((one, index) => (
            <li key={index}>
              <Chip attachment={one} />
            </li>
          ))}
        </ul>
      )}
      {turn.media.map((one) => (
        <MediumView
          key={one.position}
          place={`Attachment ${one.position} of ${turn.media.length} of turn ${turn.number}${excerpt(words)}`}
          source={mediumAddress(place, turn.number, one.position)}
          mediaType={one.media_type}
          sizeBytes={one.size_bytes}
          pages={one.pages}
        />
      ))}
    </div>
  );
}

const EXCERPT_CHARS_MAX = 80;

function excerpt(words: string): string {
  const chars = [...words];
  if (chars.length === 0) return "";
  return chars.length <= EXCERPT_CHARS_MAX
    ? `: ${words}`
    : `: ${chars.slice(0, EXCERPT_CHARS_MAX).join("")} …`;
}

function Chip({ attachment }: { readonly attachment: Attachment }) {
  const id = attachment.ref.split("@", 1)[0] ?? attachment.ref;
  return (
    <Link
      to={href("artifacts", id)}
      onClick={() => select("artifact", id)}
      className="inline-flex items-center gap-1.5 rounded-control border border-line bg-panel px-2 py-1 text-12 hover:border-edge"
    >
      <span className="text-artifact">
        <ArtifactsIcon size={14} />
      </span>
      <span className="num">{attachment.ref}</span>
      <span className="text-ink-3">{attachedWords(attachment)}</span>
    </Link>
  );
}

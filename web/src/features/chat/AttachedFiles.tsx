import { whole } from "@/ui/amounts";
import { IconButton } from "@/ui/IconButton";
import { ArtifactsIcon, CloseIcon } from "@/ui/icons/icons";
import { type Attachment, ATTACHED_CHARS_MAX } from "./attachments";

interface AttachedFilesProps {
  readonly attachments: readonly Attachment[];
  readonly onRemove: (ref: string) => void;
}

/** Files that go along with the next words, and how much of each the model will read. */
export function AttachedFiles({ attachments, onRemove }: AttachedFilesProps) {
  if (attachments.length === 0) return null;
  return (
    <ul aria-label="Attached files" className="flex flex-wrap gap-1.5">
      {attachments.map(({ ref, charsTotal }) => (
        <li
          key={ref}
          className="inline-flex items-center gap-1.5 rounded-control border border-line bg-panel-2 pl-2 text-12"
        >
          <span className="text-artifact">
            <ArtifactsIcon size={14} />
          </span>
          <span className="num">{ref}</span>
          <span className="text-ink-3">
            {charsTotal === 0
              ? "no text: the model learns its name only"
              : charsTotal > ATTACHED_CHARS_MAX
                ? `the model reads the first ${whole(ATTACHED_CHARS_MAX)} of ${whole(charsTotal)} characters`
                : `${whole(charsTotal)} characters`}
          </span>
          <IconButton
            label={`Leave ${ref} out; it stays an artifact`}
            size="small"
            icon={<CloseIcon size={12} />}
            onClick={() => onRemove(ref)}
          />
        </li>
      ))}
    </ul>
  );
}

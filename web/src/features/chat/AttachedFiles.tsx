import { IconButton } from "@/ui/IconButton";
import { ArtifactsIcon, CloseIcon } from "@/ui/icons/icons";
import { attachedWords, type Attachment } from "./attachments";

interface AttachedFilesProps {
  readonly attachments: readonly Attachment[];
  readonly onRemove: (ref: string) => void;
}

/** Files that go along with the next words, and how much of each the model will read. */
export function AttachedFiles({ attachments, onRemove }: AttachedFilesProps) {
  if (attachments.length === 0) return null;
  return (
    <ul aria-label="Attached files" className="flex flex-wrap gap-1.5">
      {attachments.map((one) => (
        <li
          key={one.ref}
          className="inline-flex items-center gap-1.5 rounded-control border border-line bg-panel-2 pl-2 text-12"
        >
          <span className="text-artifact">
            <ArtifactsIcon size={14} />
          </span>
          <span className="num">{one.ref}</span>
          <span className="text-ink-3">{attachedWords(one)}</span>
          <IconButton
            label={`Leave ${one.ref} out; it stays an artifact`}
            size="small"
            icon={<CloseIcon size={12} />}
            onClick={() => onRemove(one.ref)}
          />
        </li>
      ))}
    </ul>
  );
}

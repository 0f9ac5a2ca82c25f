import { type ReactNode, useRef, useState } from "react";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { cx } from "@/ui/cx";
import { PlusIcon } from "@/ui/icons/icons";

interface FileDropProps {
  readonly label: string;
  readonly hint: string;
  /** Takes one file in; resolves to what is said of it. */
  readonly onFile: (file: File) => Promise<{ readonly title: string; readonly advice: string }>;
  readonly className?: string;
  readonly children?: ReactNode;
}

const ACCEPT = ".png,.json,.jsonl,.lorebook";

/** A place where files of other programs are dropped, or chosen with its button. */
export function FileDrop({ label, hint, onFile, className, children }: FileDropProps) {
  const [isOver, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  /** Files are taken in one after the other, also those that are dropped while others are on their way. */
  const before = useRef<Promise<void>>(Promise.resolve());
  const take = (files: readonly File[]) => {
    before.current = before.current.then(() => takeAll(files));
  };
  const takeAll = async (files: readonly File[]) => {
    for (const file of files) {
      const ok = await attempt(
        () => onFile(file),
        (words) => words,
      );
      if (!ok) return; // what is wrong with it was said; the rest waits for the person
    }
  };
  return (
    <div
      className={cx(className, isOver && "bg-panel-2 outline outline-accent")}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(may.ok);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (may.ok) take([...event.dataTransfer.files]);
      }}
    >
      {children}
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        accept={ACCEPT}
        aria-label={`${label}: files`}
        onChange={(event) => {
          take([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
      <div className="p-2">
        <ActionButton
          label={label}
          size="small"
          icon={<PlusIcon size={12} />}
          may={may}
          busy={busy}
          hint={hint}
          onClick={() => picker.current?.click()}
        />
      </div>
    </div>
  );
}

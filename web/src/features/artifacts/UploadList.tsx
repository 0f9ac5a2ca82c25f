import { useMemo } from "react";
import { select, useUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Status } from "@/ui/Badge";
import { IconButton } from "@/ui/IconButton";
import { CloseIcon } from "@/ui/icons/icons";
import { Meter } from "@/ui/Meter";
import { bytes } from "@/ui/sizes";
import { dismissFinished, dismissUpload, type Upload, useUploads } from "./uploads";

/** What was dropped: how far each file is, what it became, or why it was refused. */
export function UploadList() {
  const items = useUploads((state) => state.items);
  const tenant = useUi((state) => state.me?.tenant);
  const mine = useMemo(() => items.filter((one) => one.tenant === tenant), [items, tenant]);
  if (mine.length === 0) return null;
  const open = mine.filter((one) => one.state === "waiting" || one.state === "sending").length;
  return (
    <section aria-label="Uploads" className="mx-4 mb-2 rounded-card border border-line bg-panel">
      <div className="flex items-center gap-2 border-b border-line px-3 py-1.5">
        <h2 className="flex-1 text-13" aria-live="polite">
          {open === 0 ? "Uploads: all finished" : `Uploads: ${open} of ${mine.length} on their way`}
        </h2>
        <Button size="small" variant="quiet" onClick={dismissFinished}>
          Clear finished
        </Button>
      </div>
      <ul className="max-h-44 divide-y divide-line overflow-auto scroll-thin">
        {mine.map((item) => (
          <UploadRow key={item.key} item={item} />
        ))}
      </ul>
    </section>
  );
}

function UploadRow({ item }: { readonly item: Upload }) {
  return (
    <li className="flex min-h-9 items-center gap-3 px-3 py-1">
      <span className="min-w-0 flex-1 break-words">
        {item.id === "" ? (
          item.name
        ) : (
          <button
            type="button"
            className="text-left text-accent underline"
            onClick={() => select("artifact", item.id)}
          >
            {item.id}
          </button>
        )}
      </span>
      <UploadState item={item} />
      {item.state !== "sending" && (
        <IconButton
          label={item.state === "waiting" ? `Do not upload ${item.name}` : `Dismiss ${item.name}`}
          size="small"
          icon={<CloseIcon size={12} />}
          onClick={() => dismissUpload(item.key)}
        />
      )}
    </li>
  );
}

function UploadState({ item }: { readonly item: Upload }) {
  if (item.state === "refused") return <span className="max-w-120 text-12 text-bad">{item.words}</span>;
  if (item.state === "done") return <Status tone="money">{item.words}</Status>;
  if (item.state === "waiting") return <Status tone="neutral">waits, {bytes(item.sizeBytes)}</Status>;
  const words = `${bytes(item.sentBytes)} of ${bytes(item.sizeBytes)}`;
  return (
    <span className="flex items-center gap-2">
      <Meter
        label={`${item.name}, sent`}
        value={item.sentBytes}
        max={item.sizeBytes}
        valueText={words}
        tone="artifact"
        warnFrom={2}
        className="w-24"
      />
      <span className="num text-ink-2">{words}</span>
    </span>
  );
}

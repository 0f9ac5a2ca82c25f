import { useRef } from "react";
import type { Enabled } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { UpIcon } from "@/ui/icons/icons";
import { uploadFiles } from "./uploads";

/** Opens the browser's choice of files. */
export function UploadButton({ may }: { readonly may: Enabled }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={(event) => {
          uploadFiles(event.target.files ?? []);
          event.target.value = "";
        }}
      />
      <ActionButton
        label="Upload files"
        may={may}
        icon={<UpIcon size={12} />}
        onClick={() => input.current?.click()}
      />
    </>
  );
}

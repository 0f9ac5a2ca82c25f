import { useRef } from "react";
import { ActionButton } from "@/ui/ActionButton";
import { UpIcon } from "@/ui/icons/icons";
import { uploadFiles } from "./uploads";

/** Opens the browser's choice of files. */
export function UploadButton({ why }: { readonly why: string | null }) {
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
      <ActionButton why={why} icon={<UpIcon size={12} />} onClick={() => input.current?.click()}>
        Upload files
      </ActionButton>
    </>
  );
}

import { counted } from "@/projection/counted";
import { whole } from "@/ui/amounts";

interface MediumViewProps {
  /** Where it stands, such as "Attachment 1 of 2 of turn 3": nobody knows what is to be seen in it. */
  readonly place: string;
  /** The address of its bytes. */
  readonly source: string;
  readonly mediaType: string;
  readonly sizeBytes: number;
  /** Of a PDF. */
  readonly pages: number | null;
}

const NOUNS: Readonly<Record<string, string>> = {
  image: "Image",
  audio: "Sound",
  application: "PDF",
  text: "Text",
};

/** What a message showed the model beside words: an image as a picture, a sound or a PDF to download. */
export function MediumView({ place, source, mediaType, sizeBytes, pages }: MediumViewProps) {
  const kind = mediaType.split("/", 1)[0] ?? "";
  const facts = [mediaType, pages === null ? "" : counted(pages, "page"), `${whole(sizeBytes)} bytes`];
  const words = `${NOUNS[kind] ?? "File"} (${facts.filter(Boolean).join(", ")})`;
  return (
    <figure className="mt-1 flex flex-col items-start gap-1 rounded-control border border-line bg-paper p-2 text-12">
      {kind === "image" && (
        <img
          src={source}
          alt={place}
          loading="lazy"
          className="max-h-80 max-w-full rounded-control object-contain"
        />
      )}
      <figcaption className="text-ink-2">
        {words} ·{" "}
        <a href={source} download className="text-accent underline">
          Download
        </a>
      </figcaption>
    </figure>
  );
}

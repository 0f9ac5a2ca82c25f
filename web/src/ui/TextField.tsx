import { type InputHTMLAttributes, type Ref, type TextareaHTMLAttributes, useId } from "react";
import { cx } from "./cx";

interface Common {
  readonly label: string;
  /** Hides the label from eyes, never from screen readers. */
  readonly bare?: boolean;
  readonly hint?: string | undefined;
  /** What is wrong and what to do. */
  readonly error?: string | undefined;
}

type Line = Common &
  InputHTMLAttributes<HTMLInputElement> & { readonly rows?: undefined; readonly ref?: Ref<HTMLInputElement> };
type Area = Common &
  TextareaHTMLAttributes<HTMLTextAreaElement> & {
    readonly rows: number;
    readonly ref?: Ref<HTMLTextAreaElement>;
  };

const BOX =
  "w-full rounded-control border bg-paper px-2.5 text-13 text-ink disabled:opacity-60 aria-[invalid=true]:border-bad";

/** One line, or several with `rows`. */
export function TextField(props: Line | Area) {
  const { label, bare = false, hint, error, className, ...rest } = props;
  const id = useId();
  const described = [hint !== undefined && `${id}-hint`, error !== undefined && `${id}-error`]
    .filter(Boolean)
    .join(" ");
  const shared = {
    id,
    "aria-invalid": error !== undefined || undefined,
    "aria-describedby": described === "" ? undefined : described,
  };
  return (
    <div className={cx("flex flex-col gap-1", className)}>
      <label htmlFor={id} className={bare ? "sr-only" : "text-12 text-ink-2"}>
        {label}
      </label>
      {rest.rows === undefined ? (
        <input
          {...(rest as InputHTMLAttributes<HTMLInputElement>)}
          {...shared}
          className={cx(BOX, "h-8 border-edge")}
        />
      ) : (
        <textarea
          {...(rest as TextareaHTMLAttributes<HTMLTextAreaElement>)}
          {...shared}
          className={cx(BOX, "border-edge py-1.5")}
        />
      )}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="text-11 text-ink-3">
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p id={`${id}-error`} className="text-12 text-bad">
          {error}
        </p>
      )}
    </div>
  );
}

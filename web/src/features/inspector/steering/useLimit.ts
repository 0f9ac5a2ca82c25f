import { useEffect, useRef, useState } from "react";

/** Steps by keyboard that follow each other are one change. */
export const REST_MS = 400;

interface LimitState {
  readonly shown: number;
  readonly move: (value: number) => void;
  readonly rest: (value: number) => void;
}

/** A value that is moved, and saved once when it has come to rest as another one. */
export function useLimit(value: number, onSave: (value: number) => void): LimitState {
  const [draft, setDraft] = useState<number | null>(null);
  const waiting = useRef<number | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const save = useRef<() => void>(() => undefined);

  useEffect(() => {
    save.current = () => {
      clearTimeout(timer.current);
      const wanted = waiting.current;
      waiting.current = null;
      setDraft(null);
      if (wanted !== null && wanted !== value) onSave(wanted);
    };
  });
  useEffect(() => () => save.current(), []);

  return {
    shown: draft ?? value,
    move: (next) => {
      // It goes on from where it rested a moment ago.
      if (next !== waiting.current) clearTimeout(timer.current);
      setDraft(next);
    },
    rest: (next) => {
      clearTimeout(timer.current);
      waiting.current = next;
      timer.current = setTimeout(() => save.current(), REST_MS);
    },
  };
}

import { useEffect, useState } from "react";

/** The value as it was when it had not changed for `waitMs`. */
export function useDebounced<T>(value: T, waitMs = 250): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), waitMs);
    return () => clearTimeout(timer);
  }, [value, waitMs]);
  return settled;
}

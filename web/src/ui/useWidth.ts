import { type RefObject, useLayoutEffect, useState } from "react";

/** How wide an element is, in pixels; `otherwise` where there is no layout. */
export function useWidth(element: RefObject<HTMLElement | null>, otherwise: number): number {
  const [width, setWidth] = useState(otherwise);
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    const measure = () => setWidth(target.clientWidth || otherwise);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(target);
    return () => observer.disconnect();
  }, [element, otherwise]);
  return width;
}

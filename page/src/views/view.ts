/** What a view is: an element, and what it does when it comes into sight or what it shows has changed. */

export interface View {
  name: string;
  title: string;
  element: HTMLElement;
  /** Bring it up to date; called only while it is seen. */
  update(): void;
}

/** Wait until a burst of changes is over: at most once a frame. */
export function onceAFrame(work: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

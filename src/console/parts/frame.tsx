import type { ComponentChildren } from 'preact'

interface FrameProps {
  readonly label: string
  readonly kind?: string
  readonly children: ComponentChildren
}

/** A wide thing scrolls by itself, by keyboard too, and not the page with it; a group, not one more landmark. */
export const Frame = ({ label, kind = 'table-frame', children }: FrameProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
  // biome-ignore lint/a11y/useSemanticElements: a fieldset groups inputs, and there are none
  <div role="group" class={kind} aria-label={label} tabIndex={0}>
    {children}
  </div>
)

import type { ComponentChildren } from 'preact'

/** A wide thing scrolls by itself, by keyboard too, and not the page with it. */
export const Frame = ({
  label,
  kind = 'table-frame',
  children,
}: {
  label: string
  kind?: string
  children: ComponentChildren
}) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
  <section class={kind} aria-label={label} tabIndex={0}>
    {children}
  </section>
)

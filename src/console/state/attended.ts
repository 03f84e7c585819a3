/** A person counts as present for this long after the last touch of mouse, screen or keyboard, ms. */
const attendedForMs = 60_000
const signs = ['pointerdown', 'pointermove', 'keydown', 'wheel'] as const

/** The person who opens the page is there. */
let lastMs = Date.now()
for (const sign of signs) {
  addEventListener(
    sign,
    () => {
      lastMs = Date.now()
    },
    { capture: true, passive: true },
  )
}

/** False if the page asks by itself: such requests must not keep an unused session alive. */
export const isAttended = (): boolean => Date.now() - lastMs < attendedForMs

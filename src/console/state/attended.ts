/** A person is there for so long after the last touch of mouse, screen or keyboard, ms. */
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

/** False where the page asks by itself: that must not keep a session alive which nobody uses. */
export const isAttended = (): boolean => Date.now() - lastMs < attendedForMs

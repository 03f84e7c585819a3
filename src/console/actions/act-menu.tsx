import { useId, useRef, useState } from 'preact/hooks'
import { type Act, act } from './act.ts'
import { mayDo } from './policy.ts'

/** Between the menu and the edge of the window, CSS px. */
const edgePx = 8

/** Below its button, and inside the window. */
function place(box: HTMLElement, button: HTMLElement): void {
  const at = button.getBoundingClientRect()
  const { width, height } = box.getBoundingClientRect()
  const below = at.bottom + height + edgePx <= innerHeight
  box.style.left = `${Math.max(edgePx, Math.min(at.right - width, innerWidth - width - edgePx))}px`
  box.style.top = `${below ? at.bottom : Math.max(edgePx, at.top - height)}px`
}

/** What destroys something: two clicks away from a row, and one at a time. The browser closes it by Escape or a click elsewhere. */
export function ActMenu({ acts, on }: { acts: readonly Act[]; on: string }) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const [open, setOpen] = useState(false)
  const allowed = acts.filter(({ actions }) => mayDo(...actions))
  if (allowed.length === 0) return null
  const toggled = (event: Event) => {
    const { newState } = event as Event & { readonly newState: string }
    setOpen(newState === 'open')
    if (newState !== 'open') return
    requestAnimationFrame(() => {
      if (box.current === null || button.current === null) return
      place(box.current, button.current)
      box.current.querySelector('button')?.focus()
    })
  }
  return (
    <>
      <button type="button" class="quiet menu-button" ref={button} popovertarget={id}>
        <span aria-hidden="true">⋯</span>
        <span class="visually-hidden">More for {on}</span>
      </button>
      <div class="menu" id={id} ref={box} popover="auto" onToggle={toggled}>
        {open &&
          allowed.map((each) => (
            <button
              type="button"
              class="quiet danger-text"
              key={each.title}
              onClick={() => {
                box.current?.hidePopover()
                act(each)
              }}
            >
              {each.button ?? each.verb}
              <span class="visually-hidden"> {on}</span>
            </button>
          ))}
      </div>
    </>
  )
}

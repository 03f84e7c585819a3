import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** Below this all rows are there. */
const allMax = 60
/** Rows so far outside of what is seen are there as well, px: a quick scroll meets no gap. */
const aroundPx = 800

export interface Virtual<E extends HTMLElement> {
  /** For the element that holds the rows; each has `data-row` with its key. */
  readonly list: RefObject<E>
  readonly first: number
  /** Behind the last. */
  readonly end: number
  /** What the rows that are not there would take, px. */
  readonly before: number
  readonly after: number
}

/** The part of the element that is seen, from its top: inside of what scrolls around it, and of the window. */
function seenOf(element: HTMLElement): readonly [number, number] {
  const { top } = element.getBoundingClientRect()
  let [from, to] = [0, innerHeight]
  for (let around = element.parentElement; around !== null; around = around.parentElement) {
    if (around.scrollHeight <= around.clientHeight || getComputedStyle(around).overflowY === 'visible') continue
    const box = around.getBoundingClientRect()
    from = Math.max(from, box.top)
    to = Math.min(to, box.bottom)
  }
  return [from - top - aroundPx, to - top + aroundPx]
}

/** A browser takes the keyboard from an element that is put elsewhere, as a row is that moves: here it gets it back. */
function useKeptFocus(list: RefObject<HTMLElement>): void {
  const focused = document.activeElement
  useLayoutEffect(() => {
    if (document.activeElement === focused || !(focused instanceof HTMLElement)) return
    if (list.current?.contains(focused)) focused.focus({ preventScroll: true })
  })
}

/** Of a long list, the rows that can be seen. Heights are measured as rows come; `guessPx` until then. */
export function useVirtual<E extends HTMLElement>(keys: readonly string[], guessPx: number): Virtual<E> {
  const list = useRef<E>(null)
  useKeptFocus(list)
  const heights = useRef(new Map<string, number>())
  const [seen, setSeen] = useState<readonly [number, number]>([0, innerHeight + aroundPx])
  const few = keys.length <= allMax
  useEffect(() => {
    if (few) return
    const look = () => {
      if (list.current !== null) setSeen(seenOf(list.current))
    }
    look()
    document.addEventListener('scroll', look, { capture: true, passive: true })
    addEventListener('resize', look)
    return () => {
      document.removeEventListener('scroll', look, { capture: true })
      removeEventListener('resize', look)
    }
  }, [few])
  useLayoutEffect(() => {
    if (few) return
    for (const row of list.current?.querySelectorAll<HTMLElement>('[data-row]') ?? []) {
      heights.current.set(row.dataset.row ?? '', row.offsetHeight)
    }
  })
  if (few) return { list, first: 0, end: keys.length, before: 0, after: 0 }
  const known = [...heights.current.values()]
  const usualPx = known.length === 0 ? guessPx : known.reduce((sum, height) => sum + height, 0) / known.length
  let [first, end, before, after, top] = [keys.length, 0, 0, 0, 0]
  for (const [at, key] of keys.entries()) {
    const height = heights.current.get(key) ?? usualPx
    const bottom = top + height
    if (bottom < seen[0]) before += height
    else if (top > seen[1]) after += height
    else {
      first = Math.min(first, at)
      end = at + 1
    }
    top = bottom
  }
  return { list, first: Math.min(first, end), end, before, after }
}

import { useSignalEffect } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Machine } from '../../protocol/wire/admin/inspect.ts'
import { moved } from '../state/live.ts'
import { widthOf, type Zoom } from './chart-picture-zoom.tsx'
import { count } from './format.ts'
import { Frame } from './frame.tsx'

const flashMs = 900
const isWithin = (state: string, around: string) => around === '' || state === around || state.startsWith(`${around}.`)

interface PictureProps {
  readonly machine: Machine
  readonly zoom: Zoom
  /** Live instances by state. */
  readonly counts: ReadonlyMap<string, number>
  /** The state of the chosen instance, and its earlier states. */
  readonly lit: string | null
  readonly visited: ReadonlySet<string>
}

const statesIn = (frame: Element) => [...frame.querySelectorAll<SVGGElement>('[data-state]')]

function mark(frame: Element, { counts, lit, visited }: PictureProps): void {
  for (const element of statesIn(frame)) {
    const path = element.dataset.state ?? ''
    const live = [...counts].reduce((sum, [state, times]) => (isWithin(state, path) ? sum + times : sum), 0)
    const leaf = !element.classList.contains('compound')
    element.classList.toggle('has-live', leaf && live > 0)
    element.classList.toggle('lit', lit !== null && path !== '' && isWithin(lit, path))
    element.classList.toggle('visited', leaf && visited.has(path))
    const badge = element.querySelector('[data-count]')
    if (badge !== null) badge.textContent = live > 0 && path !== '' ? count(live) : ''
  }
}

function flash(frame: Element, from: string | null, to: string): void {
  const states = statesIn(frame).filter((element) => element.dataset.state === to)
  const arrows = [...frame.querySelectorAll<SVGGElement>('[data-from]')].filter(
    ({ dataset }) => from !== null && isWithin(from, dataset.from ?? '-') && isWithin(to, dataset.to ?? '-'),
  )
  for (const element of [...states, ...arrows]) {
    element.classList.add('flash')
    setTimeout(() => element.classList.remove('flash'), flashMs)
  }
}

/** The share of the window's height that the picture takes at most, as in the style sheet, and what surrounds it, px. */
const heightShare = 0.76
const padding = 26

function size(frame: HTMLElement, zoom: Zoom): void {
  const svg = frame.querySelector('svg')
  const around = frame.parentElement
  if (svg === null || around === null) return
  const place = { width: around.clientWidth - padding, height: innerHeight * heightShare - padding }
  const width = widthOf(svg, zoom, place)
  svg.style.width = width === null ? '' : `${Math.floor(width)}px`
}

/** The distance between what is lit and the edge of the visible part, px. */
const litMargin = 6
/** The smallest scroll distance. The chart's name at the beginning stays visible if possible. */
const toSee = (from: number, to: number, start: number, end: number) =>
  from < start + litMargin ? from - start - litMargin : Math.max(0, to - end + litMargin)

/** Scrolls the picture, not the page, to what is lit. */
function showLit(frame: HTMLElement): void {
  const around = frame.parentElement
  const element = frame.querySelector('.lit:not(.compound)')
  if (around === null || element === null) return
  const [box, view] = [element.getBoundingClientRect(), around.getBoundingClientRect()]
  around.scrollBy({
    top: toSee(box.top, box.bottom, view.top, view.bottom),
    left: toSee(box.left, box.right, view.left, view.right),
  })
}

/** The picture as the gateway drew it, alive: numbers on the states, the chosen instance lit, what moves flashes. */
export function ChartPicture(props: PictureProps) {
  const frame = useRef<HTMLDivElement>(null)
  const { machine, lit, zoom } = props
  useLayoutEffect(() => {
    if (frame.current !== null) frame.current.innerHTML = machine.svg
  }, [machine.svg])
  useLayoutEffect(() => {
    if (frame.current !== null) size(frame.current, zoom)
  }, [machine.svg, zoom])
  useLayoutEffect(() => {
    if (frame.current !== null) mark(frame.current, props)
  })
  useLayoutEffect(() => {
    if (lit !== null && frame.current !== null) showLit(frame.current)
  }, [lit, zoom])
  useSignalEffect(() => {
    for (const { machine: id, from, to } of moved.value)
      if (frame.current !== null && id === machine.machine) flash(frame.current, from, to)
  })
  return (
    <Frame label={`Picture of the statechart ${machine.title}`} kind={zoom === 'width' ? 'picture' : 'picture sized'}>
      <div ref={frame} />
    </Frame>
  )
}

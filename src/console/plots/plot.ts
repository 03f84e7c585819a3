import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'

/** What a plot draws with, as the page's style has it now: light or dark. */
export interface Ink {
  readonly text: string
  readonly grid: string
  readonly ground: string
  readonly bad: string
  readonly series: readonly string[]
}

/** The size is that of the box, the rest is the plot's own. */
export type PlotOptions = Omit<uPlot.Options, 'width' | 'height'>

const seriesCount = 6
/** CSS px. */
const heightPx = 190

/** A canvas takes no custom property: an element says what one comes to. */
function inkOf(box: HTMLElement): Ink {
  const probe = document.createElement('span')
  box.append(probe)
  const colorOf = (name: string) => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const ink = {
    text: colorOf('muted'),
    grid: colorOf('border'),
    ground: colorOf('surface'),
    bad: colorOf('bad'),
    series: Array.from({ length: seriesCount }, (_, at) => colorOf(`series-${at}`)),
  }
  probe.remove()
  return ink
}

/** Changes where the person changes between light and dark. */
function useScheme(): boolean {
  const asked = useRef(matchMedia('(prefers-color-scheme: dark)'))
  const [dark, setDark] = useState(asked.current.matches)
  useEffect(() => {
    const { current } = asked
    const changed = () => setDark(current.matches)
    current.addEventListener('change', changed)
    return () => current.removeEventListener('change', changed)
  }, [])
  return dark
}

/**
 * Draws into the box. `shape`: what the options were made of; another one makes the plot anew, while other data move in it.
 */
export function usePlot(
  box: RefObject<HTMLDivElement>,
  options: (ink: Ink) => PlotOptions,
  data: uPlot.AlignedData,
  shape: string,
): RefObject<uPlot> {
  const plot = useRef<uPlot | null>(null)
  const dark = useScheme()
  useEffect(() => {
    const { current } = box
    if (current === null) return
    const widthOf = () => Math.max(1, Math.floor(current.clientWidth))
    const made = new uPlot({ ...options(inkOf(current)), width: widthOf(), height: heightPx }, data, current)
    plot.current = made
    const sized = new ResizeObserver(() => {
      if (made.width !== widthOf()) made.setSize({ width: widthOf(), height: heightPx })
    })
    sized.observe(current)
    return () => {
      sized.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [dark, shape])
  useEffect(() => {
    if (plot.current !== null && plot.current.data !== data) plot.current.setData(data)
  }, [data])
  return plot
}

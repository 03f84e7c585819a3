import type uPlot from 'uplot'

/** What somebody has marked, Unix ms. */
export type Brush = (fromMs: number, toMs: number) => void

/** A shorter drag is a click. CSS px. */
const dragPxMin = 6

/** The cursors of all plots of a page move together; each has its own mark. */
export function cursorOf(together: string, brush: Brush | undefined): uPlot.Cursor {
  return {
    y: false,
    points: { size: 7 },
    drag: { x: brush !== undefined, y: false, setScale: false, dist: dragPxMin },
    sync: {
      key: together,
      setSeries: false,
      filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave', sub: () => true },
    },
  }
}

/** Gives away what was marked: the address decides what is shown then. */
export function marked(brush: Brush | undefined): (plot: uPlot) => void {
  return (plot) => {
    const { left, width } = plot.select
    if (width < dragPxMin) return
    const msAt = (px: number) => Math.round(plot.posToVal(px, 'x') * 1_000)
    const [fromMs, toMs] = [msAt(left), msAt(left + width)]
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
    brush?.(fromMs, toMs)
  }
}

/** What a plot is made with stays, while the page gives it another one with each look. */
export const lasting = (brush: Brush | undefined, now: () => Brush | undefined): Brush | undefined =>
  brush && ((fromMs, toMs) => now()?.(fromMs, toMs))

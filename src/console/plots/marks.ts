import type uPlot from 'uplot'
import type { Ink } from './plot.ts'

/** Something that was done, or went wrong, at a moment: a line through each plot of that time. */
export interface Mark {
  /** Unix ms. */
  readonly atMs: number
  readonly text: string
  /** Something went wrong. */
  readonly bad?: boolean
}

/** CSS px. */
const headPx = 4
/** The cursor is at a mark that is so near. CSS px. */
const nearPx = 6

/** A dashed line with a head for each mark, above what was measured. */
export function drawMarks(plot: uPlot, marks: readonly Mark[], ink: Ink): void {
  const { ctx, bbox } = plot
  const { left, top, width, height } = bbox
  const px = devicePixelRatio
  ctx.save()
  ctx.lineWidth = px
  ctx.setLineDash([3 * px, 3 * px])
  for (const { atMs, bad = false } of marks) {
    // Between two pixels a line of one would be two pale ones.
    const x = Math.round(plot.valToPos(atMs / 1_000, 'x', true)) + (ctx.lineWidth % 2) / 2
    if (x < left || x > left + width) continue
    ctx.strokeStyle = ctx.fillStyle = bad ? ink.bad : ink.text
    ctx.beginPath()
    ctx.moveTo(x, top)
    ctx.lineTo(x, top + height)
    ctx.stroke()
    ctx.beginPath()
    ctx.moveTo(x - headPx * px, top)
    ctx.lineTo(x + headPx * px, top)
    ctx.lineTo(x, top + headPx * 1.5 * px)
    ctx.fill()
  }
  ctx.restore()
}

/** The marks beneath the cursor, as a text; empty: none. */
export function markedBelow(plot: uPlot, marks: readonly Mark[]): string {
  const { left = -1 } = plot.cursor
  if (left < 0) return ''
  return marks
    .filter(({ atMs }) => Math.abs(plot.valToPos(atMs / 1_000, 'x') - left) <= nearPx)
    .map(({ text }) => text)
    .join(', ')
}

import type uPlot from 'uplot'
import { dayText, hourText, minuteText } from '../parts/format.ts'
import type { Ink } from './plot.ts'

const dayMs = 86_400_000
const font = '11px system-ui, sans-serif'
/** CSS px of a character of `font`, at most, and around a text. */
const [characterPx, aroundPx] = [6.4, 14]
/** Fewer would leave a person to guess, more would touch each other. CSS px. */
const [acrossPx, upPx] = [76, 38]

const line = ({ grid }: Ink) => ({ stroke: grid, width: 1 })

/** `12:05`, and the day where one begins or where steps are days. */
function timesOf(splits: readonly number[], stepSeconds: number): string[] {
  return splits.map((seconds) => {
    const at = new Date(seconds * 1_000)
    const midnight = at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0
    if (midnight || stepSeconds * 1_000 >= dayMs) return dayText(at)
    return stepSeconds < 60 ? minuteText(at) : hourText(at)
  })
}

/** Of time, in the zone of the person who looks. */
export const timeAxis = (ink: Ink): uPlot.Axis => ({
  stroke: ink.text,
  font,
  size: 26,
  gap: 4,
  space: acrossPx,
  grid: { show: false },
  ticks: { ...line(ink), size: 4 },
  values: (_, splits, _at, _space, stepSeconds) => timesOf(splits, stepSeconds),
})

/** Marks of what is counted: there is no half a request. */
const wholeSteps = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat()

interface Measure {
  readonly show: (value: number) => string
  /** What is counted comes in whole numbers. */
  readonly whole?: boolean
}

/** Of what was measured, each mark with its unit. */
export const measureAxis = (ink: Ink, { show, whole = false }: Measure): uPlot.Axis => ({
  ...(whole ? { incrs: wholeSteps } : {}),
  stroke: ink.text,
  font,
  gap: 4,
  space: upPx,
  grid: line(ink),
  ticks: { show: false },
  size: (_, texts) =>
    Math.ceil(Math.max(0, ...(texts ?? []).map((text) => text?.length ?? 0)) * characterPx) + aroundPx,
  // Values below the smallest unit read alike: one mark says it.
  values: (_, splits) =>
    splits
      .map((value) => (value === 0 ? '0' : show(value)))
      .map((text, at, all) => (all.indexOf(text) === at ? text : '')),
})

/** A round number at least as large: the scale does not jump with every point. */
export function niceTop(max: number): number {
  if (max <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(max))
  return ([1, 2, 2.5, 5].find((step) => step * power >= max) ?? 10) * power
}

/** 1, 2 and 5 of each power of ten: few, and the same ones for every plot. */
export function logSplits(low: number, high: number): number[] {
  const powers = Array.from({ length: 10 }, (_, power) => 10 ** power)
  return powers.flatMap((power) => [1, 2, 5].map((step) => step * power)).filter((ms) => ms >= low && ms <= high)
}

import type { Labels } from './expression.ts'

type Form = 'percent' | 'number' | 'duration'

const place = /\{([a-z_]+)(?:\|([a-z]+))?\}/g

const templates: Readonly<Record<Form, string>> = {
  percent: 'humanizePercentage',
  number: 'humanize',
  duration: 'humanizeDuration',
}

/** Four significant digits without zeros behind them, as Go's `%.4g` for numbers of a person's size. */
const short = (value: number): string => String(Number(value.toPrecision(4)))

const sizes = ['', 'k', 'M', 'G', 'T'] as const

function withSize(value: number): string {
  let [size, left] = [0, value]
  while (Math.abs(left) >= 1_000 && size < sizes.length - 1) [size, left] = [size + 1, left / 1_000]
  return `${short(left)}${sizes[size]}`
}

/** From a second on; shorter ones are a matter of no alert. */
function durationText(seconds: number): string {
  if (seconds < 60) return `${short(seconds)}s`
  const whole = Math.floor(seconds)
  const parts = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor(whole / 3_600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'm'],
    [whole % 60, 's'],
  ] as const
  const from = parts.findIndex(([count]) => count > 0)
  return parts
    .slice(from)
    .map(([count, unit]) => `${count}${unit}`)
    .join(' ')
}

const forms: Readonly<Record<Form, (value: number) => string>> = {
  percent: (value) => `${short(value * 100)}%`,
  number: withSize,
  duration: durationText,
}

const isForm = (form: string): form is Form => Object.hasOwn(forms, form)

/** The summary of a rule in the words of a series, as Prometheus would write it. */
export function summaryText(summary: string, labels: Labels, value: number): string {
  return summary.replaceAll(place, (_, name: string, form = '') => {
    if (name !== 'value') return labels[name] ?? ''
    return isForm(form) ? forms[form](value) : String(value)
  })
}

/** The summary of a rule as Prometheus reads it. */
export function summaryTemplate(summary: string): string {
  return summary.replaceAll(place, (_, name: string, form = '') => {
    if (name !== 'value') return `{{ $labels.${name} }}`
    return isForm(form) ? `{{ $value | ${templates[form]} }}` : '{{ $value }}'
  })
}

/** Words of a document without its links, for a place where they lead nowhere. */
export const withoutLinks = (markdown: string): string => markdown.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')

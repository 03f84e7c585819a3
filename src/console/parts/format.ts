const number = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit' })
const dated = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
const hours = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const month = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' })
export const nothing = '–'

/** Orders names as people do: rack-2 before rack-10. */
export const byWords = new Intl.Collator('en', { numeric: true }).compare

export const count = (value: number): string => whole.format(value)
export const amount = (value: number): string => (value >= 100 ? whole.format(value) : number.format(value))

/** Tokens in and out; each may be unknown. */
export const tokenPair = (read: number | null, written: number | null): string =>
  read === null && written === null
    ? nothing
    : [read, written].map((value) => (value === null ? nothing : count(value))).join(' / ')

export const percent = (share: number): string => `${whole.format(share * 100)} %`

/** 840 ms, 1.2 s, 3 min. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return nothing
  if (ms < 1) return '< 1 ms'
  if (ms < 1_000) return `${whole.format(ms)} ms`
  if (ms < 90_000) return `${number.format(ms / 1_000)} s`
  if (ms < 5_400_000) return `${whole.format(ms / 60_000)} min`
  if (ms < 129_600_000) return `${number.format(ms / 3_600_000)} h`
  return `${whole.format(ms / 86_400_000)} d`
}

/** To the second: a clock that goes on is not read more closely. */
export function ago(iso: string, nowMs: number): string {
  const ms = nowMs - Date.parse(iso)
  return ms < 1_000 ? 'just now' : `${duration(Math.round(ms / 1_000) * 1_000)} ago`
}
export const clockTime = (iso: string): string => {
  const at = new Date(iso)
  return `${clock.format(at)}.${String(at.getMilliseconds()).padStart(3, '0')}`
}
/** A month of UTC. */
export const monthOf = (at: Date): string => month.format(at)
/** Day and time. */
export const fullTime = (iso: string): string => dated.format(new Date(iso))
/** Marks of an axis: `12:05`, `12:05:30`, `26 Nov`. */
export const hourText = (at: Date): string => hours.format(at)
export const minuteText = (at: Date): string => clock.format(at)
export const dayText = (at: Date): string => date.format(at)
/** Of a point, Unix ms. */
export const momentText = (ms: number): string => `${dayText(new Date(ms))}, ${minuteText(new Date(ms))}`
/** Within a day the time is enough. */
export const shortTime = (iso: string): string =>
  Date.now() - Date.parse(iso) < 86_400_000 ? clock.format(new Date(iso)) : day.format(new Date(iso))

/** How many digits of wei make one, and how many of them are shown. */
export const units = { ETH: [18, 6], gwei: [9, 3], wei: [0, 0] } as const
export type Unit = keyof typeof units

/** How many digits of a smaller amount are shown: what is not nothing never looks like it. */
const leastDigits = 3

/** Wei in a unit, cut after the digits that an eye takes in; the exact number stands in the title. */
export function inUnit(wei: string, unit: Unit): string {
  const [whole, fraction = ''] = exactIn(wei, unit).split('.')
  const first = fraction.search(/[1-9]/)
  const digits = whole === '0' && first >= 0 ? Math.max(units[unit][1], first + leastDigits) : units[unit][1]
  const shown = fraction.slice(0, digits).replace(/0+$/, '')
  return `${BigInt(whole ?? 0).toLocaleString('en')}${shown === '' ? '' : `.${shown}`}`
}

/** All digits, as a person types them. */
export function exactIn(wei: string, unit: Unit): string {
  const [digits] = units[unit]
  const one = 10n ** BigInt(digits)
  const fraction = String(BigInt(wei) % one)
    .padStart(digits, '0')
    .slice(0, digits)
    .replace(/0+$/, '')
  return `${BigInt(wei) / one}${digits === 0 || fraction === '' ? '' : `.${fraction}`}`
}

/** What a person has typed, in wei; null: no amount, or a part of a wei. */
export function weiTyped(text: string, unit: Unit): bigint | null {
  const [digits] = units[unit]
  const [, whole, fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(text.trim()) ?? []
  if (whole === undefined || fraction.replace(/0+$/, '').length > digits) return null
  return BigInt(whole) * 10n ** BigInt(digits) + BigInt(fraction.slice(0, digits).padEnd(digits, '0') || '0')
}

export const shortId = (id: string): string => (id.length <= 16 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`)

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short', hour: '2-digit', minute: '2-digit' })
const dated = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
export const nothing = '–'

export const count = (value: number): string => whole.format(value)
export const amount = (value: number): string => (value >= 100 ? whole.format(value) : number.format(value))

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

export const ago = (iso: string, nowMs: number): string => `${duration(Math.max(0, nowMs - Date.parse(iso)))} ago`
export const clockTime = (iso: string): string => {
  const at = new Date(iso)
  return `${clock.format(at)}.${String(at.getMilliseconds()).padStart(3, '0')}`
}
/** Day and time. */
export const fullTime = (iso: string): string => dated.format(new Date(iso))
/** Within a day the time is enough. */
export const shortTime = (iso: string): string =>
  Date.now() - Date.parse(iso) < 86_400_000 ? clock.format(new Date(iso)) : day.format(new Date(iso))

const weiPerEther = 10n ** 18n

/** Exact wei as a decimal of 18 places, cut after six: for the eye; the exact number stands in the title. */
export function ether(wei: string): string {
  const amountWei = BigInt(wei)
  const fraction = String(amountWei % weiPerEther)
    .padStart(18, '0')
    .slice(0, 6)
    .replace(/0+$/, '')
  const text = `${(amountWei / weiPerEther).toLocaleString('en')}${fraction === '' ? '' : `.${fraction}`}`
  return text === '0' && amountWei > 0n ? '< 0.000001' : text
}

export const shortId = (id: string): string => (id.length <= 16 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`)

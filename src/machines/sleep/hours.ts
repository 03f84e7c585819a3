import { hoursForm } from '../../protocol/wire/nodes/hours-form.ts'

const pattern = new RegExp(hoursForm)
const minutesADay = 24 * 60

/** A part of each day, in one time zone. */
export interface Hours {
  /** Minutes since midnight; the end does not belong to it. Where it lies before the beginning, midnight lies between. */
  readonly from: number
  readonly to: number
  /** A name of the IANA database; null: that of the computer that asks. */
  readonly timeZone: string | null
}

/** Reads `07:00-23:00` or `07:00-23:00 Europe/Berlin`. null: it is neither, or no such time zone is known. */
export function hoursOf(text: string): Hours | null {
  const [whole, fromHour, fromMinute, toHour, toMinute, timeZone = null] = pattern.exec(text) ?? []
  if (whole === undefined) return null
  if (timeZone !== null && !isTimeZone(timeZone)) return null
  const from = Number(fromHour) * 60 + Number(fromMinute)
  const to = Number(toHour) * 60 + Number(toMinute)
  return from === to ? null : { from, to, timeZone }
}

function isTimeZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en-GB', { timeZone }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}

/** Minutes since midnight there. */
function minuteOf(unixMs: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  const [hour = '0', minute = '0'] = format.format(unixMs).split(':')
  return (Number(hour) * 60 + Number(minute)) % minutesADay
}

/** `zoneElse`: the time zone of hours that name none. */
export function isWithin({ from, to, timeZone }: Hours, unixMs: number, zoneElse: string): boolean {
  const minute = minuteOf(unixMs, timeZone ?? zoneElse)
  return from < to ? minute >= from && minute < to : minute >= from || minute < to
}

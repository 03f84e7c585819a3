import { hoursOf, isWithin } from '../../machines/sleep/hours.ts'
import type { YieldProbe } from './probe.ts'

export const hours: YieldProbe = {
  name: 'hours',
  about: 'it is outside these hours (hours=18:00-08:00, in the time zone of this computer)',
  make: (value, { now, timeZone }) => {
    const known = value === null ? null : hoursOf(value)
    if (known === null) {
      return 'hours takes the hours in which the computer works for others, such as hours=18:00-08:00 or "hours=18:00-08:00 Europe/Berlin".'
    }
    return () => Promise.resolve(!isWithin(known, now(), timeZone))
  },
}

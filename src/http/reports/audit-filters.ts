import { limitOf } from '../frame/query.ts'

/** Of the lists of events (§17). */
export const filter = (description: string, pattern = /^[^\u0000-\u001f\u007f]{1,128}$/u) =>
  ({ kind: 'text', pattern, required: false, description }) as const

export const eventLimit = limitOf(100, 1_000)
export const roleFilter = filter('`admin`, `operator` or `viewer`', /^(?:admin|operator|viewer)$/)

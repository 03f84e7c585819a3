import { limitOf, oneOf } from '../frame/query.ts'

/** Of the lists of events (§17). */
export const eventLimit = limitOf(100, 1_000)
export const roleFilter = oneOf(['admin', 'operator', 'viewer'], '`admin`, `operator` or `viewer`')

import { Problem } from '../errors.ts'
import { descriptors } from '../host/descriptors.ts'
import { failureName } from '../log.ts'

/**
 * Codes by which driver and server say that the database is away, starts, stops, takes no writes, or has no room, memory or connection
 * left: the caller may try again, nothing is wrong with the request. SQLSTATE classes 08, 53, 57P and 58, a query that ran out of its
 * time or was never answered, a server that became a standby; and what the system says of a server that cannot be reached.
 */
const outageCode =
  /^(E(CONNREFUSED|CONNRESET|CONNABORTED|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN)|ENOENT|ENOTFOUND|CONNECTION_(CLOSED|ENDED|DESTROYED)|CONNECT_TIMEOUT|NoAnswer|08...|53...|57P0.|57014|58...|25006|25P0[34])$/
/** Codes for a process without a free descriptor. Bun then reports a connection as refused. */
const descriptorCode = /^(EMFILE|ENFILE)$/

export type Outage = 'database_away' | 'descriptors_exhausted'

/** null: the error is of another kind. */
export function outageOf(error: unknown): Outage | null {
  const failure = failureName(error)
  if (descriptorCode.test(failure)) return 'descriptors_exhausted'
  if (!outageCode.test(failure)) return null
  return failure === 'ECONNREFUSED' && descriptors.exhausted() ? 'descriptors_exhausted' : 'database_away'
}

/** The problem for anything thrown: 503 while the database is away, 500 for a defect. */
export const problemFor = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(outageOf(error) === null ? 'internal_error' : 'service_unavailable')

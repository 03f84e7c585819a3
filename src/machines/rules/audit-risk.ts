import type { AdminRole, AdminRoute } from './admin-route.ts'
import { adminRoutes } from './approval-policy.ts'

/** The verdict of the audit summary about the events of its window (§16). */
export type RiskStatus = 'clear' | 'watch' | 'review'

type Category = AdminRoute['category']

const rows: readonly AdminRoute[] = Object.values(adminRoutes)
const sensitiveCategories = new Set<Category>(['billing', 'retention', 'data_export'])
/** A HEAD request is answered like the GET of its route. */
const askedMethods = (method: string) => (method === 'GET' ? ['GET', 'HEAD'] : [method])

export interface Place {
  readonly method: string
  readonly pathTemplate: string
}

const placeKey = ({ method, pathTemplate }: Place) => `${method} ${pathTemplate}`

const sensitiveRows = rows.filter(({ category }) => sensitiveCategories.has(category))
const sensitiveByPlace = new Map(
  sensitiveRows.flatMap(({ method, path, category }) =>
    askedMethods(method).map((asked) => [placeKey({ method: asked, pathTemplate: path }), category] as const),
  ),
)

/** The routes for money, exports and deletions. */
export const sensitivePlaces: readonly Place[] = sensitiveRows.flatMap(({ method, path }) =>
  askedMethods(method).map((asked) => ({ method: asked, pathTemplate: path })),
)

/** null: a call that is not sensitive. */
export function sensitiveCategory(place: Place): Category | null {
  return sensitiveByPlace.get(placeKey(place)) ?? null
}

export interface CommandFacts {
  readonly action: string
  readonly actorType: string
  readonly reasonPresent: boolean
}

const commandRow = (action: string) => rows.find(({ command }) => command === action)

/** A customer's command to its own node belongs to private jobs. */
export function commandCategory(action: string): Category {
  return commandRow(action)?.category ?? 'private_jobs'
}

/**
 * True if a person should review the command: only an admin may send it, or its reason is missing. A customer needs no
 * reason.
 */
export function needsReview({ action, actorType, reasonPresent }: CommandFacts): boolean {
  if (actorType !== 'admin_token') return false
  const row = commandRow(action)
  if (row === undefined) return false
  return row.role === ('admin' satisfies AdminRole) || (row.reasonRequired && !reasonPresent)
}

export interface RiskThresholds {
  /** The numbers of denied calls: SVC_AUDIT_WATCH_DENIED, SVC_AUDIT_REVIEW_DENIED. */
  readonly watchDenied: number
  readonly reviewDenied: number
  /** The numbers of calls with a 5xx answer: SVC_AUDIT_WATCH_ERRORS, SVC_AUDIT_REVIEW_ERRORS. */
  readonly watchErrors: number
  readonly reviewErrors: number
}

export interface RiskFacts {
  readonly reviewActions: number
  readonly denied: number
  readonly errors: number
  /** True if there were more events than the summary read. */
  readonly truncated: boolean
}

export function riskStatus({ reviewActions, denied, errors, truncated }: RiskFacts, at: RiskThresholds): RiskStatus {
  if (reviewActions > 0 || denied >= at.reviewDenied || errors >= at.reviewErrors) return 'review'
  if (denied >= at.watchDenied || errors >= at.watchErrors || truncated) return 'watch'
  return 'clear'
}

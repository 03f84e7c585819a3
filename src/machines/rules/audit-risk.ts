import type { AdminRole, AdminRoute } from './admin-route.ts'

/** The verdict of the audit summary about the events of its window (§16). */
export type RiskStatus = 'clear' | 'watch' | 'review'

type Category = AdminRoute['category']

const sensitiveCategories = new Set<Category>(['billing', 'retention', 'data_export'])
/** A HEAD request is answered like the GET of its route. */
const askedMethods = (method: string) => (method === 'GET' ? ['GET', 'HEAD'] : [method])

export interface Place {
  readonly method: string
  readonly pathTemplate: string
}

const placeKey = ({ method, pathTemplate }: Place) => `${method} ${pathTemplate}`

export interface CommandFacts {
  readonly action: string
  readonly actorType: string
  readonly reasonPresent: boolean
}

/** What of the audit somebody should look at, by the table of admin routes. */
export class AuditRisk {
  /** The routes for money, exports and deletions. */
  readonly sensitivePlaces: readonly Place[]
  readonly #categories: ReadonlyMap<string, Category>

  constructor(private readonly rows: readonly AdminRoute[]) {
    const sensitive = rows.filter(({ category }) => sensitiveCategories.has(category))
    const places = sensitive.flatMap(({ method, path, category }) =>
      askedMethods(method).map((asked) => ({ method: asked, pathTemplate: path, category })),
    )
    this.sensitivePlaces = places.map(({ category: _, ...place }) => place)
    this.#categories = new Map(places.map(({ category, ...place }) => [placeKey(place), category]))
  }

  /** null: a call that is not sensitive. */
  sensitiveCategory(place: Place): Category | null {
    return this.#categories.get(placeKey(place)) ?? null
  }

  /** A customer's command to its own node belongs to private jobs. */
  commandCategory(action: string): Category {
    return this.#commandRow(action)?.category ?? 'private_jobs'
  }

  /**
   * True if somebody should look at the command: only an admin may send it, or its reason is missing. A customer needs
   * no reason.
   */
  needsReview({ action, actorType, reasonPresent }: CommandFacts): boolean {
    if (actorType !== 'admin_token') return false
    const row = this.#commandRow(action)
    if (row === undefined) return false
    return row.role === ('admin' satisfies AdminRole) || (row.reasonRequired && !reasonPresent)
  }

  #commandRow(action: string): AdminRoute | undefined {
    return this.rows.find(({ command }) => command === action)
  }
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

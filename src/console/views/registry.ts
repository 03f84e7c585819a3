import type { ComponentType } from 'preact'
import { Audit } from './audit/audit.tsx'
import { Customers } from './customers/customers.tsx'
import { Jobs } from './jobs.tsx'
import { Models } from './models.tsx'
import { Money } from './money/money.tsx'
import { Now } from './now/now.tsx'
import { Plan } from './plan.tsx'
import { Pool } from './pool.tsx'
import { Requests } from './requests/requests.tsx'
import { Statecharts } from './statecharts/statecharts.tsx'
import { Traffic } from './traffic/traffic.tsx'
import { TryIt } from './try-it.tsx'

export interface View {
  /** Stands behind the `#` of the address. */
  readonly id: string
  readonly title: string
  readonly View: ComponentType
  /** One of these routes must be there, or the view is not. */
  readonly needs: readonly string[]
}

/** The pages of the console, in their order: a view is a file and a line. */
export const views: readonly View[] = [
  { id: 'now', title: 'Now', View: Now, needs: ['GET /v1/admin/failures'] },
  { id: 'pool', title: 'Pool', View: Pool, needs: ['GET /v1/admin/nodes'] },
  { id: 'models', title: 'Models', View: Models, needs: ['GET /v1/admin/models'] },
  { id: 'plan', title: 'Plan', View: Plan, needs: ['GET /v1/admin/plan'] },
  { id: 'customers', title: 'Customers', View: Customers, needs: ['GET /v1/admin/customers'] },
  { id: 'statecharts', title: 'Statecharts', View: Statecharts, needs: ['GET /v1/admin/machines'] },
  { id: 'traffic', title: 'Traffic', View: Traffic, needs: ['GET /v1/admin/inspect'] },
  { id: 'requests', title: 'Requests', View: Requests, needs: ['GET /v1/admin/requests'] },
  { id: 'jobs', title: 'Jobs', View: Jobs, needs: ['GET /v1/admin/jobs', 'GET /v1/admin/webhooks'] },
  { id: 'money', title: 'Money', View: Money, needs: ['GET /v1/admin/ledger/proof', 'GET /v1/admin/payout-batches'] },
  { id: 'audit', title: 'Audit', View: Audit, needs: ['GET /v1/admin/audit/summary', 'GET /v1/admin/approval-policy'] },
  { id: 'try', title: 'Try it', View: TryIt, needs: ['POST /v1/api/chat/completions'] },
]

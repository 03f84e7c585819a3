import type * as adminViews from '../../http/views/admin.ts'
import type * as alertViews from '../../http/views/alerts/alerts.ts'
import type * as enrollmentViews from '../../http/views/enrollment.ts'
import type * as jobViews from '../../http/views/job.ts'
import type * as joinViews from '../../http/views/join.ts'
import type * as planViews from '../../http/views/memory-plan.ts'
import type * as moneyViews from '../../http/views/money.ts'
import type * as discoveryViews from '../../http/views/node-discovery.ts'
import type * as probeViews from '../../http/views/node-probe.ts'
import type * as nodeViews from '../../http/views/nodes.ts'
import type * as operatorViews from '../../http/views/operators.ts'
import type * as ownViews from '../../http/views/own.ts'
import type * as policyViews from '../../http/views/policy-preview.ts'

/** How rows look from outside. */
export type Views = typeof adminViews &
  typeof alertViews &
  typeof enrollmentViews &
  typeof jobViews &
  typeof joinViews &
  typeof planViews &
  typeof moneyViews &
  typeof discoveryViews &
  typeof probeViews &
  typeof nodeViews &
  typeof operatorViews &
  typeof ownViews &
  typeof policyViews

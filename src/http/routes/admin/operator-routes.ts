import { type AnyElysia, Elysia } from 'elysia'
import type { HttpContext } from '../../frame/context.ts'
import { accessEvents } from '../../reports/access-events.ts'
import { approvalEvents } from '../../reports/approval-events.ts'
import { approvalPolicy } from '../../reports/approval-policy.ts'
import { auditSummary } from '../../reports/audit-summary.ts'
import { booksCheck } from '../../reports/books-check.ts'
import { commandEvents } from '../../reports/command-events.ts'
import { costs } from '../../reports/costs.ts'
import { failuresReport } from '../../reports/failures.ts'
import { firstTokensReport } from '../../reports/first-tokens.ts'
import { invoice } from '../../reports/invoice.ts'
import { ledgerProof } from '../../reports/ledger-proof.ts'
import { marksReport } from '../../reports/marks.ts'
import { type AnyReport, reportRoutes } from '../../reports/report.ts'
import { requestReport } from '../../reports/requests.ts'
import { trafficReport } from '../../reports/traffic.ts'
import { treasury } from '../../reports/treasury.ts'
import { usageExport } from '../../reports/usage-export.ts'
import { actionRoutes } from './actions.ts'
import { auditExport, auditVerdict } from './audit.ts'
import { commandRead } from './commands.ts'
import { customerRead } from './customers.ts'
import { explanation } from './explain.ts'
import { inspectRoutes } from './inspect.ts'
import { listRoutes } from './lists.ts'
import { nodeRead } from './nodes.ts'
import { requestRead } from './requests.ts'
import { machineRoutes } from './statecharts.ts'

const reports: readonly AnyReport[] = [
  auditVerdict,
  auditExport,
  customerRead,
  nodeRead,
  explanation,
  requestRead,
  commandRead,
  usageExport,
  invoice,
  costs,
  treasury,
  accessEvents,
  approvalEvents,
  commandEvents,
  auditSummary,
  approvalPolicy,
  ledgerProof,
  requestReport,
  trafficReport,
  firstTokensReport,
  marksReport,
  failuresReport,
  booksCheck,
]

/** Everything that operators can read or do. */
export const operatorRoutes = (context: HttpContext): AnyElysia =>
  new Elysia()
    .use(reportRoutes(context, reports))
    .use(machineRoutes(context))
    .use(inspectRoutes(context))
    .use(listRoutes(context))
    .use(actionRoutes(context))

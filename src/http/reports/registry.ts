import { type AnyElysia, Elysia } from 'elysia'
import type { HttpContext } from '../frame/context.ts'
import { accessEvents } from './access-events.ts'
import { approvalEvents } from './approval-events.ts'
import { approvalPolicy } from './approval-policy.ts'
import { auditSummary } from './audit-summary.ts'
import { booksCheck } from './books-check.ts'
import { commandEvents } from './command-events.ts'
import { costs } from './costs.ts'
import { invoice } from './invoice.ts'
import { ledgerProof } from './ledger-proof.ts'
import { type AnyReport, reportRoute } from './report.ts'
import { requestReport } from './requests.ts'
import { trafficReport } from './traffic.ts'
import { treasury } from './treasury.ts'
import { usageExport } from './usage-export.ts'

export const reports: readonly AnyReport[] = [
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
  booksCheck,
]

export const reportRoutes = (context: HttpContext): AnyElysia =>
  reports.reduce<AnyElysia>((app, spec) => app.use(reportRoute(context, spec)), new Elysia())

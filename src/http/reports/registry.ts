import { type AnyElysia, Elysia } from 'elysia'
import type { HttpContext } from '../exchange.ts'
import { ledgerProof } from './ledger-proof.ts'
import { type AnyReport, reportRoute } from './report.ts'
import { treasury } from './treasury.ts'
import { usageExport } from './usage-export.ts'

export const reports: readonly AnyReport[] = [usageExport, treasury, ledgerProof]

export const reportRoutes = (context: HttpContext): AnyElysia =>
  reports.reduce<AnyElysia>((app, spec) => app.use(reportRoute(context, spec)), new Elysia())

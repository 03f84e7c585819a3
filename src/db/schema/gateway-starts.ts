import { pgTable, text } from 'drizzle-orm/pg-core'
import type { StartId } from '../../ids.ts'
import { instant } from '../columns.ts'

/** When gateways of this database started: plots show it beside what went through. */
export const gatewayStarts = pgTable('gateway_starts', {
  startId: text().$type<StartId>().primaryKey(),
  startedAt: instant().notNull(),
})

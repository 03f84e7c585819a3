import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { EnrollmentTokenList } from '../../../protocol/wire/nodes/enrollment.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { enrollmentTokenView } from '../../views/enrollment.ts'

const tags = ['Nodes (extension)']
const path = '/v1/admin/enrollment-tokens'
const listQuery = { limit: limitOf(100, 1_000) }

/** Enrolment tokens (§22, §23). The raw token stands in the answer that made it and nowhere else. */
export const enrollmentTokenRoutes = (context: HttpContext) => {
  const { gateway } = context
  return new Elysia().use(admin(context)).get(
    path,
    async ({ query: { limit } }) => {
      const now = Date.now()
      const tokens = (await gateway.enrollment.tokens(limit)).map((record) => enrollmentTokenView(record, now))
      return {
        object: `${brand}.admin.enrollment_token_list` as const,
        generated_at: isoTime(now),
        count: tokens.length,
        enrollment_tokens: tokens,
      }
    },
    {
      action: 'node.enroll.list',
      response: { 200: EnrollmentTokenList },
      ...asks(listQuery),
      detail: describe({ summary: 'List enrolment tokens, including used and expired ones', tags }),
    },
  )
}

import { EnrollmentTokenList } from '../../../protocol/wire/nodes/enrollment.ts'
import { limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { enrollmentTokenView } from '../../views/enrollment.ts'

/** Enrolment tokens (§22, §23). */
export const enrollmentTokenList = report({
  action: 'node.enroll.list',
  tag: 'Nodes (extension)',
  summary: 'List enrolment tokens, including used and expired ones',
  query: { limit: limitOf(100, 1_000) },
  response: EnrollmentTokenList,
  read: async ({ gateway }, { query: { limit }, nowMs }) => {
    const tokens = (await gateway.enrollment.tokens(limit)).map((record) => enrollmentTokenView(record, nowMs))
    return listOf('enrollment_token_list', 'enrollment_tokens', tokens, nowMs)
  },
})

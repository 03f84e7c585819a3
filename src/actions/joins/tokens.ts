import { EnrollmentTokenList } from '../../protocol/wire/nodes/enrollment.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

export const tokenList = defineList({
  name: 'node.enroll.list',
  at: 'GET /v1/admin/enrollment-tokens',
  role: 'operator',
  category: 'node_control',
  summary: 'List enrolment tokens, including used and expired ones',
  tag: 'Nodes (extension)',
  query: { limit: limitOf(100, 1_000) },
  result: EnrollmentTokenList,
  rows: 'enrollment_tokens',
  read: async ({ gateway, views, query: { limit }, nowMs }) =>
    (await gateway.enrollment.tokens(limit)).map((token) => views.enrollmentTokenView(token, nowMs)),
  command: {
    words: 'nodes tokens',
    options: {},
    after: 'enroll',
    columns: [
      ['TOKEN', (token) => token.token_id],
      ['NAME', (token) => token.name],
      ['STATE', (token) => token.state],
      ['EXPIRES', (token, print) => print.time(token.expires_at)],
      ['VISIBILITY', (token) => token.visibility],
      ['NODE CLASS', (token) => token.node_class],
      ['NODE', (token) => token.node_id],
    ],
    empty: 'There are no enrolment tokens. Make one with: ./penstock nodes enroll NAME',
  },
})
